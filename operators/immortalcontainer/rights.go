package immortalcontainer

// The permissions of the operator; controller-gen writes them to config/rbac/role.yaml. No permission for Secrets is
// needed, because the kubelet reads the Secrets of a pod. The admission plugin OwnerReferencesPermissionEnforcement
// requires update on finalizers for owner references with blockOwnerDeletion.
//
// +kubebuilder:rbac:roleName=immortalcontainers-operator,groups="",resources=pods,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:roleName=immortalcontainers-operator,groups=events.k8s.io,resources=events,verbs=create;patch
// +kubebuilder:rbac:roleName=immortalcontainers-operator,groups=immortalcontainer.flugel.it,resources=immortalcontainers,verbs=list;watch;patch
// +kubebuilder:rbac:roleName=immortalcontainers-operator,groups=immortalcontainer.flugel.it,resources=immortalcontainers/status,verbs=patch
// +kubebuilder:rbac:roleName=immortalcontainers-operator,groups=immortalcontainer.flugel.it,resources=immortalcontainers/finalizers,verbs=update

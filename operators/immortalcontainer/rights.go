package immortalcontainer

// What the operator may do, as controller-gen writes it into config/rbac/role.yaml. It needs no Secrets: those that a
// pod uses are read by its node. Updating finalizers is what the admission plugin OwnerReferencesPermissionEnforcement
// asks of whoever lets an owner's deletion wait for its pod.
//
// +kubebuilder:rbac:roleName=immortalcontainers-operator,groups="",resources=pods,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:roleName=immortalcontainers-operator,groups=events.k8s.io,resources=events,verbs=create;patch
// +kubebuilder:rbac:roleName=immortalcontainers-operator,groups=immortalcontainer.flugel.it,resources=immortalcontainers,verbs=list;watch;patch
// +kubebuilder:rbac:roleName=immortalcontainers-operator,groups=immortalcontainer.flugel.it,resources=immortalcontainers/status,verbs=patch
// +kubebuilder:rbac:roleName=immortalcontainers-operator,groups=immortalcontainer.flugel.it,resources=immortalcontainers/finalizers,verbs=update

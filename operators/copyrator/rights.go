package copyrator

// What the operator may do, as controller-gen writes it into config/rbac/role.yaml. What it needs for Secrets is in
// config/secrets, and is not granted without being asked for. Updating finalizers is what the admission plugin
// OwnerReferencesPermissionEnforcement asks of whoever lets an owner's deletion wait for its children. A test fails
// without a right that it needs, and when all have passed, if there is one that none of them needed.
//
// +kubebuilder:rbac:roleName=copyrator-operator,groups="",resources=configmaps,verbs=create;delete;get;list;patch;watch
// +kubebuilder:rbac:roleName=copyrator-operator,groups=events.k8s.io,resources=events,verbs=create;patch
// +kubebuilder:rbac:roleName=copyrator-operator,groups=flant.com,resources=copyrators,verbs=list;patch;watch
// +kubebuilder:rbac:roleName=copyrator-operator,groups=flant.com,resources=copyrators/finalizers,verbs=update
// +kubebuilder:rbac:roleName=copyrator-operator,groups=flant.com,resources=copyrators/status,verbs=patch
// +kubebuilder:rbac:roleName=copyrator-namespaces,groups="",resources=namespaces,verbs=list;watch

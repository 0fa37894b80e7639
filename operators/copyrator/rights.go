package copyrator

// The permissions of the operator; controller-gen writes them to config/rbac/role.yaml. The permissions for Secrets are an
// optional component in config/secrets. The admission plugin OwnerReferencesPermissionEnforcement requires update on
// finalizers for owner references with blockOwnerDeletion. Tests fail if a permission is missing and if one is never used.
//
// +kubebuilder:rbac:roleName=copyrator-operator,groups="",resources=configmaps,verbs=create;delete;get;list;patch;watch
// +kubebuilder:rbac:roleName=copyrator-operator,groups=events.k8s.io,resources=events,verbs=create;patch
// +kubebuilder:rbac:roleName=copyrator-operator,groups=flant.com,resources=copyrators,verbs=list;patch;watch
// +kubebuilder:rbac:roleName=copyrator-operator,groups=flant.com,resources=copyrators/finalizers,verbs=update
// +kubebuilder:rbac:roleName=copyrator-operator,groups=flant.com,resources=copyrators/status,verbs=patch
// +kubebuilder:rbac:roleName=copyrator-namespaces,groups="",resources=namespaces,verbs=list;watch

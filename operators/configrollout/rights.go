package configrollout

// The permissions of the operator; controller-gen writes them to config/rbac/role.yaml. The permission to read Secrets is
// in config/secrets, together with the flag that uses it. The operator creates nothing but events and deletes nothing.
// Tests fail if a permission is missing and if one is never used.
//
// +kubebuilder:rbac:roleName=configrollout-operator,groups="",resources=configmaps,verbs=get;list;watch
// +kubebuilder:rbac:roleName=configrollout-operator,groups="",resources=namespaces,verbs=list;watch
// +kubebuilder:rbac:roleName=configrollout-operator,groups=apps,resources=daemonsets;deployments;statefulsets,verbs=list;patch;watch
// +kubebuilder:rbac:roleName=configrollout-operator,groups=events.k8s.io,resources=events,verbs=create;patch

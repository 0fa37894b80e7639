package myapp

// The permissions of the operator; controller-gen writes them to config/rbac/role.yaml. No permission for Secrets and
// ConfigMaps is needed, because the kubelet reads those of a pod. The operator deletes no claims; garbage collection does,
// according to spec.deletionPolicy. The admission plugin OwnerReferencesPermissionEnforcement requires update on
// finalizers for owner references with blockOwnerDeletion. Tests fail if a permission is missing and if one is never used.
//
// +kubebuilder:rbac:roleName=myapp-operator,groups="",resources=persistentvolumeclaims,verbs=create;get;list;patch;watch
// +kubebuilder:rbac:roleName=myapp-operator,groups="",resources=pods,verbs=list;watch
// +kubebuilder:rbac:roleName=myapp-operator,groups="",resources=services,verbs=create;delete;get;list;patch;watch
// +kubebuilder:rbac:roleName=myapp-operator,groups=apps,resources=deployments,verbs=create;delete;get;list;patch;watch
// +kubebuilder:rbac:roleName=myapp-operator,groups=autoscaling,resources=horizontalpodautoscalers,verbs=create;delete;get;list;patch;watch
// +kubebuilder:rbac:roleName=myapp-operator,groups=events.k8s.io,resources=events,verbs=create;patch
// +kubebuilder:rbac:roleName=myapp-operator,groups=mycompany.com,resources=myapps,verbs=list;watch
// +kubebuilder:rbac:roleName=myapp-operator,groups=mycompany.com,resources=myapps/finalizers,verbs=update
// +kubebuilder:rbac:roleName=myapp-operator,groups=mycompany.com,resources=myapps/status,verbs=patch
// +kubebuilder:rbac:roleName=myapp-operator,groups=networking.k8s.io,resources=ingresses,verbs=create;delete;get;list;patch;watch

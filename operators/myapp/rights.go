package myapp

// What the operator may do, as controller-gen writes it into config/rbac/role.yaml. It reads no Secrets and no ConfigMaps:
// what pods need of them is read by their nodes. It deletes no claims: that is left to garbage collection, which follows
// spec.deletionPolicy. Updating finalizers is what the admission plugin OwnerReferencesPermissionEnforcement asks of whoever
// lets an owner's deletion wait for its children. A test fails without a right that it needs, and when all have passed, if
// there is one that none of them needed.
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

package configrollout

// What the operator may do, as controller-gen writes it into config/rbac/role.yaml. It reads no Secrets: config/secrets adds
// that right together with the flag that makes use of it. It creates nothing but events and deletes nothing. A test fails
// without a right that it needs, and when all have passed, if there is one that none of them needed.
//
// +kubebuilder:rbac:roleName=configrollout-operator,groups="",resources=configmaps,verbs=get;list;watch
// +kubebuilder:rbac:roleName=configrollout-operator,groups="",resources=namespaces,verbs=list;watch
// +kubebuilder:rbac:roleName=configrollout-operator,groups=apps,resources=daemonsets;deployments;statefulsets,verbs=list;patch;watch
// +kubebuilder:rbac:roleName=configrollout-operator,groups=events.k8s.io,resources=events,verbs=create;patch

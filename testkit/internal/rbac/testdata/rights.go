package rights

// +kubebuilder:rbac:roleName=op,groups="",resources=configmaps,verbs=list;watch;patch

package database

// What the operators may do, as controller-gen writes it into config/rbac/role.yaml. Secrets are made and watched by their
// metadata; of those that exist nothing but the metadata is read. Updating finalizers is what the admission plugin
// OwnerReferencesPermissionEnforcement asks of whoever lets an owner's deletion wait for its children. A test fails without
// a right that it needs, and when all have passed, if there is one that none of them needed.
//
// +kubebuilder:rbac:roleName=database-operator,groups="",resources=configmaps,verbs=create;delete;get;list;patch;watch
// +kubebuilder:rbac:roleName=database-operator,groups="",resources=persistentvolumeclaims,verbs=create;delete;get;list;patch;watch
// +kubebuilder:rbac:roleName=database-operator,groups="",resources=pods,verbs=list;patch;watch
// +kubebuilder:rbac:roleName=database-operator,groups="",resources=secrets,verbs=create;delete;get;list;patch;watch
// +kubebuilder:rbac:roleName=database-operator,groups="",resources=services,verbs=create;delete;get;list;patch;watch
// +kubebuilder:rbac:roleName=database-operator,groups=apps,resources=statefulsets,verbs=create;delete;get;list;patch;watch
// +kubebuilder:rbac:roleName=database-operator,groups=batch,resources=cronjobs,verbs=create;delete;get;list;patch;watch
// +kubebuilder:rbac:roleName=database-operator,groups=batch,resources=jobs,verbs=create;delete;get;list;patch;watch
// +kubebuilder:rbac:roleName=database-operator,groups=events.k8s.io,resources=events,verbs=create;patch
// +kubebuilder:rbac:roleName=database-operator,groups=policy,resources=poddisruptionbudgets,verbs=create;delete;get;list;patch;watch
// +kubebuilder:rbac:roleName=database-operator,groups=snapshot.storage.k8s.io,resources=volumesnapshots,verbs=create;delete;get;list;patch;watch
// +kubebuilder:rbac:roleName=database-storage,groups=storage.k8s.io,resources=storageclasses,verbs=get;list;watch
// +kubebuilder:rbac:roleName=database-operator,groups=techoral.com,resources=databases,verbs=get;list;patch;watch
// +kubebuilder:rbac:roleName=database-operator,groups=techoral.com,resources=dbsnapshots,verbs=create;get;list;patch;watch
// +kubebuilder:rbac:roleName=database-operator,groups=techoral.com,resources=databases/finalizers;dbsnapshots/finalizers,verbs=update
// +kubebuilder:rbac:roleName=database-operator,groups=techoral.com,resources=databases/status;dbsnapshots/status,verbs=patch

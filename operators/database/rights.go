package database

// Permissions of the operators; controller-gen writes them to config/rbac/role.yaml. Secrets are created and watched by
// metadata; of existing ones only the metadata is read. The admission plugin OwnerReferencesPermissionEnforcement requires
// the update of finalizers for owner references that block deletion. Tests fail without a necessary permission, and after
// all tests if there is an unused one.
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
// +kubebuilder:rbac:roleName=database-operator,groups=techoral.com,resources=dbsnapshots,verbs=create;delete;get;list;patch;watch
// +kubebuilder:rbac:roleName=database-operator,groups=techoral.com,resources=databases/finalizers;dbsnapshots/finalizers,verbs=update
// +kubebuilder:rbac:roleName=database-operator,groups=techoral.com,resources=databases/status;dbsnapshots/status,verbs=patch

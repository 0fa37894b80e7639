package database

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	v1 "github.com/homeostat-dev/homeostat/operators/database/api/v1"
	"github.com/homeostat-dev/homeostat/operators/database/internal/database/desired"
	"github.com/homeostat-dev/homeostat/sdk"
)

// finalize blocks the deletion while the Database is protected and, with the deletion policy Snapshot, until a last copy
// exists. Everything else is left to garbage collection, which does not need the operator.
func (o *Options) finalize(ctx context.Context, p *sdk.Pass[*v1.Database]) error {
	db := p.Object
	if db.Spec.DeletionProtection {
		return sdk.Wait("DeletionProtected",
			"spec.deletionProtection is true: nothing is deleted before somebody sets it to false")
	}
	if db.Spec.DeletionPolicy != v1.DeletionSnapshot {
		return nil
	}
	last := sdk.Apply(p, desired.LastSnapshot(db), sdk.CreateOnly(), sdk.Retain(), sdk.ReadyWhen(succeeded))
	if done, _ := succeeded(last.Live()); !done && !controllerutil.ContainsFinalizer(db, metav1.FinalizerDeleteDependents) {
		db.Spec.Hibernate = false // the copy needs a running server, unless foreground deletion removes it anyway
		return o.reconcile(ctx, p)
	}
	for member := range desired.MaxMembers { // from here on the claims end with the Database
		claim := desired.DataClaim(db, member, resource.Quantity{})
		if live, exists := sdk.Live(p, claim); exists {
			claim.Spec = corev1.PersistentVolumeClaimSpec{AccessModes: live.Spec.AccessModes, Resources: live.Spec.Resources}
			sdk.Apply(p, claim, sdk.After(last), sdk.ReadyWhen(notLost))
		}
	}
	return nil
}

// succeeded is the readiness of the last copy.
func succeeded(last *v1.DBSnapshot) (bool, string) {
	switch last.Status.Phase {
	case v1.SnapshotSucceeded:
		return true, ""
	case v1.SnapshotFailed:
		return false, "DBSnapshot " + last.Name + " failed, so the data are still there: delete it to have another one made, or " +
			"set spec.deletionPolicy to Retain or Delete"
	default:
		return false, "DBSnapshot " + last.Name + ", the last one, is being made"
	}
}

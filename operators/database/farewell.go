package database

import (
	"context"

	"k8s.io/apimachinery/pkg/api/resource"

	v1 "github.com/homeostat-dev/homeostat/operators/database/api/v1"
	"github.com/homeostat-dev/homeostat/operators/database/internal/desired"
	"github.com/homeostat-dev/homeostat/sdk"
)

// finalize lets a Database go: not while it is protected, and with the deletion policy Snapshot not before there is a last
// dump. Everything else is left to garbage collection, which the operator need not live to see.
func (o *Options) finalize(_ context.Context, p *sdk.Pass[*v1.Database]) error {
	db := p.Object
	if db.Spec.DeletionProtection {
		return sdk.Wait("DeletionProtected", "spec.deletionProtection is true: nothing is deleted before somebody sets it to false")
	}
	if db.Spec.DeletionPolicy != v1.DeletionSnapshot {
		return nil
	}
	last := desired.LastSnapshot(db)
	sdk.Apply(p, last, sdk.CreateOnly(), sdk.Retain())
	live, _ := sdk.Live(p, &v1.DBSnapshot{ObjectMeta: named(last.Name)})
	switch live.Status.Phase {
	case v1.SnapshotSucceeded:
		return letGo(p)
	case v1.SnapshotFailed:
		return sdk.Wait("LastSnapshotFailed", "DBSnapshot %s failed, so the data are still there: delete it to have another one "+
			"made, or set spec.deletionPolicy to Retain or Delete", last.Name)
	default:
		return sdk.Wait("LastSnapshot", "DBSnapshot %s, the last one, is being made", last.Name)
	}
}

// letGo hands the data over to garbage collection. The dumps stay.
func letGo(p *sdk.Pass[*v1.Database]) error {
	for member := range desired.MaxMembers {
		claim := desired.Data(p.Object, member, resource.Quantity{})
		live, exists := sdk.Live(p, claim)
		if !exists {
			continue
		}
		claim.Spec, claim.Status = live.Spec, live.Status
		claim.Spec.VolumeName = ""
		sdk.Apply(p, claim)
	}
	return nil
}

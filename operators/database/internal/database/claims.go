package database

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "github.com/homeostat-dev/homeostat/operators/database/api/v1"
	"github.com/homeostat-dev/homeostat/operators/database/internal/database/desired"
	"github.com/homeostat-dev/homeostat/operators/database/internal/database/status"
	"github.com/homeostat-dev/homeostat/operators/database/internal/storage"
	"github.com/homeostat-dev/homeostat/sdk"
	"github.com/homeostat-dev/homeostat/sdk/apply"
)

// applyClaims applies the claims of current and former members. It returns the claims that the members need, and the size
// for the StatefulSet's claim template.
//
// The operator creates the claims itself, because their size may differ from the template. The template is updated last: it
// is immutable, so the StatefulSet has to be recreated for it. No claim is created before the Secret exists.
func (r *reconciliation) applyClaims(secret []sdk.AnyChild) ([]sdk.AnyChild, resource.Quantity, error) {
	db := r.Object
	size, err := resource.ParseQuantity(db.Spec.Storage)
	if err != nil {
		return nil, size, sdk.Invalid("InvalidSize", "spec.storage: %v", err)
	}
	var need []sdk.AnyChild
	var all []*corev1.PersistentVolumeClaim
	grows := map[string]bool{}
	for member := range desired.MaxMembers {
		claim, live, grow, err := r.applyClaim(member, size, secret)
		if err != nil {
			return nil, size, err
		}
		if isMember := member < int(db.Members()); live != nil && (isMember || live.Status.Phase == corev1.ClaimBound) {
			all, grows[live.Name] = append(all, live), grow
		}
		if claim != nil && member < int(db.Members()) {
			need = append(need, claim)
		}
	}
	progress := storage.Assess(size, all, int(db.Members()), func(name string) bool { return grows[name] })
	status.Storage(db, all, progress)
	if set := r.server.Set; !progress.Done() && set.UID != "" && len(set.Spec.VolumeClaimTemplates) > 0 {
		size = storage.Requested(&set.Spec.VolumeClaimTemplates[0])
	}
	return need, size, nil
}

// applyClaim applies the claim of one current or former member. It returns the planned and the live claim, nil where there
// is none, and whether the claim can be expanded.
func (r *reconciliation) applyClaim(member int, size resource.Quantity, secret []sdk.AnyChild) (
	planned sdk.AnyChild, live *corev1.PersistentVolumeClaim, grows bool, err error,
) {
	db := r.Object
	want := desired.DataClaim(db, member, size)
	live, exists := sdk.Live(r.Pass, want.DeepCopy())
	options := []sdk.ApplyOption{sdk.Retain()} // finalize deletes claims; garbage collection must not
	switch isMember := member < int(db.Members()); {
	case !isMember && !exists:
		return nil, nil, false, nil
	case !isMember && db.Spec.PersistentVolumeClaimRetentionPolicy.WhenScaled == "Delete" && !db.Spec.DeletionProtection:
		if metav1.IsControlledBy(live, db) {
			return nil, nil, false, nil // pruning deletes it
		}
		options = nil // removes the retention first, so that it can be pruned later
	}
	if exists {
		if grows, err = r.expandable(live, size); err != nil {
			return nil, nil, false, err
		}
		want.Spec.Resources.Requests[corev1.ResourceStorage] = storage.Request(live, size, grows)
		keepStorageClass(want, live)
	} else { // the claim of a predecessor may be larger; its size is read after adoption
		live = nil
		if err := r.setDataSource(member, want); err != nil {
			return nil, nil, false, err
		}
		unreadable, err := r.unreadableData(member)
		switch {
		case err != nil:
			return nil, nil, false, err
		case unreadable != nil:
			options = append(options, sdk.HoldBack(unreadable))
		}
		options = append(options, sdk.CreateOnly(), sdk.AfterCreated(secret...)) // data without the passwords would be unusable
	}
	if member < int(db.Members()) {
		options = append(options, sdk.ReadyWhen(notLost))
	} else { // a database does not depend on the claims of former members
		options = append(options, sdk.ReadyWhen(func(*corev1.PersistentVolumeClaim) (bool, string) { return true, "" }))
	}
	options = append(options, sdk.AdoptIf(readable(db)))
	return sdk.Apply(r.Pass, want, options...), live, grows, nil
}

// expandable reports whether a claim that is too small can be expanded. The class of a sufficient claim is not read, so it
// is not watched either.
func (r *reconciliation) expandable(claim *corev1.PersistentVolumeClaim, size resource.Quantity) (bool, error) {
	if has := storage.Capacity(claim); has.Cmp(size) >= 0 || claim.Status.Phase != corev1.ClaimBound {
		return true, nil
	}
	name := storage.ClassName(claim)
	if name == "" {
		return false, nil
	}
	class, err := sdk.Ref(r.Pass, &storagev1.StorageClass{ObjectMeta: objectMeta(name)})
	switch {
	case sdk.Reason(err) != "": // the class was deleted, its volumes were not
		return false, nil
	case apierrors.IsForbidden(err): // in an installation for some namespaces
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("looking whether %s can grow: %w", claim.Name, err)
	}
	return class.AllowVolumeExpansion != nil && *class.AllowVolumeExpansion, nil
}

// keepStorageClass copies the class of the live claim, because it is immutable.
func keepStorageClass(want, live *corev1.PersistentVolumeClaim) {
	if want.Spec.StorageClassName != nil {
		want.Spec.StorageClassName = live.Spec.StorageClassName
	}
}

// notLost is the readiness of a claim: only a lost volume makes it unready. A claim that waits for its first pod or for an
// expansion is ready, because the database works meanwhile.
func notLost(claim *corev1.PersistentVolumeClaim) (bool, string) {
	if claim.Status.Phase == corev1.ClaimLost {
		return false, "the volume of claim " + claim.Name + " is gone: restore it"
	}
	return true, ""
}

// unreadableData returns the error to report if a claim of a predecessor has data that this Database cannot read.
func (r *reconciliation) unreadableData(member int) (unreadable, err error) {
	db := r.Object
	claim, err := r.existingClaim(member)
	if err != nil || claim == nil || claim.Annotations[apply.OwnerAnnotation] != db.Namespace+"/"+db.Name {
		return nil, err
	}
	has := claim.Labels
	if has[desired.EngineLabel] == "" || desired.CanReadData(db, has) {
		return nil, nil
	}
	const reason = "DataOfOtherVersion"
	return sdk.Invalid(reason, "claim %s has the data of a former Database %s of %s %s, which %s %s cannot read: "+
		"make the Database with spec.engine %s and a spec.version of %s, or under another name, or delete the claim if its data "+
		"are not needed", claim.Name, db.Name, has[desired.EngineLabel], has[desired.MajorLabel], db.Spec.Engine,
		desired.Major(db.Spec.Version), has[desired.EngineLabel], has[desired.MajorLabel]), nil
}

// readable reports whether a claim belongs to a predecessor of the same name and has data that this Database can read.
func readable(db *v1.Database) func(client.Object) bool {
	return func(o client.Object) bool { return mayAdopt(db)(o) && desired.CanReadData(db, o.GetLabels()) }
}

// applyBackupClaim applies the claim of the dumps. It returns nil if there is no claim and none is wanted. The string
// explains why the claim stays too small, if it does.
func (r *reconciliation) applyBackupClaim(wanted bool) (planned sdk.AnyChild, small string) {
	db := r.Object
	text := db.Spec.Backup.Storage.Size
	if text == "" {
		text = db.Spec.Storage
	}
	size, err := resource.ParseQuantity(text)
	if err != nil { // the API server rejects such a size
		return nil, ""
	}
	want := desired.BackupClaim(db, size)
	live, exists := sdk.Live(r.Pass, want.DeepCopy())
	options := []sdk.ApplyOption{sdk.Retain(), adopt(db), sdk.ReadyWhen(notLost)}
	switch {
	case !exists && !wanted:
		return nil, ""
	case !exists:
		options = append(options, sdk.CreateOnly())
	default:
		grows, err := r.expandable(live, size)
		want.Spec.Resources.Requests[corev1.ResourceStorage] = storage.Request(live, size, grows && err == nil)
		if err == nil && !grows {
			has := storage.Capacity(live)
			small = fmt.Sprintf("claim %s stays at %s: its class does not allow expansion", live.Name, has.String())
		}
		keepStorageClass(want, live)
	}
	return sdk.Apply(r.Pass, want, options...), small
}

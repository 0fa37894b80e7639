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
	"github.com/homeostat-dev/homeostat/operators/database/internal/desired"
	"github.com/homeostat-dev/homeostat/operators/database/internal/report"
	"github.com/homeostat-dev/homeostat/operators/database/internal/storage"
	"github.com/homeostat-dev/homeostat/sdk"
)

// claims sees to the claims of the members, and of those that were members, and returns those that the members need. The
// operator makes them itself, so that they are as large as they should be, whatever the template of the StatefulSet says. It
// also returns what that should say, which follows when all is done: to change it the StatefulSet has to be made anew. No
// claim is made before the Secret is.
func (is *observed) claims(secret []sdk.Planned) ([]sdk.Planned, resource.Quantity, error) {
	db := is.Object
	size, err := resource.ParseQuantity(db.Spec.Storage)
	if err != nil {
		return nil, size, sdk.Invalid("InvalidSize", "spec.storage: %v", err)
	}
	var need []sdk.Planned
	var all []*corev1.PersistentVolumeClaim
	grows := map[string]bool{}
	for member := range desired.MaxMembers {
		claim, live, grow, err := is.claim(member, size, secret)
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
	progress := storage.Look(size, all, int(db.Members()), func(name string) bool { return grows[name] })
	report.Storage(db, all, progress)
	if set := is.server.Set; !progress.Done() && set.UID != "" && len(set.Spec.VolumeClaimTemplates) > 0 {
		size = storage.Asked(&set.Spec.VolumeClaimTemplates[0])
	}
	return need, size, nil
}

// claim sees to the claim of one member, or of one that was a member. It returns it as planned and as it is, nil if it is
// neither, and whether it can grow.
func (is *observed) claim(member int, size resource.Quantity, secret []sdk.Planned) (
	planned sdk.Planned, live *corev1.PersistentVolumeClaim, grows bool, err error,
) {
	db := is.Object
	want := desired.Data(db, member, size)
	live, exists := sdk.Live(is.Pass, want.DeepCopy())
	options := is.retained()
	switch isMember := member < int(db.Members()); {
	case !isMember && !exists:
		return nil, nil, false, nil
	case !isMember && db.Spec.PersistentVolumeClaimRetentionPolicy.WhenScaled == "Delete" && !db.Spec.DeletionProtection:
		if metav1.IsControlledBy(live, db) {
			return nil, nil, false, nil // it goes
		}
		options = nil // it becomes one that goes
	}
	if exists {
		if grows, err = is.expandable(live, size); err != nil {
			return nil, nil, false, err
		}
		want.Spec.Resources.Requests[corev1.ResourceStorage] = storage.Request(live, size, grows)
		keepClass(want, live)
	} else { // what a former Database left may be larger: it is looked at once it is ours
		live = nil
		if err := is.bootstrapVolume(member, want); err != nil {
			return nil, nil, false, err
		}
		options = append(options, sdk.CreateOnly(), sdk.AfterCreated(secret...)) // data without passwords are for nobody
	}
	if member < int(db.Members()) {
		options = append(options, sdk.ReadyWhen(bound))
	} else { // a database works without what former members have
		options = append(options, sdk.ReadyWhen(func(*corev1.PersistentVolumeClaim) (bool, string) { return true, "" }))
	}
	options = append(options, sdk.AdoptIf(readable(db)))
	return sdk.Apply(is.Pass, want, options...), live, grows, nil
}

// expandable reports whether a claim that is too small can grow. Of others it is not asked, so that their classes are not
// watched.
func (is *observed) expandable(claim *corev1.PersistentVolumeClaim, size resource.Quantity) (bool, error) {
	if has := storage.Capacity(claim); has.Cmp(size) >= 0 || claim.Status.Phase != corev1.ClaimBound {
		return true, nil
	}
	name := storage.Class(claim)
	if name == "" {
		return false, nil
	}
	class, err := sdk.Ref(is.Pass, &storagev1.StorageClass{ObjectMeta: named(name)})
	switch {
	case sdk.Reason(err) != "": // it is gone, and its volumes are not
		return false, nil
	case apierrors.IsForbidden(err): // as in an installation for some namespaces: the API server knows it, and refuses
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("looking whether %s can grow: %w", claim.Name, err)
	}
	return class.AllowVolumeExpansion != nil && *class.AllowVolumeExpansion, nil
}

// keepClass leaves a claim the class that it was made with, which cannot change.
func keepClass(want, live *corev1.PersistentVolumeClaim) {
	if want.Spec.StorageClassName != nil {
		want.Spec.StorageClassName = live.Spec.StorageClassName
	}
}

// bound says that a claim is as it should be although it waits for its first pod, and although it grows: a database works
// meanwhile.
func bound(claim *corev1.PersistentVolumeClaim) (bool, string) {
	if claim.Status.Phase == corev1.ClaimLost {
		return false, "the volume of claim " + claim.Name + " is gone: restore it"
	}
	return true, ""
}

// readable reports whether a claim was left by a Database of that name whose data this one can read.
func readable(db *v1.Database) func(client.Object) bool {
	return func(o client.Object) bool { return ofInstance(db)(o) && desired.Readable(db, o.GetLabels()) }
}

// backupClaim sees to the claim of the dumps. It returns nil if there is none and none is wanted, and says why it stays too
// small, if it does.
func (is *observed) backupClaim(wanted bool) (planned sdk.Planned, small string) {
	db := is.Object
	text := db.Spec.Backup.Storage.Size
	if text == "" {
		text = db.Spec.Storage
	}
	size, err := resource.ParseQuantity(text)
	if err != nil { // which the API server lets nobody store
		return nil, ""
	}
	want := desired.Backups(db, size)
	live, exists := sdk.Live(is.Pass, want.DeepCopy())
	options := append(is.retained(), sdk.AdoptIf(ofInstance(db)), sdk.ReadyWhen(bound))
	switch {
	case !exists && !wanted:
		return nil, ""
	case !exists:
		options = append(options, sdk.CreateOnly())
	default:
		grows, err := is.expandable(live, size)
		want.Spec.Resources.Requests[corev1.ResourceStorage] = storage.Request(live, size, grows && err == nil)
		if err == nil && !grows {
			has := storage.Capacity(live)
			small = fmt.Sprintf("claim %s stays at %s: its class does not allow expansion", live.Name, has.String())
		}
		keepClass(want, live)
	}
	return sdk.Apply(is.Pass, want, options...), small
}

package policy

import (
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	v1 "github.com/homeostat-dev/homeostat/operators/database/api/v1"
	"github.com/homeostat-dev/homeostat/sdk/conditions"
)

// RetentionPending reports whether retention has not been applied after the last copy yet.
func RetentionPending(o *v1.DBSnapshot) bool {
	return o.Status.LastSnapshot != nil && o.Status.RetentionAppliedAfter != o.Status.LastSnapshot.Name
}

// Prunable returns the names of the copies to delete after the last one, oldest first: copies beyond keepLast and copies
// that were older than maxAge at the time of the last copy. Held copies do not count, and the last copy is never included.
//
// The result does not depend on the current time, so a database without new copies keeps its old ones. A last copy with a
// future time counts as made now.
func Prunable(o *v1.DBSnapshot, now time.Time) []string {
	if o.Status.LastSuccessfulTime == nil {
		return nil
	}
	if last := o.Status.LastSuccessfulTime.Time; last.Before(now) {
		now = last
	}
	expired := Expired(o, now)
	return slices.DeleteFunc(expired, func(name string) bool { return name == Copies(o)[0].Name })
}

// Expired returns the copies that retention does not keep at that time, oldest first.
func Expired(o *v1.DBSnapshot, now time.Time) []string {
	keep := o.Spec.Retention
	var expired []string
	for i, r := range Copies(o) {
		old := keep.MaxAge != nil && r.FinishedAt != nil && now.Sub(r.FinishedAt.Time) > keep.MaxAge.Duration
		if old || i >= int(keep.KeepLast) {
			expired = append(expired, r.Name)
		}
	}
	slices.Reverse(expired)
	return expired
}

// RecordRetention removes deleted copies from the history and marks held ones. Retention is then complete until the next
// copy.
func (t *Tracker) RecordRetention(gone, held []string) {
	s := t.status()
	s.History = slices.DeleteFunc(s.History, func(r v1.SnapshotRecord) bool { return slices.Contains(gone, r.Name) })
	for i := range s.History {
		s.History[i].Held = slices.Contains(held, s.History[i].Name)
	}
	s.RetentionAppliedAfter = s.LastSnapshot.Name
	if len(gone) > 0 {
		t.AddEvent(false, "Pruned", "Old copies were deleted: %s", strings.Join(gone, ", "))
	}
}

// RecordPrune records the result of a prune Job.
func (t *Tracker) RecordPrune(p PruneResult) {
	last := t.status().LastSnapshot.Name
	switch {
	case p.State == Failed:
		t.skipRetention("PruneFailed", "old dumps could not be deleted, which is tried again after the next: "+p.Message)
	case p.State == Succeeded && p.More == 0 && !slices.Contains(p.Left, last):
		t.skipRetention("CopyMissing", "the claim does not have the dump "+last+" any more")
	case p.State == Succeeded:
		var gone, held []string
		for _, name := range p.Requested {
			if slices.Contains(p.Left, name) {
				held = append(held, name)
			} else {
				gone = append(gone, name)
			}
		}
		t.RecordRetention(gone, held)
	}
}

// skipRetention ends retention until the next copy without deleting anything.
func (t *Tracker) skipRetention(reason, message string) {
	s := t.status()
	s.RetentionAppliedAfter = s.LastSnapshot.Name
	conditions.Set(t.Object, v1.ConditionRetention, metav1.ConditionFalse, reason, message)
	t.AddEvent(true, reason, "%s", message)
}

// Held reports whether a VolumeSnapshot has the hold label.
func Held(u *unstructured.Unstructured) bool { return u.GetLabels()[v1.HoldLabel] == "true" }

// DeletesDumps reports whether dumps in a claim of the user have to be deleted with the DBSnapshot.
func DeletesDumps(o *v1.DBSnapshot) bool {
	return o.Spec.DeletionPolicy == v1.CopiesDeleted && o.Spec.Method != v1.MethodVolumeSnapshot && o.Spec.Storage != nil &&
		o.Spec.Storage.PersistentVolumeClaim.ClaimName != ""
}

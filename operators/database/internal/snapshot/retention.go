package snapshot

import (
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/homeostat-dev/homeostat/operators/database/api/v1"
	"github.com/homeostat-dev/homeostat/sdk/conditions"
)

// Pruning reports whether retention is still to be applied after the last copy.
func Pruning(o *v1.DBSnapshot) bool {
	return o.Status.LastSnapshot != nil && o.Status.RetentionAppliedAfter != o.Status.LastSnapshot.Name
}

// Victims are the names of the copies that go after the last one was made, the oldest first: those beyond the number to be
// kept, of which those that are held do not count, and those that were too old then. That one is never among them. They do
// not depend on the time that passes without a copy, so that a database without new copies keeps the old ones, nor on a time
// that has yet to come.
func Victims(o *v1.DBSnapshot, now time.Time) []string {
	if o.Status.LastSuccessfulTime == nil {
		return nil
	}
	if last := o.Status.LastSuccessfulTime.Time; last.Before(now) {
		now = last
	}
	victims := beyond(o, now)
	return slices.DeleteFunc(victims, func(name string) bool { return name == Copies(o)[0].Name })
}

// beyond are the copies that retention would not keep at that time, the oldest first.
func beyond(o *v1.DBSnapshot, now time.Time) []string {
	keep := o.Spec.Retention
	var victims []string
	for i, r := range Copies(o) {
		old := keep.MaxAge != nil && r.FinishedAt != nil && now.Sub(r.FinishedAt.Time) > keep.MaxAge.Duration
		if old || i >= int(keep.KeepLast) {
			victims = append(victims, r.Name)
		}
	}
	slices.Reverse(victims)
	return victims
}

// Retain enters which of the copies that were to go are gone, and which are held. Retention is done until the next copy.
func (l *Ledger) Retain(gone, held []string) {
	s := l.status()
	s.History = slices.DeleteFunc(s.History, func(r v1.SnapshotRecord) bool { return slices.Contains(gone, r.Name) })
	for i := range s.History {
		s.History[i].Held = slices.Contains(held, s.History[i].Name)
	}
	s.RetentionAppliedAfter = s.LastSnapshot.Name
	if len(gone) > 0 {
		l.tell(false, "Pruned", "Old copies were deleted: %s", strings.Join(gone, ", "))
	}
}

// Pruned enters what became of the dumps that were to go.
func (l *Ledger) Pruned(p Pruned) {
	last := l.status().LastSnapshot.Name
	switch {
	case p.State == Failed:
		l.spare("PruneFailed", "old dumps could not be deleted, which is tried again after the next: "+p.Message)
	case p.State == Succeeded && p.More == 0 && !slices.Contains(p.Left, last):
		l.spare("CopyMissing", "the claim does not have the dump "+last+" any more")
	case p.State == Succeeded:
		var gone, held []string
		for _, name := range p.Asked {
			if slices.Contains(p.Left, name) {
				held = append(held, name)
			} else {
				gone = append(gone, name)
			}
		}
		l.Retain(gone, held)
	}
}

// spare ends retention until the next copy, with the copies that there are.
func (l *Ledger) spare(reason, message string) {
	s := l.status()
	s.RetentionAppliedAfter = s.LastSnapshot.Name
	l.set(v1.ConditionRetention, metav1.ConditionFalse, reason, message)
	l.tell(true, reason, "%s", message)
}

// describeRetention says whether there is anything that should be gone.
func (l *Ledger) describeRetention() {
	o := l.Object
	const kind = v1.ConditionRetention
	was := conditions.Get(o, kind)
	switch old := beyond(o, l.Now); {
	case Pruning(o):
		l.set(kind, metav1.ConditionFalse, "Pruning", "retention is applied after the last copy")
	case was != nil && (was.Reason == "PruneFailed" || was.Reason == "CopyMissing"):
	case len(old) > len(held(o)):
		l.set(kind, metav1.ConditionFalse, "ProtectedLastGood",
			"copies that are older than spec.retention says are kept, because there is no newer one that succeeded")
	case len(held(o)) > 0:
		l.set(kind, metav1.ConditionTrue, "Held", fmt.Sprintf("%d copies stay because they are held", len(held(o))))
	default:
		l.set(kind, metav1.ConditionTrue, "Enforced", "there are no copies but those to be kept")
	}
}

func held(o *v1.DBSnapshot) []string {
	var all []string
	for _, r := range o.Status.History {
		if r.Held {
			all = append(all, r.Name)
		}
	}
	return all
}

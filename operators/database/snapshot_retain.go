package database

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	v1 "github.com/homeostat-dev/homeostat/operators/database/api/v1"
	"github.com/homeostat-dev/homeostat/operators/database/internal/scripts"
	"github.com/homeostat-dev/homeostat/operators/database/internal/snapshot"
	"github.com/homeostat-dev/homeostat/sdk"
)

// retain lets copies go after one that succeeded, once that is stored.
func (w *work) retain() {
	if !snapshot.Pruning(w.Object) {
		return
	}
	victims := snapshot.Victims(w.Object, w.ledger.Now)
	switch {
	case len(victims) == 0:
		w.ledger.Retain(nil, nil)
	case !w.pruning:
	case w.Object.Spec.Method == v1.MethodVolumeSnapshot:
		w.retainVolumes(victims)
	default:
		w.retainDumps(victims)
	}
}

func (w *work) retainDumps(victims []string) {
	name := snapshot.PruneName(w.Object.Status.LastSnapshot.Name)
	job := w.job(name)
	switch {
	case job != nil:
		p := snapshot.OfPrune(job, sdk.Observed(w.snapshotPass, &corev1.Pod{}), w.Now)
		w.again = p.Again
		if w.ledger.Pruned(p); snapshot.Pruning(w.Object) {
			w.hold(job)
		}
	case w.source.Source != nil && w.source.Image != "":
		w.apply(snapshot.Prune(w.Object, w.source.Source, snapshot.ScriptsName(w.Object, w.source.scripts), name, victims))
	}
}

// retainVolumes deletes one VolumeSnapshot after the other, the oldest first.
func (w *work) retainVolumes(victims []string) {
	var gone, held []string
	for _, name := range victims {
		live, exists := sdk.Live(w.snapshotPass, snapshot.VolumeSnapshotNamed(name))
		switch {
		case !exists:
			gone = append(gone, name)
		case snapshot.Held(live):
			held = append(held, name)
		default:
			w.victim = name
			if metav1.GetControllerOf(live) == nil && live.GetDeletionTimestamp() == nil {
				w.holdVolume(name) // what is to outlive the DBSnapshot is not deleted before that is taken back
			}
			return
		}
	}
	w.ledger.Retain(gone, held)
}

func (w *work) holdVolume(name string, options ...sdk.ApplyOption) {
	sdk.Apply(w.snapshotPass, snapshot.VolumeSnapshotNamed(name), append(options, sdk.CreateOnly(),
		sdk.ReadyWhen(always[*unstructured.Unstructured]))...)
}

// keep has the plan go on with what was made: the copies of volumes, and the Jobs that somebody may want to look at. That of
// the last copy stays, so that whoever sees an old state does not make it once more.
func (w *work) keep() {
	for i, r := range w.Object.Status.History {
		if w.Object.Spec.Method == v1.MethodVolumeSnapshot {
			_, exists := sdk.Live(w.snapshotPass, snapshot.VolumeSnapshotNamed(r.Name))
			if exists && r.Result == v1.ResultSucceeded && r.Name != w.victim && r.Name != w.finished {
				w.holdVolume(r.Name, w.retention()...)
			}
			continue
		}
		if job := w.job(r.Name); job != nil && (i == 0 || r.Result == v1.ResultFailed) {
			w.hold(job)
		}
	}
}

// finalize deletes the dumps in a claim that stays.
func (s *snapshots) finalize(_ context.Context, p *snapshotPass) error {
	var names []string
	for _, r := range snapshot.Copies(p.Object) {
		names = append(names, r.Name)
	}
	w := &work{snapshotPass: p}
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: named(snapshot.Claim(p.Object))}
	if _, err := sdk.Ref(p, claim); sdk.Reason(err) != "" {
		return nil // it is gone, and the dumps with it
	}
	if active := p.Object.Status.Active; active != nil {
		if job := w.job(active.Name); job != nil && !snapshot.Ended(job) {
			return sdk.Wait("CopyRunning", "copy %s is still being made", active.Name)
		}
		names = append(names, active.Name)
	}
	if len(names) == 0 {
		return nil
	}
	var err error
	if w.source, err = s.source(p); err != nil {
		return err
	}
	if (w.source.Source == nil || w.source.Image == "") && !w.likeLast() {
		return sdk.Wait("DumpsLeft", "dumps are left in claim %s, and the image to delete them with is not known: %s",
			snapshot.Claim(p.Object), w.source.message)
	}
	slices.Sort(names)
	scripts := sdk.Apply(p, snapshot.Scripts(p.Object, w.source.scripts))
	sdk.Apply(p, snapshot.Prune(p.Object, w.source.Source, snapshot.ScriptsName(p.Object, w.source.scripts),
		snapshot.FarewellName(p.Object), names), sdk.CreateOnly(), sdk.After(scripts), sdk.ReadyWhen(snapshot.Complete))
	return nil
}

// likeLast takes the image that made the last copies: it can delete them, too, where the server is gone. It reports whether
// there is one.
func (w *work) likeLast() bool {
	for _, r := range w.Object.Status.History {
		if job := w.job(r.Name); job != nil {
			w.source.Source = &snapshot.Source{Image: snapshot.ImageOf(job)}
			var err error
			w.source.scripts, err = scripts.Of(string(v1.PostgreSQL)) // they delete alike
			return err == nil
		}
	}
	return false
}

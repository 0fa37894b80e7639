package dbsnapshot

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	v1 "github.com/homeostat-dev/homeostat/operators/database/api/v1"
	"github.com/homeostat-dev/homeostat/operators/database/internal/dbsnapshot/desired"
	"github.com/homeostat-dev/homeostat/operators/database/internal/dbsnapshot/policy"
	"github.com/homeostat-dev/homeostat/operators/database/internal/scripts"
	"github.com/homeostat-dev/homeostat/sdk"
)

// applyRetention deletes old copies after the last success is stored in the status.
func (s *passState) applyRetention() {
	if !policy.RetentionPending(s.Object) {
		return
	}
	prunable := policy.Prunable(s.Object, s.tracker.Now)
	switch {
	case len(prunable) == 0:
		s.tracker.RecordRetention(nil, nil)
	case !s.retentionPending:
	case s.Object.Spec.Method == v1.MethodVolumeSnapshot:
		s.pruneVolumes(prunable)
	default:
		s.pruneDumps(prunable)
	}
}

func (s *passState) pruneDumps(prunable []string) {
	name := desired.PruneName(s.Object.Status.LastSnapshot.Name)
	job := s.liveJob(name)
	switch {
	case job != nil:
		p := policy.ReadPruneJob(job, sdk.Observed(s.pass, &corev1.Pod{}), s.Now)
		s.requeueAfter = p.RequeueAfter
		if s.tracker.RecordPrune(p); policy.RetentionPending(s.Object) {
			s.keepJob(job)
		}
	case s.source.Source != nil && s.source.Image != "":
		s.createJob(desired.PruneJob(s.Object, s.source.Source, desired.ScriptsName(s.Object, s.source.scripts), name, prunable))
	}
}

// pruneVolumes deletes VolumeSnapshots one at a time, oldest first.
func (s *passState) pruneVolumes(prunable []string) {
	var gone, held []string
	for _, name := range prunable {
		live, exists := sdk.Live(s.pass, desired.VolumeSnapshotNamed(name))
		switch {
		case !exists:
			gone = append(gone, name)
		case policy.Held(live):
			held = append(held, name)
		default:
			s.pruning = name
			if metav1.GetControllerOf(live) == nil && live.GetDeletionTimestamp() == nil {
				s.keepVolume(name) // a retained object is taken back first, so that pruning deletes it
			}
			return
		}
	}
	s.tracker.RecordRetention(gone, held)
}

func (s *passState) keepVolume(name string, options ...sdk.ApplyOption) {
	sdk.Apply(s.pass, desired.VolumeSnapshotNamed(name), append(options, sdk.CreateOnly(),
		sdk.ReadyWhen(alwaysReady[*unstructured.Unstructured]))...)
}

// keepFinished keeps existing results in the plan: copies of volumes, and the Jobs of failed copies for inspection. The Job
// of the last copy stays as well, so that a stale cache does not lead to a second one.
func (s *passState) keepFinished() {
	for i, r := range s.Object.Status.History {
		if s.Object.Spec.Method == v1.MethodVolumeSnapshot {
			_, exists := sdk.Live(s.pass, desired.VolumeSnapshotNamed(r.Name))
			if exists && r.Result == v1.ResultSucceeded && r.Name != s.pruning && r.Name != s.retained {
				s.keepVolume(r.Name, s.retainOptions()...)
			}
			continue
		}
		if job := s.liveJob(r.Name); job != nil && (i == 0 || r.Result == v1.ResultFailed) {
			s.keepJob(job)
		}
	}
}

// finalize deletes the dumps in a claim of the user.
func (s *reconciler) finalize(_ context.Context, p *pass) error {
	var names []string
	for _, r := range policy.Copies(p.Object) {
		names = append(names, r.Name)
	}
	state := &passState{pass: p}
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: desired.DumpClaimName(p.Object)}}
	if _, err := sdk.Ref(p, claim); sdk.Reason(err) != "" {
		return nil // the dumps were deleted with the claim
	}
	if active := p.Object.Status.Active; active != nil {
		if job := state.liveJob(active.Name); job != nil && !policy.JobEnded(job) {
			return sdk.Wait("CopyRunning", "copy %s is still being made", active.Name)
		}
		names = append(names, active.Name)
	}
	if len(names) == 0 {
		return nil
	}
	var err error
	if state.source, err = s.source(p); err != nil {
		return err
	}
	if (state.source.Source == nil || state.source.Image == "") && !state.useLastJobSource() {
		return sdk.Wait("DumpsLeft", "dumps are left in claim %s, and the image to delete them with is not known: %s",
			desired.DumpClaimName(p.Object), state.source.message)
	}
	slices.Sort(names)
	scripts := sdk.Apply(p, desired.ScriptsConfigMap(p.Object, state.source.scripts))
	sdk.Apply(p, desired.PruneJob(p.Object, state.source.Source, desired.ScriptsName(p.Object, state.source.scripts),
		desired.FinalPruneName(p.Object), names), sdk.CreateOnly(), sdk.After(scripts), sdk.ReadyWhen(policy.JobSucceeded))
	return nil
}

// useLastJobSource takes the image of an earlier Job, which can delete dumps without the server. It reports whether there is
// one.
func (s *passState) useLastJobSource() bool {
	for _, r := range s.Object.Status.History {
		if job := s.liveJob(r.Name); job != nil {
			s.source.Source = &desired.Source{Image: desired.ImageOf(job)}
			var err error
			s.source.scripts, err = scripts.Of(string(v1.PostgreSQL)) // pruning is the same for all engines
			return err == nil
		}
	}
	return false
}

// Package dbsnapshot reconciles DBSnapshots.
//
// This file lists the steps of a reconcile. Package policy decides, package desired builds the children, package status
// writes the conditions, and the SDK sends the requests.
package dbsnapshot

import (
	"context"
	"fmt"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "github.com/homeostat-dev/homeostat/operators/database/api/v1"
	"github.com/homeostat-dev/homeostat/operators/database/internal/dbsnapshot/desired"
	"github.com/homeostat-dev/homeostat/operators/database/internal/dbsnapshot/policy"
	"github.com/homeostat-dev/homeostat/operators/database/internal/dbsnapshot/status"
	"github.com/homeostat-dev/homeostat/operators/database/internal/schedule"
	"github.com/homeostat-dev/homeostat/sdk"
	"github.com/homeostat-dev/homeostat/sdk/conditions"
)

type pass = sdk.Pass[*v1.DBSnapshot]

// Options are the settings of the operator.
type Options struct {
	// Image returns the image of a server.
	Image func(engine v1.Engine, version string) (string, error)
	// Now is the clock of the schedules. Nil means the time of the reconcile.
	Now func() time.Time
}

// New returns the operator of DBSnapshots.
func New(options Options) *sdk.Operator[*v1.DBSnapshot] {
	s := &reconciler{options}
	return &sdk.Operator[*v1.DBSnapshot]{
		Name:        desired.Manager,
		Doc:         "The dbsnapshot operator makes copies of databases on time, and tells when there is none.",
		AddToScheme: v1.AddToScheme,
		Owns: []client.Object{
			&corev1.ConfigMap{}, &corev1.PersistentVolumeClaim{}, &batchv1.Job{}, desired.VolumeSnapshotNamed(""),
		},
		Observes:       []client.Object{&corev1.Pod{}},
		Reconcile:      s.reconcile,
		Finalize:       s.finalize,
		NeedsFinalizer: policy.DeletesDumps,
	}
}

type reconciler struct{ options Options }

func (s *reconciler) reconcile(_ context.Context, p *pass) error {
	l, err := s.newTracker(p)
	if err != nil {
		return err
	}
	from, err := s.source(p)
	if err != nil {
		return err
	}
	state := &passState{
		pass: p, tracker: l, source: from, planned: map[string]bool{},
		retentionPending: policy.RetentionPending(p.Object),
	}
	state.applyStorage()
	state.followActive()
	l.TakeDue()
	state.applyRetention()
	state.keepFinished()
	p.OnPlanExecuted(state.report)
	return nil
}

// newTracker parses the schedule and returns a tracker of the status.
func (s *reconciler) newTracker(p *pass) (*policy.Tracker, error) {
	l := &policy.Tracker{Object: p.Object, Now: p.Now}
	if s.options.Now != nil {
		l.Now = s.options.Now()
	}
	if p.Object.Spec.Schedule == "" {
		return l, nil
	}
	parsed, err := schedule.Parse(p.Object.Spec.Schedule, p.Object.Spec.TimeZone)
	if err != nil {
		err = fmt.Errorf("spec.%w", err)
		status.SetInvalidSchedule(l, err)
		sendEvents(p, l)
		return nil, sdk.Invalid(policy.ReasonInvalid, "%v", err)
	}
	l.Schedule = parsed
	return l, nil
}

// passState is the state of one reconcile of a DBSnapshot.
type passState struct {
	*pass

	tracker          *policy.Tracker
	source           source
	retentionPending bool            // the stored status requires retention
	claim            []sdk.AnyChild  // the claim that the DBSnapshot creates, if any
	scripts          sdk.AnyChild    // ConfigMap for new Jobs; nil if none can be created
	planned          map[string]bool // Jobs and ConfigMaps in the plan
	pruning          string          // VolumeSnapshot that is being deleted
	retained         string          // VolumeSnapshot in the plan already
	requeueAfter     time.Duration   // time until the pods are read again
}

// alwaysReady is the readiness of children that the status reports in its own way.
func alwaysReady[C client.Object](C) (bool, string) { return true, "" }

// applyStorage applies the volumes of the Jobs.
func (s *passState) applyStorage() {
	if s.Object.Spec.Method == v1.MethodVolumeSnapshot {
		return
	}
	like := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: desired.OwnClaimName(s.Object)}}
	live, exists := sdk.Live(s.pass, like)
	if !exists {
		live = nil
	}
	claim, err := desired.DumpClaim(s.Object, live)
	switch {
	case err != nil:
		s.source.block("InvalidSize", err.Error())
	case claim != nil:
		options := []sdk.ApplyOption{
			sdk.AdoptIf(desired.FromPredecessor(s.Object)), sdk.ReadyWhen(alwaysReady[*corev1.PersistentVolumeClaim]),
		}
		if !exists { // the size of a predecessor's claim is read after adoption
			options = append(options, sdk.CreateOnly())
		}
		s.claim = []sdk.AnyChild{sdk.Apply(s.pass, claim, append(options, s.retainOptions()...)...)}
	}
	if s.source.scripts != nil {
		s.scripts = sdk.Apply(s.pass, desired.ScriptsConfigMap(s.Object, s.source.scripts))
	}
}

// retainOptions lets copies outlive the DBSnapshot, unless spec.deletionPolicy is Delete.
func (s *passState) retainOptions() []sdk.ApplyOption {
	if s.Object.Spec.DeletionPolicy == v1.CopiesDeleted {
		return nil
	}
	return []sdk.ApplyOption{sdk.Retain()}
}

// followActive continues the copy that the stored status lists as active.
func (s *passState) followActive() {
	active := s.Object.Status.Active
	if active == nil {
		return
	}
	name := active.Name
	if s.Object.Spec.Method == v1.MethodVolumeSnapshot {
		s.followVolume(name)
		return
	}
	job := s.liveJob(name)
	a := policy.ReadDump(job, sdk.Observed(s.pass, &corev1.Pod{}), s.Now)
	s.requeueAfter = a.RequeueAfter
	s.tracker.Observe(a)
	switch {
	case s.Object.Status.Active == nil:
	case job != nil && a.State == policy.ResultLost: // it is pruned and created again
	case job != nil:
		s.keepJob(job)
	case s.blockedReason() != "":
		s.tracker.SetWaitReason(s.blockedReason())
	default:
		s.createJob(desired.DumpJob(s.Object, s.source.Source, desired.ScriptsName(s.Object, s.source.scripts), name))
	}
}

// blockedReason returns the reason that prevents a copy from starting; "" if there is none.
func (s *passState) blockedReason() string {
	switch {
	case s.source.reason != "":
		return s.source.message
	case len(policy.Copies(s.Object)) >= policy.MaxCopies:
		return "there are as many copies as there can be, because they are held: let some of them go"
	case s.Object.Spec.Method != v1.MethodVolumeSnapshot && policy.RetentionPending(s.Object):
		return "old copies are being deleted"
	}
	return ""
}

// report updates the status after the plan was executed.
func (s *passState) report(children []conditions.Child) {
	l := s.tracker
	l.Object = s.Object // the SDK passes a fresh copy of the object
	active := s.Object.Status.Active
	for _, c := range children {
		if active == nil || c.Name != active.Name {
			continue
		}
		switch {
		case c.UID != "":
			l.MarkStarted()
		case c.Reason == policy.ReasonNameTaken:
			l.ConflictingObject = c.Kind + " " + c.Name
			active.Message = c.Message
		default:
			active.Message = c.Message
		}
	}
	if s.source.reportWhenIdle {
		l.Blocked = s.source.message
	}
	status.Set(l)
	sendEvents(s.pass, l)
	s.setReadiness()
	s.RequeueAfter(l.RequeueAfter())
	s.RequeueAfter(s.requeueAfter)
}

// setReadiness sets the reason of an unready DBSnapshot. Without a schedule it is ready after its copy was made.
func (s *passState) setReadiness() {
	o, current := s.Object, &s.Object.Status
	overdue, last := conditions.Get(o, v1.ConditionOverdue), conditions.Get(o, v1.ConditionLastSucceeded)
	switch {
	case o.Spec.Schedule == "" && current.LastSuccessfulTime != nil:
	case o.Spec.Suspend:
		s.SetSuspended(policy.ReasonSuspended, "spec.suspend is true: no copies are made")
	case policy.OneShotDone(o):
		s.SetSuspended(last.Reason, "%s", last.Message)
	case s.source.reason != "" && (current.Active != nil || s.source.reportWhenIdle):
		s.SetNotReady(s.source.reason, "%s", s.source.message)
	case o.Spec.Schedule == "":
		s.SetNotReady("Running", "the copy is being made")
	case overdue.Status == metav1.ConditionTrue:
		s.SetNotReady(v1.ConditionOverdue, "%s", overdue.Message)
	case last.Status == metav1.ConditionFalse:
		s.SetNotReady(last.Reason, "%s", last.Message)
	}
}

// sendEvents sends the events of the tracker.
func sendEvents(p *pass, l *policy.Tracker) {
	for _, e := range l.Events {
		if e.Warning {
			p.Warn(e.Reason, "%s", e.Message)
		} else {
			p.Event(e.Reason, "%s", e.Message)
		}
	}
}

// liveJob returns the live Job, nil if there is none.
func (s *passState) liveJob(name string) *batchv1.Job {
	live, ok := sdk.Live(s.pass, &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: name}})
	if !ok {
		return nil
	}
	return live
}

// createJob adds a new Job to the plan.
func (s *passState) createJob(job *batchv1.Job) {
	s.planned[job.Name] = true
	sdk.Apply(s.pass, job, sdk.CreateOnly(), sdk.AfterCreated(append(s.claim, s.scripts)...),
		sdk.ReadyWhen(alwaysReady[*batchv1.Job]), sdk.ConflictReason(policy.ReasonNameTaken))
}

// keepJob keeps an existing Job and its scripts in the plan, unchanged.
func (s *passState) keepJob(job *batchv1.Job) {
	if s.planned[job.Name] {
		return
	}
	s.planned[job.Name] = true
	sdk.Apply(s.pass, &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: job.Name}}, sdk.CreateOnly(),
		sdk.ReadyWhen(alwaysReady[*batchv1.Job]))
	like := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: desired.ScriptsOf(job)}}
	if s.scripts != nil && like.Name == desired.ScriptsName(s.Object, s.source.scripts) || s.planned[like.Name] {
		return
	}
	if _, exists := sdk.Live(s.pass, like.DeepCopy()); exists {
		s.planned[like.Name] = true
		sdk.Apply(s.pass, like, sdk.CreateOnly())
	}
}

// followVolume is followActive for a VolumeSnapshot. An unfinished or failed one is deleted with the DBSnapshot.
func (s *passState) followVolume(name string) {
	live, exists := sdk.Live(s.pass, desired.VolumeSnapshotNamed(name))
	if !exists {
		live = nil
	}
	a := policy.ReadVolumeSnapshot(live)
	s.tracker.Observe(a)
	options := []sdk.ApplyOption{
		sdk.CreateOnly(), sdk.ReadyWhen(alwaysReady[*unstructured.Unstructured]), sdk.ConflictReason(policy.ReasonNameTaken),
	}
	switch {
	case a.State == policy.Succeeded:
		s.retained = name
		sdk.Apply(s.pass, desired.VolumeSnapshotNamed(name), append(options, s.retainOptions()...)...)
	case s.Object.Status.Active == nil:
	case exists:
		sdk.Apply(s.pass, desired.VolumeSnapshotNamed(name), options...)
	case s.blockedReason() != "":
		s.tracker.SetWaitReason(s.blockedReason())
	default:
		sdk.Apply(s.pass, desired.VolumeSnapshot(s.Object, s.source.Claim, name), options...)
	}
}

package database

import (
	"context"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "github.com/homeostat-dev/homeostat/operators/database/api/v1"
	"github.com/homeostat-dev/homeostat/operators/database/internal/schedule"
	"github.com/homeostat-dev/homeostat/operators/database/internal/snapshot"
	"github.com/homeostat-dev/homeostat/sdk"
	"github.com/homeostat-dev/homeostat/sdk/conditions"
)

type snapshotPass = sdk.Pass[*v1.DBSnapshot]

// NewSnapshots returns the operator of DBSnapshots.
func NewSnapshots(options Options) *sdk.Operator[*v1.DBSnapshot] {
	s := &snapshots{options}
	return &sdk.Operator[*v1.DBSnapshot]{
		Name:        snapshot.Manager,
		Doc:         "The dbsnapshot operator makes copies of databases on time, and tells when there is none.",
		AddToScheme: v1.AddToScheme,
		Owns: []client.Object{
			&corev1.ConfigMap{}, &corev1.PersistentVolumeClaim{}, &batchv1.Job{}, snapshot.VolumeSnapshotNamed(""),
		},
		Observes:       []client.Object{&corev1.Pod{}},
		Reconcile:      s.reconcile,
		Finalize:       s.finalize,
		NeedsFinalizer: snapshot.LeavesDumps,
	}
}

type snapshots struct{ options Options }

func (s *snapshots) reconcile(_ context.Context, p *snapshotPass) error {
	l, err := s.open(p)
	if err != nil {
		return err
	}
	from, err := s.source(p)
	if err != nil {
		return err
	}
	w := &work{snapshotPass: p, ledger: l, source: from, pruning: snapshot.Pruning(p.Object), kept: map[string]bool{}}
	w.storage()
	w.follow()
	l.Claim()
	w.retain()
	w.keep()
	p.Report(w.conclude)
	return nil
}

// open makes sense of the schedule.
func (s *snapshots) open(p *snapshotPass) (*snapshot.Ledger, error) {
	l := &snapshot.Ledger{Object: p.Object, Now: p.Now}
	if s.options.Now != nil {
		l.Now = s.options.Now()
	}
	if p.Object.Spec.Schedule == "" {
		return l, nil
	}
	parsed, err := schedule.Parse(p.Object.Spec.Schedule, p.Object.Spec.TimeZone)
	if err != nil {
		l.DescribeInvalid(err)
		announce(p, l)
		return nil, sdk.Invalid(snapshot.ReasonInvalid, "%v", err)
	}
	l.Schedule = parsed
	return l, nil
}

// work is one pass over a DBSnapshot.
type work struct {
	*snapshotPass

	ledger   *snapshot.Ledger
	source   source
	pruning  bool            // the stored status asks for retention
	claim    []sdk.Planned   // the claim of its own, if it has one
	scripts  sdk.Planned     // the ConfigMap for new Jobs, nil while there can be none
	kept     map[string]bool // the Jobs and ConfigMaps that the plan has already
	victim   string          // the VolumeSnapshot that is being deleted
	finished string          // the VolumeSnapshot that is being kept already
	again    time.Duration   // when to look at pods again
}

// always is the readiness of what the account tells about.
func always[C client.Object](C) (bool, string) { return true, "" }

// storage sees to what Jobs mount.
func (w *work) storage() {
	if w.Object.Spec.Method == v1.MethodVolumeSnapshot {
		return
	}
	like := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: snapshot.ClaimName(w.Object)}}
	live, exists := sdk.Live(w.snapshotPass, like)
	if !exists {
		live = nil
	}
	claim, err := snapshot.OwnClaim(w.Object, live)
	switch {
	case err != nil:
		w.source.block("InvalidSize", err.Error())
	case claim != nil:
		options := []sdk.ApplyOption{
			sdk.AdoptIf(snapshot.Left(w.Object)), sdk.ReadyWhen(always[*corev1.PersistentVolumeClaim]),
		}
		if !exists { // one that was left is seen once it is ours
			options = append(options, sdk.CreateOnly())
		}
		w.claim = []sdk.Planned{sdk.Apply(w.snapshotPass, claim, append(options, w.retention()...)...)}
	}
	if w.source.scripts != nil {
		w.scripts = sdk.Apply(w.snapshotPass, snapshot.Scripts(w.Object, w.source.scripts))
	}
}

// retention is what keeps copies when the DBSnapshot goes.
func (w *work) retention() []sdk.ApplyOption {
	if w.Object.Spec.DeletionPolicy == v1.CopiesDeleted {
		return nil
	}
	return []sdk.ApplyOption{sdk.Retain()}
}

// follow goes on with the copy that the stored status tells of.
func (w *work) follow() {
	active := w.Object.Status.Active
	if active == nil {
		return
	}
	name := active.Name
	if w.Object.Spec.Method == v1.MethodVolumeSnapshot {
		w.followVolume(name)
		return
	}
	job := w.job(name)
	a := snapshot.OfDump(job, sdk.Observed(w.snapshotPass, &corev1.Pod{}), w.Now)
	w.again = a.Again
	w.ledger.Follow(a)
	switch {
	case w.Object.Status.Active == nil:
	case job != nil && a.State == snapshot.Lost: // it goes, for another one
	case job != nil:
		w.hold(job)
	case w.blocked() != "":
		w.ledger.Delay(w.blocked())
	default:
		w.apply(snapshot.Dump(w.Object, w.source.Source, snapshot.ScriptsName(w.Object, w.source.scripts), name))
	}
}

// blocked says why no copy can begin now.
func (w *work) blocked() string {
	switch {
	case w.source.reason != "":
		return w.source.message
	case len(snapshot.Copies(w.Object)) >= snapshot.MaxCopies:
		return "there are as many copies as there can be, because they are held: let some of them go"
	case w.Object.Spec.Method != v1.MethodVolumeSnapshot && snapshot.Pruning(w.Object):
		return "old copies are being deleted"
	}
	return ""
}

// conclude tells of the pass when it was carried out.
func (w *work) conclude(children []conditions.Child) {
	l := w.ledger
	l.Object = w.Object // the plan was carried out for another copy
	active := w.Object.Status.Active
	for _, c := range children {
		if active == nil || c.Name != active.Name {
			continue
		}
		switch {
		case c.UID != "":
			l.Begin()
		case c.Reason == snapshot.ReasonNameTaken:
			l.Taken = c.Kind + " " + c.Name
			active.Message = c.Message
		default:
			active.Message = c.Message
		}
	}
	l.Describe()
	announce(w.snapshotPass, l)
	w.judge()
	w.RequeueAfter(l.Soon())
	w.RequeueAfter(w.again)
}

// judge says why the DBSnapshot is not as it should be. Who waits for it without a schedule waits for its copy.
func (w *work) judge() {
	o, s := w.Object, &w.Object.Status
	overdue, last := conditions.Get(o, v1.ConditionOverdue), conditions.Get(o, v1.ConditionLastSucceeded)
	switch {
	case o.Spec.Schedule == "" && s.LastSuccessfulTime != nil:
	case o.Spec.Suspend:
		w.Suspended(snapshot.ReasonSuspended, "spec.suspend is true: no copies are made")
	case snapshot.Done(o):
		w.Suspended(last.Reason, "%s", last.Message)
	case w.source.reason != "" && (s.Active != nil || w.source.broken):
		w.NotReady(w.source.reason, "%s", w.source.message)
	case o.Spec.Schedule == "":
		w.NotReady("Running", "the copy is being made")
	case overdue.Status == metav1.ConditionTrue:
		w.NotReady(v1.ConditionOverdue, "%s", overdue.Message)
	case last.Status == metav1.ConditionFalse:
		w.NotReady(last.Reason, "%s", last.Message)
	}
}

// announce sends the events of the account.
func announce(p *snapshotPass, l *snapshot.Ledger) {
	for _, e := range l.Events {
		if e.Warning {
			p.Warn(e.Reason, "%s", e.Message)
		} else {
			p.Event(e.Reason, "%s", e.Message)
		}
	}
}

// job returns a Job as it is, nil if there is none.
func (w *work) job(name string) *batchv1.Job {
	live, ok := sdk.Live(w.snapshotPass, &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: name}})
	if !ok {
		return nil
	}
	return live
}

// apply makes a Job that is not there.
func (w *work) apply(job *batchv1.Job) {
	w.kept[job.Name] = true
	sdk.Apply(w.snapshotPass, job, sdk.CreateOnly(), sdk.AfterCreated(append(w.claim, w.scripts)...),
		sdk.ReadyWhen(always[*batchv1.Job]), sdk.ConflictReason(snapshot.ReasonNameTaken))
}

// hold keeps a Job that is there as it is, with the scripts that it uses.
func (w *work) hold(job *batchv1.Job) {
	if w.kept[job.Name] {
		return
	}
	w.kept[job.Name] = true
	sdk.Apply(w.snapshotPass, &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: job.Name}}, sdk.CreateOnly(),
		sdk.ReadyWhen(always[*batchv1.Job]))
	like := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: snapshot.ScriptsOf(job)}}
	if w.scripts != nil && like.Name == snapshot.ScriptsName(w.Object, w.source.scripts) || w.kept[like.Name] {
		return
	}
	if _, exists := sdk.Live(w.snapshotPass, like.DeepCopy()); exists {
		w.kept[like.Name] = true
		sdk.Apply(w.snapshotPass, like, sdk.CreateOnly())
	}
}

// followVolume is follow for a VolumeSnapshot. Until it is ready to use it goes with the DBSnapshot, and when it failed.
func (w *work) followVolume(name string) {
	live, exists := sdk.Live(w.snapshotPass, snapshot.VolumeSnapshotNamed(name))
	if !exists {
		live = nil
	}
	a := snapshot.OfVolumeSnapshot(live)
	w.ledger.Follow(a)
	options := []sdk.ApplyOption{
		sdk.CreateOnly(), sdk.ReadyWhen(always[*unstructured.Unstructured]), sdk.ConflictReason(snapshot.ReasonNameTaken),
	}
	switch {
	case a.State == snapshot.Succeeded:
		w.finished = name
		sdk.Apply(w.snapshotPass, snapshot.VolumeSnapshotNamed(name), append(options, w.retention()...)...)
	case w.Object.Status.Active == nil:
	case exists:
		sdk.Apply(w.snapshotPass, snapshot.VolumeSnapshotNamed(name), options...)
	case w.blocked() != "":
		w.ledger.Delay(w.blocked())
	default:
		sdk.Apply(w.snapshotPass, snapshot.VolumeSnapshot(w.Object, w.source.Claim, name), options...)
	}
}

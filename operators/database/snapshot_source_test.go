package database_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "github.com/homeostat-dev/homeostat/operators/database/api/v1"
	"github.com/homeostat-dev/homeostat/operators/database/internal/database/status"
	"github.com/homeostat-dev/homeostat/sdk/conditions"
	"github.com/homeostat-dev/homeostat/testkit"
)

// ofDatabase returns a DBSnapshot that dumps a Database at the beginning of each year.
func ofDatabase(name, db string) *v1.DBSnapshot {
	o := yearly(name)
	o.Spec.Source = v1.SnapshotSource{DatabaseRef: &v1.DatabaseReference{Name: db}}
	return o
}

// reported writes the status of a Database as its operator does.
func reported(k *testkit.K, db *v1.Database, available bool) {
	k.UpdateStatus(db, func() {
		db.Status.SecretName = db.Name + "-db-credentials"
		db.Status.Image = "postgres:16"
		if conditions.MarkReconciling(db, "MembersNotReady", "a replica is down"); available {
			conditions.Set(db, status.Available, metav1.ConditionTrue, "DatabaseAvailable", "")
		} else {
			conditions.Set(db, status.Available, metav1.ConditionFalse, "Provisioning", "it is being made")
		}
	})
}

func waitsFor(reason string) testkit.Check {
	return testkit.Reason("Ready", metav1.ConditionFalse, reason)
}

func variables(job *batchv1.Job) map[string]string {
	all := map[string]string{}
	for _, e := range job.Spec.Template.Spec.Containers[0].Env {
		all[e.Name] = e.Value
	}
	return all
}

// A copy waits for its Database until its deadline, and then fails, so the problem is visible.
func TestSnapshotWaitsForDatabase(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	k.Kubelet.DelayReadiness(dumpPods)
	c := newYear()
	op := startSnapshots(k, c)
	o := ofDatabase("a", "shop")
	k.Apply(o)
	k.Eventually(o, waitsFor("ReferenceNotFound"), testkit.Match("a condition that says why", func(o *v1.DBSnapshot) bool {
		c := conditions.Get(o, v1.ConditionScheduled)
		return c != nil && strings.HasSuffix(c.Message, "none can be made: Database shop does not exist")
	}))
	db := newDatabase("shop")
	k.Apply(db)
	reported(k, db, false)
	k.Eventually(o, waitsFor("DatabaseNotReady"), testkit.Match("a copy that waits", func(o *v1.DBSnapshot) bool {
		a := o.Status.Active
		return a != nil && a.Name == "a-203201010000" && a.StartTime == nil && a.Message == "Database shop accepts no connections"
	}))
	waitIdle(k, op)
	c.Move(k, o, time.Hour)
	k.Eventually(o, failures(1))
	want := "it could not begin within 1h0m0s: Database shop accepts no connections"
	if got := o.Status.History[0].Message; got != want {
		t.Errorf("the copy failed because %q, want %q", got, want)
	}

	c.NextYear(k, o)
	k.Eventually(o, waitsFor("DatabaseNotReady"))
	reported(k, db, true)
	job := jobNamed(k, "a-203301010000")
	k.Eventually(job, testkit.Exists())
	got := variables(job)
	for name, want := range map[string]string{
		"HOST": "shop-db-0.shop-db-hl." + k.Namespace + ".svc", "SCOPE": "server", "PORT": "5432", "DATABASE": "app",
		"DATABASE_USER": "app", "NAME": job.Name,
		"KEEP": "0", "FORMAT": "custom", "COMPRESSION": "6", "GLOBALS": "false", "VERIFY": "list",
	} {
		if got[name] != want {
			t.Errorf("the Job has %s=%q, want %q", name, got[name], want)
		}
	}
	pod := job.Spec.Template.Spec
	secret := func(v corev1.Volume) bool {
		return v.Secret != nil && v.Secret.SecretName == "shop-db-credentials" && v.Secret.Items[0].Key == "dump-password"
	}
	if pod.Containers[0].Image != "postgres:16" || !slices.ContainsFunc(pod.Volumes, secret) {
		t.Errorf("the pod has image %s and volumes %v", pod.Containers[0].Image, pod.Volumes)
	}
	endJob(k, job.Name, dumpResult(job.Name), 0)
	k.Eventually(o, lastCopy(job.Name), testkit.Ready())
	reported(k, db, false) // not reported while no copy is due
	k.Consistently(o, 300*time.Millisecond, testkit.Ready())
}

// A terminating Database is copied, but not before its initial data are restored.
func TestSnapshotOfTerminatingDatabase(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	k.Kubelet.DelayReadiness(dumpPods)
	startSnapshots(k, newYear())
	db := newDatabase("shop")
	db.Finalizers = []string{"example.com/last-copy"}
	db.Spec.BootstrapFrom = &v1.BootstrapFrom{BackupRef: &v1.BackupReference{ClaimName: "backups"}}
	k.Apply(db)
	t.Cleanup(func() {
		_ = k.Client.Patch(context.WithoutCancel(t.Context()), db,
			client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`)))
	})
	k.Delete(db)
	reported(k, db, true)
	o := ofDatabase("a", "shop")
	k.Apply(o)
	k.Eventually(o, waitsFor("DatabaseNotReady"), testkit.Match("why", func(o *v1.DBSnapshot) bool {
		return o.Status.Active != nil && strings.Contains(o.Status.Active.Message, "does not have the data yet")
	}))
	k.UpdateStatus(db, func() { db.Status.Restored = "a dump" })
	endJob(k, "a-203201010000", dumpResult("a-203201010000"), 0)
	k.Eventually(o, lastCopy("a-203201010000"), testkit.Ready())
}

// The pods of dump and prune Jobs are admitted by the restricted profile.
func TestPodsAreRestricted(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	k.Kubelet.DelayReadiness(dumpPods)
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: k.Namespace}}
	k.Update(namespace, func() {
		metav1.SetMetaDataLabel(&namespace.ObjectMeta, "pod-security.kubernetes.io/enforce", "restricted")
	})
	c := newYear()
	startSnapshots(k, c)
	o := yearly("a")
	o.Spec.Retention.KeepLast = 1
	k.Apply(o)
	endJob(k, "a-203201010000", dumpResult("a-203201010000"), 0)
	k.Eventually(o, lastCopy("a-203201010000"))
	c.NextYear(k, o)
	endJob(k, "a-203301010000", dumpResult("a-203301010000"), 0)
	endJob(k, "a-203301010000-prune", pruneResult("a-203301010000"), 0)
	k.Eventually(o, testkit.Ready(), enforced("Enforced", metav1.ConditionTrue))
}

// A foreign Job with the name of the copy is not written, and the status reports it. After its deletion the copy is made,
// within the starting deadline.
func TestJobNameConflict(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	k.Kubelet.DelayReadiness(dumpPods)
	foreign := jobNamed(k, "a-203201010000")
	foreign.Spec = batchv1.JobSpec{Suspend: new(true), Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
		RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: "x", Image: "x"}},
	}}}
	k.Apply(foreign)
	c := newYear()
	op := startSnapshots(k, c)
	o := yearly("a")
	k.Apply(o)
	k.Eventually(o, waitsFor("NameTaken"), testkit.Reason(v1.ConditionScheduled, metav1.ConditionFalse, "NameTaken"),
		testkit.Match("no time is dealt with", func(o *v1.DBSnapshot) bool { return o.Status.LastScheduleTime == nil }))
	waitIdle(k, op)
	version := foreign.ResourceVersion
	if k.Get(foreign); foreign.ResourceVersion != version && len(foreign.OwnerReferences) > 0 {
		t.Error("the operator has taken the Job")
	}
	k.Delete(foreign, client.PropagationPolicy(metav1.DeletePropagationBackground))
	endJob(k, "a-203201010000", dumpResult("a-203201010000"), 0)
	k.Eventually(o, lastCopy("a-203201010000"), testkit.Ready())
}

// A schedule that only the operator can reject is reported, and corrected without a restart.
func TestInvalidSchedule(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	op := startSnapshots(k, today())
	for name, change := range map[string]func(*v1.DBSnapshotSpec){
		"never":   func(s *v1.DBSnapshotSpec) { s.Schedule = "0 0 31 2 *" },
		"too-far": func(s *v1.DBSnapshotSpec) { s.Schedule = "99 0 * * *" },
		"no-zone": func(s *v1.DBSnapshotSpec) { s.TimeZone = "Europe/Atlantis" },
	} {
		o := yearly(name)
		change(&o.Spec)
		k.Apply(o)
		k.Eventually(o, testkit.Reason("Stalled", metav1.ConditionTrue, "InvalidSchedule"),
			testkit.Reason(v1.ConditionScheduled, metav1.ConditionFalse, "InvalidSchedule"), snapshotPhase(v1.SnapshotFailed))
		waitIdle(k, op)
		k.Update(o, func() {
			o.Spec.Schedule = "0 12 1 1 *"
			o.Spec.TimeZone = "Europe/Madrid"
		})
		k.Eventually(o, testkit.Reason(v1.ConditionScheduled, metav1.ConditionTrue, "Scheduled"), testkit.Ready(),
			testkit.Match("nothing is made up for", func(o *v1.DBSnapshot) bool {
				return o.Status.Active == nil && o.Status.Missed == 0 && o.Status.NextScheduleTime != nil
			}))
	}
}

// A DBSnapshot without a schedule makes one attempt.
func TestSnapshotWithoutSchedule(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		code  int32
		phase v1.SnapshotPhase
		ready []testkit.Check
	}{
		"good": {0, v1.SnapshotSucceeded, []testkit.Check{testkit.Ready()}},
		"bad": {1, v1.SnapshotFailed, []testkit.Check{
			waitsFor("Failed"), testkit.Condition("Reconciling", metav1.ConditionFalse),
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := testkit.New(t)
			k.Kubelet.DelayReadiness(dumpPods)
			clock := newYear()
			op := startSnapshots(k, clock)
			o := yearly("a")
			o.Spec.Schedule = ""
			k.Apply(o)
			k.Eventually(o, snapshotPhase(v1.SnapshotRunning), waitsFor("Running"))
			job := o.Status.Active.Name
			endJob(k, job, dumpResult(job), c.code)
			k.Eventually(o, append(c.ready, snapshotPhase(c.phase))...)
			clock.NextYear(k, o)
			waitIdle(k, op)
			if k.Get(o); o.Status.Phase != c.phase || len(o.Status.History) != 1 || o.Status.Active != nil {
				t.Errorf("a year later it is %+v", o.Status)
			}
		})
	}
}

func TestSuspendedSnapshot(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	k.Kubelet.DelayReadiness(dumpPods)
	c := today()
	op := startSnapshots(k, c)
	o := yearly("a")
	o.Spec.Suspend = true
	k.Apply(o)
	k.Eventually(o, snapshotPhase(v1.SnapshotSuspended), waitsFor("Suspended"),
		testkit.Condition("Reconciling", metav1.ConditionFalse), testkit.Condition("Stalled", metav1.ConditionFalse))
	c.NextYear(k, o)
	waitIdle(k, op)
	k.Update(o, func() { o.Spec.Suspend = false })
	k.Eventually(o, testkit.Ready(), snapshotPhase(v1.SnapshotScheduled))
	if o.Status.Active != nil || o.Status.Missed != 0 {
		t.Errorf("what was due meanwhile is made up for: %+v", o.Status)
	}
	c.NextYear(k, o)
	name := fmt.Sprintf("a-%d01010000", c.Now().Year())
	endJob(k, name, dumpResult(name), 0)
	k.Eventually(o, lastCopy(name))
}

// The claim of a DBSnapshot grows with its template, outlives it, and is adopted by a successor.
func TestOwnClaim(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	op := startSnapshots(k, today())
	o := yearly("a")
	o.Spec.Schedule = "0 12 1 1 *"
	k.Apply(o)
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: "a-snapshots", Namespace: k.Namespace}}
	asks := func(size string) testkit.Check {
		return testkit.Match("asks for "+size, func(c *corev1.PersistentVolumeClaim) bool {
			return c.Status.Phase == corev1.ClaimBound && c.Spec.Resources.Requests.Storage().Cmp(resource.MustParse(size)) == 0
		})
	}
	k.Eventually(claim, asks("1Gi"))
	resize := func(size string) {
		k.Update(o, func() { o.Spec.Storage.PersistentVolumeClaim.Template.Size = size })
	}
	resize("2Gi")
	k.Eventually(claim, asks("2Gi"))
	resize("1Gi") // no claim shrinks
	k.Eventually(o, testkit.Ready())
	k.Eventually(claim, asks("2Gi"))
	k.Delete(o)
	k.Eventually(o, testkit.Gone())
	k.Consistently(claim, 300*time.Millisecond, asks("2Gi"))

	again := yearly("a")
	again.Spec.Schedule = "0 12 1 1 *"
	again.Spec.DeletionPolicy = v1.CopiesDeleted
	k.Apply(again)
	k.Eventually(again, testkit.Ready())
	k.Eventually(claim, testkit.Match("taken over", func(c *corev1.PersistentVolumeClaim) bool {
		return metav1.IsControlledBy(c, again)
	}))
	waitIdle(k, op)
	k.Delete(again)
	k.Eventually(claim, testkit.Gone())
}

// With the policy Delete, dumps in the user's claim are deleted with the DBSnapshot, and the claim stays.
func TestDumpsAreDeletedFromUserClaim(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	k.Kubelet.DelayReadiness(dumpPods)
	startSnapshots(k, newYear())
	o := yearly("a")
	o.Spec.DeletionPolicy = v1.CopiesDeleted
	o.Spec.Storage.PersistentVolumeClaim = v1.SnapshotClaim{ClaimName: "backups"}
	k.Apply(o)
	k.Eventually(o, waitsFor("ReferenceNotFound"))
	claim := newClaim("backups")
	k.Apply(claim)
	endJob(k, "a-203201010000", dumpResult("a-203201010000"), 0)
	k.Eventually(o, lastCopy("a-203201010000"), testkit.Ready())
	k.Delete(o)
	job := jobNamed(k, "a-farewell")
	k.Eventually(job, testkit.Exists())
	if got := variables(job)["NAMES"]; got != "a-203201010000" {
		t.Errorf("the dumps %q are deleted", got)
	}
	k.Eventually(o, testkit.Reason("Deleting", metav1.ConditionTrue, "CleaningUp"))
	endJob(k, job.Name, pruneResult("x"), 0)
	k.Eventually(o, testkit.Gone())
	k.Eventually(job, testkit.Gone())
	k.Consistently(claim, 300*time.Millisecond, testkit.Exists())
}

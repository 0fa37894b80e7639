package database_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/homeostat-dev/homeostat/operators/database"
	v1 "github.com/homeostat-dev/homeostat/operators/database/api/v1"
	"github.com/homeostat-dev/homeostat/testkit"
)

// clock is the clock of an operator, set by a test.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

// newYear returns a clock that is later than the creation of all objects, so that the scheduled times are in the past.
func newYear() *clock { return &clock{now: time.Date(2032, time.January, 1, 0, 0, 30, 0, time.UTC)} }

// today returns a correct clock, until it is moved.
func today() *clock { return &clock{now: time.Now()} }

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// Move moves the clock and triggers a reconcile of the DBSnapshot.
func (c *clock) Move(k *testkit.K, o *v1.DBSnapshot, d time.Duration) {
	c.mu.Lock()
	c.now = c.now.Add(d)
	now := c.now
	c.mu.Unlock()
	k.Update(o, func() {
		metav1.SetMetaDataAnnotation(&o.ObjectMeta, "example.com/looked-at", now.Format(time.RFC3339))
	})
}

// NextYear moves the clock to the beginning of the next year, the time of a yearly copy.
func (c *clock) NextYear(k *testkit.K, o *v1.DBSnapshot) {
	now := c.Now()
	c.Move(k, o, time.Date(now.Year()+1, time.January, 1, 0, 0, 30, 0, time.UTC).Sub(now))
}

func startSnapshots(k *testkit.K, c *clock, opts ...testkit.StartOption) *testkit.Instance {
	return k.Run(database.NewSnapshots(database.Options{Now: c.Now}), opts...)
}

// yearly returns a DBSnapshot that dumps a nonexistent server at the beginning of each year.
func yearly(name string) *v1.DBSnapshot {
	return &v1.DBSnapshot{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: v1.DBSnapshotSpec{
			Source: v1.SnapshotSource{Postgres: &v1.PostgresServer{
				Host: "db.example.com", Database: "shop", User: "dumper", Version: "16",
				PasswordSecretRef: corev1.SecretKeySelector{
					LocalObjectReference: corev1.LocalObjectReference{Name: "dumper"}, Key: "password",
				},
			}},
			Schedule: "0 0 1 1 *", BackoffLimit: new(int32(0)),
			Storage: &v1.SnapshotStorage{PersistentVolumeClaim: v1.SnapshotClaim{
				Template: &v1.ClaimTemplate{Size: "1Gi"},
			}},
		},
	}
}

// dumpPods selects the pods of the tests.
const dumpPods = "app.kubernetes.io/managed-by=dbsnapshot"

// dumpResult returns the termination message of a dump.
func dumpResult(name string) string {
	return fmt.Sprintf(`{"name":%q,"location":%q,"sizeBytes":4096,"sha256":%q,"seconds":1.5,`+
		`"serverVersion":"16.4","verified":"list"}`, name, name+"/shop.dump", strings.Repeat("5", 64))
}

// pruneResult returns the termination message of a prune Job with these dumps left.
func pruneResult(left ...string) string {
	return fmt.Sprintf(`{"left":["%s"],"held":[],"more":0}`, strings.Join(left, `","`))
}

// endJob ends the pod of a Job with a message and an exit code. Pods must be held.
func endJob(k *testkit.K, job, message string, code int32) {
	var pod *corev1.Pod
	k.Wait("a pod of Job "+job+" runs", func(ctx context.Context) error {
		var list corev1.PodList
		if err := k.Client.List(ctx, &list, client.InNamespace(k.Namespace), client.MatchingLabels{"job-name": job}); err != nil {
			return err
		}
		for i := range list.Items {
			if list.Items[i].Status.Phase == corev1.PodRunning && list.Items[i].DeletionTimestamp == nil {
				pod = &list.Items[i]
				return nil
			}
		}
		return errors.New("there is none")
	})
	k.UpdateStatus(pod, func() { terminate(pod, message, code) })
}

func terminate(pod *corev1.Pod, message string, code int32) {
	pod.Status.Phase = corev1.PodSucceeded
	if code != 0 {
		pod.Status.Phase = corev1.PodFailed
	}
	now := metav1.Now()
	for i := range pod.Status.ContainerStatuses {
		c := &pod.Status.ContainerStatuses[i]
		c.Ready = false
		c.Started = new(false)
		c.State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
			ExitCode: code, Message: message, Reason: "Completed", FinishedAt: now, ContainerID: c.ContainerID,
		}}
	}
}

func snapshotPhase(want v1.SnapshotPhase) testkit.Check {
	return testkit.Match("phase "+string(want), func(o *v1.DBSnapshot) bool { return o.Status.Phase == want })
}

func lastCopy(name string) testkit.Check {
	return testkit.Match("the last copy is "+name, func(o *v1.DBSnapshot) bool {
		return o.Status.LastSnapshot != nil && o.Status.LastSnapshot.Name == name && o.Status.Active == nil
	})
}

func failures(n int32) testkit.Check {
	return testkit.Match(fmt.Sprintf("%d failures", n), func(o *v1.DBSnapshot) bool {
		return o.Status.ConsecutiveFailures == n && o.Status.Active == nil
	})
}

func jobNamed(k *testkit.K, name string) *batchv1.Job {
	return &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: k.Namespace, Name: name}}
}

// A copy is made when it is due, and the status describes it completely.
func TestScheduledCopy(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	k.Kubelet.DelayReadiness(dumpPods)
	c := newYear()
	op := startSnapshots(k, c)
	o := yearly("a")
	k.Apply(o)
	k.Eventually(o, snapshotPhase(v1.SnapshotRunning), testkit.Reason("Ready", metav1.ConditionFalse, "Overdue"))
	endJob(k, "a-203201010000", dumpResult("a-203201010000"), 0)
	k.Eventually(o, lastCopy("a-203201010000"), snapshotPhase(v1.SnapshotScheduled), testkit.Ready())
	s := o.Status
	if got := s.NextScheduleTime.UTC(); !got.Equal(time.Date(2033, time.January, 1, 0, 0, 0, 0, time.UTC)) {
		t.Errorf("the next copy is due %s", got)
	}
	if last := s.LastSnapshot; last.SizeBytes != 4096 || last.Location != "a-203201010000/shop.dump" ||
		last.Verified != "list" || last.Duration.Duration != 1500*time.Millisecond || last.ServerVersion != "16.4" {
		t.Errorf("the last copy is %+v", last)
	}
	waitIdle(k, op)

	c.NextYear(k, o)
	endJob(k, "a-203301010000", "the server is out of memory", 1)
	k.Eventually(o, failures(1), snapshotPhase(v1.SnapshotFailed),
		testkit.Reason(v1.ConditionLastSucceeded, metav1.ConditionFalse, "Failed"))
	if got := o.Status.History[0]; got.Message != "the server is out of memory" || got.Result != v1.ResultFailed {
		t.Errorf("the history begins with %+v", got)
	}
	waitIdle(k, op)
}

// The operator reconciles when a copy is due, without an event.
func TestRequeueAtScheduledTime(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	o := yearly("a")
	o.Spec.Schedule = "* * * * *"
	k.Apply(o)
	const early = 8 * time.Second
	var ahead time.Duration
	var first sync.Once // the first reconcile is early, no matter how long the operator takes to start
	k.Run(database.NewSnapshots(database.Options{Now: func() time.Time {
		first.Do(func() { ahead = time.Until(o.CreationTimestamp.Truncate(time.Minute).Add(time.Minute - early)) })
		return time.Now().Add(ahead)
	}}))
	k.Eventually(o, testkit.Match("nothing is due", func(o *v1.DBSnapshot) bool {
		return o.Status.NextScheduleTime != nil && o.Status.Active == nil
	}))
	k.Eventually(jobNamed(k, "a-"+o.Status.NextScheduleTime.UTC().Format("200601021504")), testkit.Exists())
}

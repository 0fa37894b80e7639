package database_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "github.com/homeostat-dev/homeostat/operators/database/api/v1"
	"github.com/homeostat-dev/homeostat/testkit"
	"github.com/homeostat-dev/homeostat/testkit/kubelet"
)

var errDead = errors.New("the process is dead")

// writeLimiter lets an operator make a number of writes. The response of the last one is lost, and later requests fail.
type writeLimiter struct {
	left  atomic.Int64
	blown chan struct{}
}

func newWriteLimiter(writes int64) *writeLimiter {
	f := &writeLimiter{blown: make(chan struct{})}
	f.left.Store(writes)
	return f
}

func (f *writeLimiter) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTrip(func(r *http.Request) (*http.Response, error) {
		if r.Method == http.MethodGet {
			return next.RoundTrip(r)
		}
		switch left := f.left.Add(-1); {
		case left > 0:
			return next.RoundTrip(r)
		case left < 0:
			return nil, errDead
		}
		defer close(f.blown)
		if answer, err := next.RoundTrip(r); err == nil {
			_ = answer.Body.Close()
		}
		return nil, errDead
	})
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// jobsMade returns the names of all Jobs created in the namespace since, up to the last one.
func jobsMade(t *testing.T, k *testkit.K) func(last string) []string {
	t.Helper()
	w, err := k.Client.Watch(k.Context(), &batchv1.JobList{}, client.InNamespace(k.Namespace))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Stop)
	return func(last string) []string {
		var names []string
		for !slices.Contains(names, last) {
			e, open := <-w.ResultChan()
			if !open {
				t.Fatalf("the watch of Jobs ended before %s: %s", last, names)
			}
			if job, ok := e.Object.(*batchv1.Job); ok && e.Type == watch.Added {
				names = append(names, job.Name)
			}
		}
		return names
	}
}

// The operator is down for half an hour of a schedule of every minute. Then it crashes ten times, after one more write each.
// Exactly one copy makes up for the missed times.
func TestMissedTimesAndCrashes(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	k.Kubelet.DelayReadiness(dumpPods)
	o := yearly("a")
	o.Spec.Schedule = "* * * * *"
	k.Apply(o)
	begin := o.CreationTimestamp.Truncate(time.Minute)
	c := &clock{now: begin.Add(59 * time.Second)}
	op := startSnapshots(k, c)
	k.Eventually(o, snapshotPhase(v1.SnapshotScheduled), testkit.Ready())
	op.Stop()
	made := jobsMade(t, k)
	c.Move(k, o, 30*time.Minute)
	for n := int64(1); n <= 10; n++ {
		f := newWriteLimiter((n-1)%4 + 1)
		op := startSnapshots(k, c, testkit.WithTransport(f.wrap))
		k.Wait("the operator dies, or has nothing to do", func(ctx context.Context) error {
			select {
			case <-f.blown:
				return nil
			default:
			}
			if err := k.Client.Get(ctx, client.ObjectKeyFromObject(o), o); err != nil {
				return err
			}
			if active := o.Status.Active; active == nil || active.StartTime == nil {
				return errors.New("it lives")
			}
			return nil
		})
		op.Kill()
	}
	startSnapshots(k, c)
	name := "a-" + begin.Add(30*time.Minute).UTC().Format("200601021504")
	endJob(k, name, dumpResult(name), 0)
	k.Eventually(o, lastCopy(name), testkit.Ready())
	if o.Status.Missed != 29 {
		t.Errorf("%d times are counted as missed, want 29", o.Status.Missed)
	}
	c.Move(k, o, time.Minute)
	next := "a-" + begin.Add(31*time.Minute).UTC().Format("200601021504")
	endJob(k, next, dumpResult(next), 0)
	k.Eventually(o, lastCopy(next))
	if jobs := made(next); !slices.Equal(jobs, []string{name, next}) {
		t.Errorf("the Jobs %s were made, want %s and %s", jobs, name, next)
	}
}

// A corrupt dump does not count: nothing is pruned, and the last good copy stays.
func TestCorruptDump(t *testing.T) {
	t.Parallel()
	say := func(message string, code int32) func(*testkit.K, string) {
		return func(k *testkit.K, job string) { endJob(k, job, message, code) }
	}
	for reason, c := range map[string]struct {
		end  func(k *testkit.K, job string)
		want string
	}{
		"it fails midway":            {say("pg_dump failed; older dumps stay", 1), "pg_dump failed; older dumps stay"},
		"the disk is full":           {say("the dump cannot be finished, 0 bytes are free", 1), "0 bytes are free"},
		"it says that it failed":     {say("pg_dump failed", 0), `what it said is no result: "pg_dump failed"`},
		"it made nothing":            {say(strings.Replace(dumpResult("a-203301010000"), "4096", "0", 1), 0), "the dump is empty"},
		"it reports another name":    {say(dumpResult("a-203201010000"), 0), `it made the copy "a-203201010000"`},
		"it does not say what it is": {say(`{"name":"a-203301010000"}`, 0), "the dump is empty"},
		"its pod is evicted": {func(k *testkit.K, job string) {
			k.Wait("its pod runs", func(ctx context.Context) error { return running(ctx, k, job) })
			k.Kubelet.Fail("job-name="+job, kubelet.Evicted)
		}, "Evicted: The node was low on resource"},
	} {
		t.Run(reason, func(t *testing.T) {
			t.Parallel()
			k := testkit.New(t)
			k.Kubelet.DelayReadiness(dumpPods)
			made := jobsMade(t, k)
			clock := newYear()
			startSnapshots(k, clock)
			o := yearly("a")
			o.Spec.Retention.KeepLast = 1
			k.Apply(o)
			endJob(k, "a-203201010000", dumpResult("a-203201010000"), 0)
			k.Eventually(o, lastCopy("a-203201010000"))
			clock.NextYear(k, o)
			c.end(k, "a-203301010000")
			k.Eventually(o, failures(1), testkit.Reason(v1.ConditionLastSucceeded, metav1.ConditionFalse, "Failed"))
			if got := o.Status.History; len(got) != 2 || !strings.Contains(got[0].Message, c.want) || got[0].Location != "" ||
				got[1].Result != v1.ResultSucceeded || o.Status.LastSnapshot.Name != "a-203201010000" {
				t.Errorf("the history is %+v, want a failure with %q", got, c.want)
			}
			clock.NextYear(k, o)
			endJob(k, "a-203401010000", dumpResult("a-203401010000"), 0)
			k.Eventually(o, lastCopy("a-203401010000"))
			endJob(k, "a-203401010000-prune", pruneResult("a-203401010000"), 0)
			k.Eventually(o, enforced("Enforced", metav1.ConditionTrue))
			want := []string{"a-203201010000", "a-203301010000", "a-203401010000", "a-203401010000-prune"}
			if got := made("a-203401010000-prune"); !slices.Equal(got, want) {
				t.Errorf("the Jobs %s were made, want %s", got, want)
			}
		})
	}
}

// running returns an error unless a pod of the Job runs.
func running(ctx context.Context, k *testkit.K, job string) error {
	var list corev1.PodList
	err := k.Client.List(ctx, &list, client.InNamespace(k.Namespace), client.MatchingLabels{"job-name": job})
	if err == nil && (len(list.Items) != 1 || list.Items[0].Status.Phase != corev1.PodRunning) {
		err = fmt.Errorf("there are %d pods", len(list.Items))
	}
	return err
}

func enforced(reason string, status metav1.ConditionStatus) testkit.Check {
	return testkit.Reason(v1.ConditionRetention, status, reason)
}

// Two good copies are kept through ten failures, although they have expired, and the status reports it. The next success
// prunes them.
func TestRetentionKeepsLastGoodCopies(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	k.Kubelet.DelayReadiness(dumpPods)
	c := newYear()
	op := startSnapshots(k, c)
	o := yearly("a")
	o.Spec.Retention = v1.SnapshotRetention{KeepLast: 2, MaxAge: &metav1.Duration{Duration: 500 * 24 * time.Hour}}
	k.Apply(o)
	year := func(i int) string { return fmt.Sprintf("a-%d01010000", 2032+i) }
	attempt := func(i int, message string, code int32) {
		if i > 0 {
			c.NextYear(k, o)
		}
		endJob(k, year(i), message, code)
	}
	for i := range 2 {
		attempt(i, dumpResult(year(i)), 0)
		k.Eventually(o, lastCopy(year(i)), enforced("Enforced", metav1.ConditionTrue))
	}
	for i := range 10 {
		attempt(2+i, "the server does not answer", 1)
		k.Eventually(o, failures(int32(1+i)))
	}
	k.Eventually(o, enforced("ProtectedLastGood", metav1.ConditionFalse), snapshotPhase(v1.SnapshotOverdue))
	var names []string
	for _, r := range o.Status.History {
		names = append(names, r.Name+" "+r.Result)
	}
	if want := []string{year(11) + " Failed", year(1) + " Succeeded", year(0) + " Succeeded"}; !slices.Equal(names, want) {
		t.Errorf("the history is %s, want %s", names, want)
	}
	waitIdle(k, op)
	attempt(12, dumpResult(year(12)), 0)
	k.Eventually(o, lastCopy(year(12)), enforced("Pruning", metav1.ConditionFalse))
	job := jobNamed(k, year(12)+"-prune")
	k.Eventually(job, testkit.Exists())
	got := job.Spec.Template.Spec.Containers[0].Env
	if !slices.Contains(got, corev1.EnvVar{Name: "NAMES", Value: year(0) + " " + year(1)}) {
		t.Errorf("the prune Job has %v, want %s and %s", got, year(0), year(1))
	}
	endJob(k, job.Name, pruneResult(year(12)), 0)
	k.Eventually(o, enforced("Enforced", metav1.ConditionTrue), testkit.Ready())
	k.Eventually(job, testkit.Gone())
	waitIdle(k, op)
}

// A Job's result is lost with its pod if it was not read in time. Another Job of the same name reports it again.
func TestLostJobResult(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	k.Kubelet.DelayReadiness(dumpPods)
	c := newYear()
	op := startSnapshots(k, c)
	o := yearly("a")
	k.Apply(o)
	first := jobNamed(k, "a-203201010000")
	k.Eventually(first, testkit.Match("runs", func(j *batchv1.Job) bool { return j.Status.Active > 0 }))
	k.Eventually(o, snapshotPhase(v1.SnapshotRunning))
	op.Stop()
	endJob(k, first.Name, dumpResult(first.Name), 0)
	k.Eventually(first, testkit.Condition("Complete", metav1.ConditionTrue))
	if err := k.Client.DeleteAllOf(k.Context(), &corev1.Pod{}, client.InNamespace(k.Namespace),
		client.MatchingLabels{"job-name": first.Name}, client.GracePeriodSeconds(0)); err != nil {
		t.Fatal(err)
	}
	startSnapshots(k, c)
	again := jobNamed(k, first.Name)
	k.Eventually(again, testkit.Match("another one", func(j *batchv1.Job) bool { return j.UID != first.UID }))
	endJob(k, again.Name, dumpResult(again.Name), 0)
	k.Eventually(o, lastCopy(again.Name), failures(0))
}

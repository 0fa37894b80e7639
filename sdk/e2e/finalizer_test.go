package e2e

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/homeostat-dev/homeostat/sdk"
	"github.com/homeostat-dev/homeostat/sdk/conditions"
	"github.com/homeostat-dev/homeostat/sdk/e2e/site"
	"github.com/homeostat-dev/homeostat/testkit"
)

const (
	ourFinalizer   = "homeostat.dev/" + operatorName
	theirFinalizer = "e2e.homeostat.dev/kept"
)

// noCleanUp is a Finalize function without work.
func noCleanUp(context.Context, *pass) error { return nil }

func finalizers(want ...string) testkit.Check {
	return testkit.Match("finalizers "+strings.Join(want, " "), func(o client.Object) bool {
		got := slices.Clone(o.GetFinalizers())
		slices.Sort(got)
		return slices.Equal(got, slices.Sorted(slices.Values(want)))
	})
}

func TestFinalizerIsStoredBeforeTheFirstChild(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	var open atomic.Bool
	f := &faults{before: func(req *http.Request) (*http.Response, error) {
		if req.Method == http.MethodPatch && strings.HasSuffix(req.URL.Path, "/sites/a") && !open.Load() {
			return serverError(req), nil
		}
		return nil, nil //nolint:nilnil // no response: the request goes to the server
	}}
	op := operator(oneChild)
	op.Finalize = noCleanUp
	running := start(k, op, f.config(k))
	s := newSite("a")
	k.Apply(s)
	k.Wait("the finalizer was tried three times", func(context.Context) error {
		if n := len(running.Recorder().Writes()); n < 3 {
			return errors.New("not yet")
		}
		return nil
	})
	for _, r := range running.Recorder().Writes() {
		if r.Resource == "configmaps" {
			t.Fatalf("a child was written before the finalizer was stored: %s", r)
		}
	}
	open.Store(true)
	k.Eventually(s, testkit.Ready(), finalizers(ourFinalizer))
}

func TestFinalizerOnlyWhileNeeded(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	op := operator(oneChild)
	op.Finalize = noCleanUp
	op.NeedsFinalizer = func(s *site.Site) bool { return s.Spec.Extra }
	running := start(k, op)
	s := newSite("a")
	k.Apply(s)
	k.Eventually(s, testkit.Ready(), finalizers())
	k.Update(s, func() { s.Spec.Extra = true })
	k.Eventually(s, testkit.Ready(), finalizers(ourFinalizer))
	k.Update(s, func() { s.Spec.Extra = false })
	k.Eventually(s, testkit.Ready(), finalizers())
	running.Stop()

	k.Update(s, func() { s.Spec.Extra = true })
	running = start(k, op)
	k.Eventually(s, finalizers(ourFinalizer))
	running.Stop()
	op.Finalize = nil // the next version has nothing to clean up
	op.NeedsFinalizer = nil
	start(k, op)
	k.Eventually(s, testkit.Ready(), finalizers())
}

// Another actor adds a finalizer between the operator's read and its write.
func TestForeignFinalizersAreNeverLost(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	adding, removing := newBarrier(), newBarrier()
	op := operator(oneChild)
	op.NeedsFinalizer = func(*site.Site) bool {
		adding.arrive()
		return true
	}
	op.Finalize = func(context.Context, *pass) error {
		removing.arrive()
		return nil
	}
	start(k, op)
	s := newSite("a")
	k.Apply(s)
	adding.waitReached(k)
	k.Update(s, func() { s.Finalizers = []string{theirFinalizer} })
	adding.open()
	k.Eventually(s, testkit.Ready(), finalizers(ourFinalizer, theirFinalizer))

	k.Delete(s)
	removing.waitReached(k)
	k.Update(s, func() { s.Annotations = map[string]string{"written": "meanwhile"} })
	removing.open()
	k.Eventually(s, finalizers(theirFinalizer))
	mustPatch(t, k, s, types.MergePatchType, `{"metadata":{"finalizers":null}}`)
	k.Eventually(s, testkit.Gone())
}

func TestDeletingReportsCleanUp(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	var result atomic.Value
	result.Store(failure{sdk.WaitFor(10*time.Millisecond, "Draining", "2 connections are open")})
	op := operator(oneChild)
	op.Finalize = func(context.Context, *pass) error { return result.Load().(failure).error }
	start(k, op)
	s := newSite("a")
	k.Apply(s)
	k.Eventually(s, testkit.Ready())
	k.Delete(s)
	k.Eventually(s, testkit.Reason(conditions.Deleting, metav1.ConditionTrue, "CleaningUp"),
		testkit.Reason(conditions.Ready, metav1.ConditionFalse, conditions.Deleting),
		testkit.Condition(conditions.Reconciling, metav1.ConditionTrue))
	if _, _, message := condition(s, conditions.Deleting); !strings.Contains(message, "2 connections are open") {
		t.Errorf("the message %q does not name the reason to wait", message)
	}
	result.Store(failure{errors.New("the disk is on fire")})
	k.Eventually(s, testkit.Reason(conditions.Deleting, metav1.ConditionTrue, "CleanUpFailing"))
	if _, _, message := condition(s, conditions.Deleting); !strings.Contains(message, "the disk is on fire") {
		t.Errorf("the message %q does not contain the error", message)
	}
	k.Get(named(&corev1.ConfigMap{}, s.Name)) // no child is deleted before the clean-up is done
	result.Store(failure{})
	k.Eventually(s, testkit.Gone())
}

// failure wraps an error, so that an atomic.Value can hold errors of any type, and nil.
type failure struct{ error }

// The informer still has the object for a while after its finalizer was removed. A successful clean-up is not repeated then.
func TestCleanUpIsNotRepeatedWhenWatchesLag(t *testing.T) {
	t.Parallel()
	for name, others := range map[string][]string{"only ours": nil, "with foreign": {theirFinalizer}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := testkit.New(t)
			var calls atomic.Int64
			op := operator(oneChild)
			op.Finalize = func(context.Context, *pass) error {
				if calls.Add(1) == 1 {
					return errors.New("not now")
				}
				return nil
			}
			f := &faults{}
			running := start(k, op, f.config(k))
			s := newSite("a")
			s.Finalizers = others
			k.Apply(s)
			k.Eventually(s, testkit.Ready())
			f.lag.Store(int64(300 * time.Millisecond))
			k.Delete(s)
			if len(others) == 0 {
				k.Eventually(s, testkit.Gone())
			} else {
				k.Eventually(s, finalizers(theirFinalizer))
			}
			waitIdle(k, running, time.Second)
			if got := calls.Load(); got != 2 {
				t.Errorf("the clean-up ran %d times, want 2: one failure and one success", got)
			}
		})
	}
}

func TestOverdueCleanUpNamesReleaseAnnotation(t *testing.T) {
	t.Parallel()
	for name, reason := range map[string]error{
		"waiting": sdk.Wait("Draining", "for ever"),
		"invalid": sdk.Invalid("Broken", "for ever"),
		"failing": errors.New("for ever"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := testkit.New(t)
			var cleanUps atomic.Int64
			op := operator(oneChild)
			op.FinalizeTimeout = time.Second
			op.Finalize = func(context.Context, *pass) error {
				cleanUps.Add(1)
				return reason
			}
			running := start(k, op)
			s := newSite("a")
			k.Apply(s)
			k.Eventually(s, testkit.Ready())
			k.Delete(s)
			k.Eventually(s, testkit.Reason(conditions.Deleting, metav1.ConditionTrue, "CleanUpOverdue"))
			if _, _, message := condition(s, conditions.Deleting); !strings.Contains(message, sdk.ReleaseAnnotation+"=true") {
				t.Errorf("the message %q does not name the remedy", message)
			}
			waitForEvent(k, s, "CleanUpOverdue")
			waitIdle(k, running, quietPeriod)
			before := cleanUps.Load()
			annotate(k, s, sdk.ReleaseAnnotation, "true")
			k.Eventually(s, testkit.Gone())
			if name != "failing" && cleanUps.Load() != before { // a failing clean-up may have been retried meanwhile
				t.Error("Finalize was called for an object that was released")
			}
		})
	}
}

// The status and the events of the clean-up are stored before the finalizer is removed.
func TestStatusIsStoredBeforeFinalizerIsRemoved(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	op := operator(oneChild)
	op.Finalize = func(_ context.Context, p *pass) error {
		p.Object.Status.Seen = 42
		p.Event("Backed", "the last backup is safe")
		return nil
	}
	running := start(k, op)
	s := newSite("a")
	s.Finalizers = []string{theirFinalizer}
	k.Apply(s)
	converged(k, running, s)
	running.Recorder().Reset()
	k.Delete(s)
	k.Eventually(s, finalizers(theirFinalizer))
	if s.Status.Seen != 42 {
		t.Errorf("the status is %+v: the clean-up's changes are lost", s.Status)
	}
	want := []string{"patch sites.e2e.homeostat.dev/status a -> 200", "patch sites.e2e.homeostat.dev a -> 200"}
	if diff := cmp.Diff(want, sent(k, running)); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
	waitForEvent(k, s, "Backed")
	running.Recorder().Reset()
	mustPatch(t, k, s, types.MergePatchType, `{"metadata":{"annotations":{"a":"b"}}}`)
	if got := sent(k, running); len(got) > 0 {
		t.Errorf("requests for an object that only has foreign finalizers: %v", got)
	}
	mustPatch(t, k, s, types.MergePatchType, `{"metadata":{"finalizers":null}}`)
}

// waitForEvent waits for an event with this reason about the site.
func waitForEvent(k *testkit.K, s *site.Site, reason string) {
	k.Wait("event "+reason+" was sent", func(ctx context.Context) error {
		events := &corev1.EventList{}
		if err := k.Client.List(ctx, events, client.InNamespace(k.Namespace)); err != nil {
			return err
		}
		for _, e := range events.Items {
			if e.InvolvedObject.UID == s.UID && e.Reason == reason {
				return nil
			}
		}
		return errors.New("it was not")
	})
}

// A clean-up can apply children too: here, a last ConfigMap that must be marked as done.
func TestCleanUpWithChildren(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	op := operator(oneChild)
	op.Finalize = func(_ context.Context, p *pass) error {
		sdk.Apply(p, configMap(p.Object, "backup"), sdk.ReadyWhen(func(c *corev1.ConfigMap) (bool, string) {
			return c.Data["done"] == "yes", "it is not done"
		}))
		return nil
	}
	start(k, op)
	s := newSite("a")
	k.Apply(s)
	k.Eventually(s, testkit.Ready())
	k.Delete(s)
	k.Eventually(s, testkit.Reason(conditions.Deleting, metav1.ConditionTrue, "CleaningUp"))
	if _, _, message := condition(s, conditions.Deleting); !strings.Contains(message, "ConfigMap backup: it is not done") {
		t.Errorf("the message %q does not name the child", message)
	}
	k.Get(named(&corev1.ConfigMap{}, s.Name)) // no child is pruned during a clean-up
	mustPatch(t, k, named(&corev1.ConfigMap{}, "backup"), types.MergePatchType, `{"data":{"done":"yes"}}`)
	k.Eventually(s, testkit.Gone())
}

func TestOrphanChildren(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	op := operator(func(_ context.Context, p *pass) error {
		sdk.Apply(p, configMap(p.Object, p.Object.Name), sdk.HoldUntil(false))
		return nil
	})
	op.Finalize = func(_ context.Context, p *pass) error {
		p.OrphanChildren()
		return nil
	}
	running := start(k, op)
	s := newSite("a")
	k.Apply(s)
	k.Eventually(s, testkit.Ready())
	c := get(k, named(&corev1.ConfigMap{}, s.Name))
	k.Delete(s)
	k.Eventually(s, testkit.Gone())
	waitIdle(k, running, observationPeriod)
	if k.Get(c); len(c.OwnerReferences) > 0 || len(c.Finalizers) > 0 || !c.DeletionTimestamp.IsZero() {
		t.Errorf("the child is deleted, or still owned: %+v", c.ObjectMeta)
	}
}

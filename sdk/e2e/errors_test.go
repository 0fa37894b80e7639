package e2e

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/homeostat-dev/homeostat/sdk"
	"github.com/homeostat-dev/homeostat/sdk/conditions"
	"github.com/homeostat-dev/homeostat/testkit"
)

// passTimes records the times of reconciles.
type passTimes struct {
	mu    sync.Mutex
	times []time.Time
}

func (c *passTimes) add() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.times = append(c.times, time.Now())
}

func (c *passTimes) gaps() []time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return gaps(c.times)
}

func gaps(times []time.Time) []time.Duration {
	var all []time.Duration
	for i := 1; i < len(times); i++ {
		all = append(all, times[i].Sub(times[i-1]))
	}
	return all
}

// atLeastApart checks that each gap has its minimum length. There is no maximum, which would depend on the machine.
func atLeastApart(t *testing.T, got []time.Duration, want ...time.Duration) {
	t.Helper()
	for i := range want {
		if i < len(got) && got[i] < want[i] {
			t.Errorf("attempt %d came %v after the one before, too early by %v; gaps: %v", i+2, got[i], want[i]-got[i], got)
		}
	}
}

func (c *passTimes) wait(k *testkit.K, passes int) {
	k.Wait(fmt.Sprintf("%d passes were made", passes), func(context.Context) error {
		if n := len(c.gaps()) + 1; n < passes {
			return fmt.Errorf("%d were", n)
		}
		return nil
	})
}

func TestWaitIsNoError(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	var passes passTimes
	running := start(k, operator(func(_ context.Context, p *pass) error {
		passes.add()
		switch p.Object.Spec.Text {
		case "wait":
			return sdk.Wait("NotYet", "the moon is %s", "down")
		case "wait-for":
			return sdk.WaitFor(50*time.Millisecond, "NotYet", "the moon is down")
		}
		return nil
	}))
	s := newSite("a")
	s.Spec.Text = "wait"
	k.Apply(s)
	k.Eventually(s, testkit.Reason(conditions.Ready, metav1.ConditionFalse, "NotYet"),
		testkit.Reason(conditions.Reconciling, metav1.ConditionTrue, "NotYet"),
		testkit.Condition(conditions.Stalled, metav1.ConditionFalse))
	if _, _, message := condition(s, conditions.Ready); message != "the moon is down" {
		t.Errorf("message %q", message)
	}
	waitIdle(k, running, quietPeriod)
	before := len(passes.gaps())
	requireUnchanged(t, k, running, s)
	if after := len(passes.gaps()); after != before {
		t.Errorf("%d reconciles without an event", after-before)
	}
	k.Update(s, func() { s.Spec.Text = "wait-for" })
	passes.wait(k, before+6)
	atLeastApart(t, passes.gaps()[before+3:], 50*time.Millisecond, 50*time.Millisecond)
}

// The status patch that reports the failure causes an event. The event must not trigger the next attempt before its backoff.
func TestTransientFailureIsRetriedWithBackoff(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	var passes passTimes
	running := start(k, operator(func(_ context.Context, p *pass) error {
		passes.add()
		if p.Object.Spec.Text == "good" {
			return nil
		}
		return fmt.Errorf("attempt %d failed", len(passes.gaps())) // each error changes the status
	}))
	s := newSite("a")
	k.Apply(s)
	passes.wait(k, 5)
	atLeastApart(t, passes.gaps(),
		100*time.Millisecond, 200*time.Millisecond, 400*time.Millisecond, 800*time.Millisecond)
	k.Eventually(s, testkit.Reason(conditions.Ready, metav1.ConditionFalse, "Retrying"))
	k.Update(s, func() { s.Spec.Text = "good" }) // a change of the spec causes an attempt without backoff
	changed := time.Now()
	k.Eventually(s, testkit.Ready())
	if took := time.Since(changed); took > 1500*time.Millisecond {
		t.Errorf("the new spec was reconciled after %v", took)
	}
	waitIdle(k, running, quietPeriod)
}

func TestRetryAfterIsHonored(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	var refused atomic.Bool
	f := &faults{
		counted: func(req *http.Request) bool { return isApply(req, "configmaps") },
		before: func(req *http.Request) (*http.Response, error) {
			if isApply(req, "configmaps") && refused.CompareAndSwap(false, true) {
				return response(req, metav1.Status{
					Code: http.StatusTooManyRequests, Reason: metav1.StatusReasonTooManyRequests, Message: "slow down",
					Details: &metav1.StatusDetails{RetryAfterSeconds: 1},
				}), nil
			}
			return nil, nil //nolint:nilnil // no response: the request goes to the server
		},
	}
	start(k, operator(oneChild), f.config(k))
	s := newSite("a")
	k.Apply(s)
	k.Eventually(s, testkit.Ready())
	atLeastApart(t, gaps(f.times()), time.Second)
}

// A transient failure leaves a Ready object Ready; a lasting one does not.
func TestReadyIsKeptDuringTransientFailures(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		failures int64
		held     bool
	}{"three": {3, true}, "four": {4, false}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := testkit.New(t)
			var left atomic.Int64
			running := start(k, operator(func(context.Context, *pass) error {
				if left.Add(-1) >= 0 {
					return errors.New("a bad day")
				}
				return nil
			}))
			s := newSite("a")
			k.Apply(s)
			converged(k, running, s)
			states := collectStates(t, k)
			left.Store(c.failures)
			annotate(k, s, "reconcile", "again")
			k.Wait("an attempt after the failures", func(context.Context) error {
				if n := left.Load(); n >= 0 {
					return fmt.Errorf("%d failures are left", n)
				}
				return nil
			})
			k.Eventually(s, testkit.Ready(), testkit.Condition(conditions.Reconciling, metav1.ConditionFalse))
			retries, held := false, true
			for _, s := range states(s.ResourceVersion) {
				_, reason, _ := condition(s, conditions.Reconciling)
				retries = retries || reason == "Retrying"
				held = held && conditions.IsTrue(s, conditions.Ready)
			}
			if !retries || held != c.held {
				t.Errorf("retries are reported: %v; ready throughout: %v, want %v", retries, held, c.held)
			}
		})
	}
}

func TestInvalidIsNotRetried(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	var passes passTimes
	op := operator(func(_ context.Context, p *pass) error {
		passes.add()
		secret, err := sdk.Ref(p, named(&corev1.Secret{}, "key"))
		if err != nil {
			return err
		}
		if p.Object.Spec.Text != "good" && string(secret.Data["text"]) != "good" {
			return sdk.Invalid("BadText", "text %q is not good: set spec.text", p.Object.Spec.Text)
		}
		return nil
	})
	op.Resync = 20 * time.Millisecond
	running := start(k, op)
	secret := named(&corev1.Secret{}, "key")
	k.Apply(secret)
	s := newSite("a")
	k.Apply(s)
	bad := []testkit.Check{
		testkit.Reason(conditions.Stalled, metav1.ConditionTrue, "BadText"),
		testkit.Reason(conditions.Ready, metav1.ConditionFalse, "BadText"),
		testkit.Condition(conditions.Reconciling, metav1.ConditionFalse),
	}
	k.Eventually(s, bad...)
	waitIdle(k, running, quietPeriod)
	before := len(passes.gaps())
	requireUnchanged(t, k, running, s)
	if after := len(passes.gaps()); after != before {
		t.Errorf("%d reconciles of an unchanged invalid object", after-before)
	}
	k.Update(secret, func() { secret.Data = map[string][]byte{"text": []byte("good")} })
	k.Eventually(s, testkit.Ready())
	k.Update(secret, func() { secret.Data = nil })
	k.Eventually(s, bad...)
	k.Update(s, func() { s.Spec.Text = "good" })
	k.Eventually(s, testkit.Ready())
}

// The API server rejects creations while the namespace is being deleted.
func TestTerminatingNamespaceIsRetried(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	f := &faults{before: func(req *http.Request) (*http.Response, error) {
		if isApply(req, "configmaps") {
			return response(req, metav1.Status{
				Code: http.StatusForbidden, Reason: metav1.StatusReasonForbidden,
				Message: `configmaps "a" is forbidden: unable to create new content in namespace x because it is being terminated`,
				Details: &metav1.StatusDetails{Causes: []metav1.StatusCause{
					{Type: corev1.NamespaceTerminatingCause, Field: "metadata.namespace"},
				}},
			}), nil
		}
		return nil, nil //nolint:nilnil // no response: the request goes to the server
	}}
	start(k, operator(oneChild), f.config(k))
	s := newSite("a")
	k.Apply(s)
	k.Eventually(s, testkit.Reason(conditions.Ready, metav1.ConditionFalse, "NamespaceTerminating"),
		testkit.Condition(conditions.Stalled, metav1.ConditionFalse))
}

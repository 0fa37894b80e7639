package e2e

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/homeostat-dev/homeostat/sdk"
	"github.com/homeostat-dev/homeostat/sdk/conditions"
	"github.com/homeostat-dev/homeostat/sdk/e2e/site"
	"github.com/homeostat-dev/homeostat/testkit"
)

func without(conditionType string) testkit.Check {
	return testkit.Match("no condition "+conditionType, func(s *site.Site) bool {
		return conditions.Get(s, conditionType) == nil
	})
}

func TestPausedObjectIsNotReconciled(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	var passes, cleanUps atomic.Int64
	op := operator(func(ctx context.Context, p *pass) error {
		passes.Add(1)
		return withExtraChildren(ctx, p)
	})
	op.Finalize = func(context.Context, *pass) error {
		cleanUps.Add(1)
		return nil
	}
	running := start(k, op)
	s := newSite("a")
	s.Spec.Extra = true
	k.Apply(s)
	converged(k, running, s)
	annotate(k, s, sdk.PausedAnnotation, "true")
	k.Eventually(s, testkit.Condition("Paused", metav1.ConditionTrue),
		testkit.Condition(conditions.Ready, metav1.ConditionTrue))
	waitIdle(k, running, quietPeriod)

	passes.Store(0)
	running.Recorder().Reset()
	k.Update(s, func() {
		s.Spec.Extra = false
		s.Spec.Text = "new"
	})
	c := named(&corev1.ConfigMap{}, "first")
	mustPatch(t, k, c, types.MergePatchType, `{"metadata":{"labels":{"color":"red"}}}`)
	k.Delete(named(&corev1.Secret{}, "third"))
	requireUnchanged(t, k, running, c)
	running.Stop()
	running = start(k, op)
	waitIdle(k, running, quietPeriod)
	if n := passes.Load(); n > 0 {
		t.Errorf("Reconcile was called %d times", n)
	}
	for _, r := range running.Recorder().Writes() {
		t.Errorf("a write while paused: %s", r)
	}
	annotate(k, s, sdk.PausedAnnotation, "false")
	k.Eventually(s, testkit.Ready(), without("Paused"))
	k.Eventually(c, text("new"), testkit.Match("blue", func(c *corev1.ConfigMap) bool { return c.Labels["color"] == "blue" }))
	k.Eventually(named(&corev1.ConfigMap{}, "second"), testkit.Gone())

	annotate(k, s, sdk.PausedAnnotation, "true")
	k.Eventually(s, testkit.Condition("Paused", metav1.ConditionTrue))
	k.Delete(s)
	k.Eventually(s, testkit.Condition("Paused", metav1.ConditionTrue),
		testkit.Match("being deleted", func(s *site.Site) bool { return s.DeletionTimestamp != nil }))
	requireUnchanged(t, k, running, s)
	if cleanUps.Load() > 0 {
		t.Error("a paused object was cleaned up")
	}
	annotate(k, s, sdk.PausedAnnotation, "false")
	k.Eventually(s, testkit.Gone())
}

// The condition Paused is removed after the pause, even if the object is being deleted by then.
func TestPauseEndsDuringCleanUp(t *testing.T) {
	t.Parallel()
	for annotation, conditionType := range map[string]string{
		sdk.PausedAnnotation: "Paused", sdk.DryRunAnnotation: "DryRun",
	} {
		t.Run(conditionType, func(t *testing.T) {
			t.Parallel()
			k := testkit.New(t)
			var done atomic.Bool
			op := operator(oneChild)
			op.Finalize = func(context.Context, *pass) error {
				if done.Load() {
					return nil
				}
				return sdk.Wait("Draining", "2 connections are open")
			}
			running := start(k, op)
			s := newSite("a")
			s.Finalizers = []string{theirFinalizer}
			k.Apply(s)
			converged(k, running, s)
			annotate(k, s, annotation, "true")
			k.Eventually(s, testkit.Condition(conditionType, metav1.ConditionTrue))
			k.Delete(s)
			annotate(k, s, annotation, "false")
			k.Eventually(s, testkit.Reason(conditions.Deleting, metav1.ConditionTrue, "CleaningUp"), without(conditionType))

			annotate(k, s, annotation, "true")
			k.Eventually(s, testkit.Condition(conditionType, metav1.ConditionTrue))
			done.Store(true)
			annotate(k, s, annotation, "false")
			k.Eventually(s, testkit.Reason(conditions.Deleting, metav1.ConditionTrue, "CleanedUp"), without(conditionType))
			mustPatch(t, k, s, types.MergePatchType, `{"metadata":{"finalizers":null}}`)
		})
	}
}

// waitForPlan waits until the condition DryRun contains the action.
func waitForPlan(k *testkit.K, s *site.Site, action string) {
	k.Eventually(s, testkit.Match("would "+action, func(s *site.Site) bool {
		c := conditions.Get(s, "DryRun")
		return c != nil && c.ObservedGeneration == s.GetGeneration() && strings.Contains(c.Message, action)
	}))
}

func TestDryRunWritesNothing(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	op := operator(func(ctx context.Context, p *pass) error {
		p.Object.Status.Seen = 1
		p.SetCondition("Told", metav1.ConditionTrue, "Said", "by a dry run")
		p.Event("Happened", "in a dry run")
		if p.Object.Spec.Text == "wait" {
			return sdk.Wait("NotYet", "the moon is down")
		}
		return withExtraChildren(ctx, p)
	})
	op.Finalize = noCleanUp
	running := start(k, op)
	s := newSite("a")
	s.Annotations = map[string]string{sdk.DryRunAnnotation: "true"}
	k.Apply(s)
	waitForPlan(k, s, "create ConfigMap first")
	if s.Status.Seen != 0 || conditions.Get(s, "Told") != nil || len(s.Finalizers) > 0 {
		t.Errorf("the dry run changed the object: finalizers %v, status %+v", s.Finalizers, s.Status)
	}
	annotate(k, s, sdk.DryRunAnnotation, "false")
	k.Eventually(s, testkit.Ready(), without("DryRun"), finalizers(ourFinalizer))
	converged(k, running, s)

	annotate(k, s, sdk.DryRunAnnotation, "true")
	waitForPlan(k, s, "nothing would be done")
	waitIdle(k, running, quietPeriod)
	for _, c := range []struct {
		reason string
		change func()
		says   []string
	}{
		{"the plan grows", func() { s.Spec.Extra = true }, []string{
			"create ConfigMap second", "create Secret third", "create Deployment fourth",
		}},
		{"a child changes", func() { s.Spec = site.Spec{Text: "new"} }, []string{"update ConfigMap first"}},
		{"the plan is incomplete", func() { s.Spec.Text = "wait" }, []string{"NotYet: the moon is down"}},
	} {
		running.Recorder().Reset()
		k.Update(s, c.change)
		for _, says := range c.says {
			waitForPlan(k, s, says)
		}
		want := []string{"patch sites.e2e.homeostat.dev/status a -> 200"}
		if diff := cmp.Diff(want, sent(k, running)); diff != "" {
			t.Errorf("%s: requests of a dry run (-want +got):\n%s", c.reason, diff)
		}
		if s.Status.Seen != 1 || !conditions.IsTrue(s, "DryRun") {
			t.Errorf("%s: status %+v", c.reason, s.Status)
		}
	}
	k.Delete(s)
	waitForPlan(k, s, "clean up")
	requireUnchanged(t, k, running, s)
	annotate(k, s, sdk.DryRunAnnotation, "false")
	k.Eventually(s, testkit.Gone())
}

// A plan without a former child contains its deletion.
func TestDryRunNamesDeletions(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	running := start(k, operator(withExtraChildren))
	s := newSite("a")
	s.Spec.Extra = true
	k.Apply(s)
	converged(k, running, s)
	annotate(k, s, sdk.DryRunAnnotation, "true")
	k.Update(s, func() { s.Spec.Extra = false })
	waitForPlan(k, s, "would delete Deployment fourth; delete Secret third; delete ConfigMap second")
	waitIdle(k, running, quietPeriod)
	k.Get(named(&corev1.ConfigMap{}, "second"))
}

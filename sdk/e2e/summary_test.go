package e2e

import (
	"context"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/homeostat-dev/homeostat/sdk"
	"github.com/homeostat-dev/homeostat/sdk/conditions"
	"github.com/homeostat-dev/homeostat/sdk/e2e/site"
	"github.com/homeostat-dev/homeostat/testkit"
)

func reason(want string) testkit.Check {
	return testkit.Match("Ready is "+want, func(s *site.Site) bool {
		c := conditions.Get(s, conditions.Ready)
		return c != nil && c.Reason == want
	})
}

// Changes by Summarize are written with the status, also after a failed reconcile, and cause no requests when idle.
func TestSummarize(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	op := operator(func(ctx context.Context, p *pass) error {
		if p.Object.Spec.Text == "bad" {
			return sdk.Invalid("Bad", "the text is bad: write another")
		}
		return oneChild(ctx, p)
	})
	op.Summarize = func(s *site.Site) {
		switch {
		case s.Spec.Text == "bug":
			panic("of Summarize")
		case conditions.IsTrue(s, conditions.Ready):
			conditions.Set(s, conditions.Ready, metav1.ConditionTrue, "Served", "the site is served")
		case conditions.IsTrue(s, conditions.Stalled):
			conditions.Set(s, conditions.Ready, metav1.ConditionFalse, "Refused", conditions.Get(s, conditions.Stalled).Message)
		}
	}
	running := start(k, op)
	s := newSite("a")
	k.Apply(s)
	k.Eventually(s, testkit.Ready(), reason("Served"))
	since := conditions.Get(s, conditions.Ready).LastTransitionTime
	converged(k, running, s)
	running.Recorder().Reset()
	k.Update(s, func() { s.Labels = map[string]string{"some": "pass"} })
	k.Update(s, func() { s.Spec.Text = "other" })
	k.Eventually(s, testkit.Ready(), reason("Served"))
	if again := conditions.Get(s, conditions.Ready).LastTransitionTime; !again.Equal(&since) {
		t.Errorf("Ready is since %v, and was since %v", again, since)
	}
	if n := strings.Count(strings.Join(sent(k, running), "\n"), "/status"); n > 1 {
		t.Errorf("the status was written %d times", n)
	}
	k.Update(s, func() { s.Spec.Text = "bad" })
	k.Eventually(s, reason("Refused"))
	k.Update(s, func() { s.Spec.Text = "bug" })
	k.Eventually(s, reason("Panic"))
	k.Update(s, func() { s.Spec.Text = "good" })
	k.Eventually(s, testkit.Ready(), reason("Served"))
}

// A child that is held back is not written, and neither are children that wait for it. The others are written.
func TestHoldBack(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	running := start(k, operator(func(_ context.Context, p *pass) error {
		var options []sdk.ApplyOption
		if p.Object.Spec.Text != "well" {
			options = append(options, sdk.HoldBack(sdk.Invalid("NotWell", "it is %s", p.Object.Spec.Text)))
		}
		first := sdk.Apply(p, configMap(p.Object, "first"), options...)
		sdk.Apply(p, configMap(p.Object, "second"), sdk.AfterCreated(first))
		sdk.Apply(p, configMap(p.Object, "third"))
		return nil
	}))
	s := newSite("a")
	s.Spec.Text = "bad"
	k.Apply(s)
	k.Eventually(s, testkit.Reason(conditions.Stalled, metav1.ConditionTrue, "NotWell"))
	k.Eventually(named(&corev1.ConfigMap{}, "third"), text("bad"))
	k.Update(s, func() { s.Spec.Text = "well" })
	k.Eventually(s, testkit.Ready())
	k.Update(s, func() { s.Spec.Text = "worse" })
	k.Eventually(s, testkit.Reason(conditions.Stalled, metav1.ConditionTrue, "NotWell"))
	waitIdle(k, running, quietPeriod)
	for name, want := range map[string]string{"first": "well", "second": "worse", "third": "worse"} {
		k.Eventually(named(&corev1.ConfigMap{}, name), text(want))
	}
	k.Update(s, func() { s.Annotations = map[string]string{sdk.DryRunAnnotation: "true"} })
	k.Eventually(s, testkit.Condition("DryRun", metav1.ConditionTrue))
	if _, _, message := dryRunCondition(s); !strings.Contains(message, "ConfigMap first: NotWell: it is worse") {
		t.Errorf("it %q", message)
	}
}

package e2e

import (
	"context"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/homeostat-dev/homeostat/sdk"
	"github.com/homeostat-dev/homeostat/sdk/conditions"
	"github.com/homeostat-dev/homeostat/testkit"
)

func TestPanicAffectsOneObject(t *testing.T) {
	t.Parallel()
	for name, where := range map[string]func(p *pass){
		"reconcile": func(*pass) { panic("a nil map") },
		"ready": func(p *pass) {
			sdk.Apply(p, configMap(p.Object, p.Object.Name), sdk.ReadyWhen(func(*corev1.ConfigMap) (bool, string) {
				panic("a nil map")
			}))
		},
		"misuse": func(p *pass) {
			sdk.Apply(p, configMap(p.Object, "twice"))
			sdk.Apply(p, configMap(p.Object, "twice"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := testkit.New(t)
			var passes passTimes
			start(k, operator(func(_ context.Context, p *pass) error {
				if p.Object.Spec.Text == "panic" {
					passes.add()
					where(p)
				}
				return nil
			}))
			s, other := newSite("a"), newSite("b")
			s.Spec.Text = "panic"
			k.Apply(s)
			k.Apply(other)
			k.Eventually(other, testkit.Ready())
			k.Eventually(s, testkit.Reason(conditions.Ready, metav1.ConditionFalse, "Panic"))
			if _, _, message := condition(s, conditions.Ready); !strings.Contains(message, "panic: ") {
				t.Errorf("the message is %q", message)
			}
			passes.wait(k, 3)
			atLeastApart(t, passes.gaps(), 100*time.Millisecond)
			k.Update(other, func() { other.Spec.Text = "new" })
			k.Eventually(other, testkit.Ready())
			k.Update(s, func() { s.Spec.Text = "fixed" })
			k.Eventually(s, testkit.Ready())
		})
	}
}

// An operator that writes another value in every reconcile never converges. After ten reconciles in a row it is slowed down.
func TestOperatorThatNeverConverges(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	var passes passTimes
	start(k, operator(func(_ context.Context, p *pass) error {
		passes.add()
		p.Object.Status.Seen++
		return nil
	}))
	s := newSite("a")
	k.Apply(s)
	passes.wait(k, 31)
	all := passes.gaps()
	atLeastApart(t, []time.Duration{all[9], all[19], all[29]},
		100*time.Millisecond, 200*time.Millisecond, 400*time.Millisecond)
}

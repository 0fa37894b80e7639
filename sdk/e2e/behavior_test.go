package e2e

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/homeostat-dev/homeostat/sdk"
	"github.com/homeostat-dev/homeostat/sdk/apply"
	"github.com/homeostat-dev/homeostat/sdk/conditions"
	"github.com/homeostat-dev/homeostat/sdk/e2e/site"
	"github.com/homeostat-dev/homeostat/testkit"
)

// The table of docs/behavior.md: a failed reconcile stores its status, and changes no child. The finalizer is stored before
// Reconcile is called.
func TestStoredAfterAnError(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		fail    func() error
		reason  string
		discard bool // the status is not stored
	}{
		"wait":        {func() error { return sdk.Wait("NotYet", "not yet") }, "NotYet", false},
		"invalid":     {func() error { return sdk.Invalid("BadText", "change it") }, "BadText", false},
		"other error": {func() error { return errors.New("the answer is no") }, "Retrying", false},
		"panic":       {func() error { panic("the answer is no") }, "Panic", false},
		"stale read":  {func() error { return apply.ErrStale }, "Outdated", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := testkit.New(t, testkit.WithoutOracles("a case panics on purpose", testkit.Panic))
			var unprotected atomic.Int64
			op := operator(func(_ context.Context, p *pass) error {
				stored := &site.Site{ObjectMeta: metav1.ObjectMeta{Name: p.Object.Name}}
				if k.Get(stored); !slices.Contains(stored.Finalizers, "homeostat.dev/"+operatorName) {
					unprotected.Add(1)
				}
				if p.Object.Spec.Text == "hello" {
					sdk.Apply(p, configMap(p.Object, "old"))
					return nil
				}
				sdk.Apply(p, configMap(p.Object, "new"))
				p.Object.Status.Seen = 7
				p.Object.Spec.SecretName = "ignored"
				return c.fail()
			})
			op.Finalize = func(context.Context, *pass) error { return nil }
			start(k, op)
			s := newSite("a")
			k.Apply(s)
			k.Eventually(s, testkit.Ready())
			k.Update(s, func() { s.Spec.Text = "fails" })
			k.Eventually(s, failedWith(c.reason, ""))
			if stored := s.Status.Seen == 7; stored == c.discard {
				t.Errorf("the status field is stored: %v, want %v", stored, !c.discard)
			}
			if _, reason, _ := condition(s, conditions.Ready); s.Spec.SecretName != "" || reason == "" {
				t.Errorf("spec.secretName is %q, and Ready has reason %q", s.Spec.SecretName, reason)
			}
			k.Eventually(named(&corev1.ConfigMap{}, "old"), testkit.Exists())
			k.Consistently(named(&corev1.ConfigMap{}, "new"), observationPeriod, testkit.Gone())
			if n := unprotected.Load(); n > 0 {
				t.Errorf("Reconcile was called %d times before the finalizer was stored", n)
			}
			k.Delete(s)
			k.Eventually(s, testkit.Gone())
		})
	}
}

package e2e

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/homeostat-dev/homeostat/sdk"
	"github.com/homeostat-dev/homeostat/sdk/conditions"
	"github.com/homeostat-dev/homeostat/sdk/e2e/site"
	"github.com/homeostat-dev/homeostat/testkit"
)

// A transient failure affects its child only: the other children are written in the same reconcile.
func TestFailedChildDoesNotBlockSiblings(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	var failing atomic.Bool
	failing.Store(true)
	f := &faults{before: func(req *http.Request) (*http.Response, error) {
		if req.Method == http.MethodPatch && strings.HasSuffix(req.URL.Path, "/configmaps/b") && failing.Load() {
			return serverError(req), nil
		}
		return nil, nil //nolint:nilnil // no response: the request goes to the server
	}}
	running := start(k, operator(func(_ context.Context, p *pass) error {
		for _, name := range []string{"a", "b", "c"} {
			sdk.Apply(p, configMap(p.Object, name))
		}
		return nil
	}), f.config(k))
	s := newSite("a")
	k.Apply(s)
	k.Eventually(s, testkit.Condition(conditions.Ready, metav1.ConditionFalse))
	k.Eventually(named(&corev1.ConfigMap{}, "a"), text("hello"))
	k.Eventually(named(&corev1.ConfigMap{}, "c"), text("hello"))
	failing.Store(false)
	k.Eventually(named(&corev1.ConfigMap{}, "b"), text("hello"))
	converged(k, running, s)
}

// Children that fail in each reconcile are written last. Even many of them delay neither other children nor the children
// that wait for them.
func TestFailingChildrenAreWrittenLast(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	var failing, more atomic.Bool
	failing.Store(true)
	f := &faults{before: func(req *http.Request) (*http.Response, error) {
		if req.Method == http.MethodPatch && strings.Contains(req.URL.Path, "/configmaps/bad-") && failing.Load() {
			return serverError(req), nil
		}
		return nil, nil //nolint:nilnil // no response: the request goes to the server
	}}
	running := start(k, operator(func(_ context.Context, p *pass) error {
		var bad []sdk.AnyChild
		for _, name := range []string{"bad-1", "bad-2", "bad-3", "bad-4"} {
			bad = append(bad, sdk.Apply(p, configMap(p.Object, name)))
		}
		sdk.Apply(p, configMap(p.Object, "after"), sdk.After(bad...))
		sdk.Apply(p, configMap(p.Object, "good"))
		if more.Load() {
			sdk.Apply(p, configMap(p.Object, "more"))
		}
		return nil
	}), f.config(k))
	s := newSite("a")
	k.Apply(s)
	k.Eventually(named(&corev1.ConfigMap{}, "good"), text("hello"))
	more.Store(true)
	k.Eventually(named(&corev1.ConfigMap{}, "more"), text("hello"))
	failing.Store(false)
	k.Eventually(named(&corev1.ConfigMap{}, "after"), text("hello"))
	converged(k, running, s)
}

// A replacement is created before the child that it replaces is deleted, even if a reconcile ends in between.
func TestReplacementPrecedesPruning(t *testing.T) {
	t.Parallel()
	k, far := testkit.New(t), testkit.New(t)
	var failing atomic.Bool
	f := &faults{before: func(req *http.Request) (*http.Response, error) {
		if req.Method == http.MethodPatch && strings.Contains(req.URL.Path, "/configmaps/bad-") && failing.Load() {
			return serverError(req), nil
		}
		return nil, nil //nolint:nilnil // no response: the request goes to the server
	}}
	running := runInTwoNamespaces(k, far, operator(func(_ context.Context, p *pass) error {
		for _, name := range []string{"bad-1", "bad-2", "bad-3"} {
			c := configMap(p.Object, name)
			c.Namespace = far.Namespace
			sdk.Apply(p, c)
		}
		sdk.Apply(p, configMap(p.Object, p.Object.Spec.Text))
		return nil
	}), f.config(k))
	s := newSite("a")
	s.Spec.Text = "before"
	k.Apply(s)
	k.Eventually(s, testkit.Ready())
	failing.Store(true)
	running.Recorder().Reset()
	k.Update(s, func() { s.Spec.Text = "after" })
	k.Eventually(named(&corev1.ConfigMap{}, "before"), testkit.Gone())
	failing.Store(false)
	k.Eventually(s, testkit.Ready())
	var order []string
	for _, r := range running.Recorder().Writes() {
		if r.Namespace == k.Namespace && r.Resource == "configmaps" {
			order = append(order, r.Verb+" "+r.Name)
		}
	}
	if diff := cmp.Diff([]string{"apply after", "delete before"}, order); diff != "" {
		t.Errorf("writes (-want +got):\n%s", diff)
	}
}

// An object with very many children reports progress before the last child is written.
func TestWriteBudget(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	f := &faults{before: func(req *http.Request) (*http.Response, error) {
		if isApply(req, "configmaps") {
			<-time.After(50 * time.Millisecond)
		}
		return nil, nil //nolint:nilnil // no response: the request goes to the server
	}}
	const children = 150
	running := start(k, operator(func(_ context.Context, p *pass) error {
		for i := range children {
			sdk.Apply(p, configMap(p.Object, fmt.Sprintf("c-%03d", i)))
		}
		return nil
	}), f.config(k))
	s := newSite("a")
	k.Apply(s)
	k.Eventually(s, testkit.Match("progress", func(s *site.Site) bool {
		_, reason, message := condition(s, conditions.Ready)
		return reason == "Progressing" && strings.Contains(message, "is not written yet; and ")
	}))
	converged(k, running, s)
	applies, statusWrites := 0, 0
	for _, r := range running.Recorder().Writes() {
		switch r.Resource {
		case "configmaps":
			applies++
		case "sites":
			statusWrites++
		}
	}
	if applies != children || statusWrites > 3 {
		t.Errorf("%d applies and %d writes of the status for %d children", applies, statusWrites, children)
	}
}

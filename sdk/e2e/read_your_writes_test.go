package e2e

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/homeostat-dev/homeostat/sdk"
	"github.com/homeostat-dev/homeostat/testkit"
)

// The informers receive writes long after they were made. No write is repeated, and each reconcile reads all writes of the
// reconciles before it.
func TestReadYourWritesWhenWatchesLag(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	var lost atomic.Int64
	wrote := map[string]bool{}
	op := operator(func(_ context.Context, p *pass) error {
		c := sdk.Apply(p, configMap(p.Object, p.Object.Name))
		if wrote[p.Object.Spec.Text] && c.Live().Data["text"] != p.Object.Spec.Text {
			lost.Add(1)
		}
		wrote[p.Object.Spec.Text] = true
		if p.Object.Spec.Extra {
			sdk.Apply(p, configMap(p.Object, p.Object.Name+"-extra"))
		}
		p.Object.Status.Seen = int64(len(c.Live().Data))
		return nil
	})
	op.Finalize = func(context.Context, *pass) error { return nil }
	f := &faults{}
	running := start(k, op, f.config(k))
	f.lag.Store(int64(300 * time.Millisecond))
	s := newSite("a")
	s.Spec.Extra = true
	k.Apply(s)
	k.Eventually(s, testkit.Ready())
	waitIdle(k, running, time.Second)
	k.Update(s, func() {
		s.Spec.Extra = false
		s.Spec.Text = "new"
	})
	k.Eventually(named(&corev1.ConfigMap{}, "a-extra"), testkit.Gone())
	k.Eventually(s, testkit.Ready())
	waitIdle(k, running, time.Second)

	want := []string{
		"patch sites.e2e.homeostat.dev a -> 200", // the finalizer
		"apply configmaps a -> 201",
		"apply configmaps a-extra -> 201",
		"patch sites.e2e.homeostat.dev/status a -> 200",
		"patch sites.e2e.homeostat.dev/status a -> 200", // state of the children in the next reconcile
		"apply configmaps a -> 200",
		"patch sites.e2e.homeostat.dev/status a -> 200",
		"delete configmaps a-extra -> 200",
	}
	if diff := cmp.Diff(want, sent(k, running)); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
	if lost.Load() > 0 {
		t.Errorf("%d reconciles did not read earlier writes", lost.Load())
	}
}

// A child is deleted, and the watch that should deliver the event hangs. The attempts to change the child back off.
func TestHangingWatchBacksOff(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	f := &faults{
		counted: func(req *http.Request) bool { return isApply(req, "configmaps") },
		lagging: func(req *http.Request) bool { return strings.HasSuffix(req.URL.Path, "/configmaps") },
	}
	running := start(k, operator(oneChild), f.config(k))
	s := newSite("a")
	k.Apply(s)
	converged(k, running, s)
	before := len(f.times())
	f.lag.Store(int64(time.Hour))
	k.Delete(named(&corev1.ConfigMap{}, s.Name))
	k.Update(s, func() { s.Spec.Text = "new" })
	k.Wait("six attempts were made", func(context.Context) error {
		if n := len(f.times()) - before; n < 6 {
			return fmt.Errorf("%d were", n)
		}
		return nil
	})
	atLeastApart(t, gaps(f.times()[before:]), 20*time.Millisecond, 40*time.Millisecond, 80*time.Millisecond,
		160*time.Millisecond, 320*time.Millisecond)
	f.lag.Store(0)
	k.Eventually(named(&corev1.ConfigMap{}, s.Name), text("new"))
}

// The server executes a write and its response is lost. The next reconcile reads the result and does not repeat the write.
func TestLostResponse(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	f := &faults{}
	var lost atomic.Bool
	f.after = func(req *http.Request, resp *http.Response) (*http.Response, error) {
		if isApply(req, "configmaps") && lost.CompareAndSwap(false, true) {
			_ = resp.Body.Close()
			return nil, errors.New("connection reset by peer")
		}
		return resp, nil
	}
	running := start(k, operator(oneChild), f.config(k))
	s := newSite("a")
	k.Apply(s)
	k.Eventually(s, testkit.Ready())
	waitIdle(k, running, quietPeriod)
	if c := get(k, named(&corev1.ConfigMap{}, s.Name)); c.Data["text"] != "hello" {
		t.Errorf("data %v", c.Data)
	}
	for _, r := range running.Requests() {
		if r.Resource == "configmaps" && r.Code == http.StatusOK && r.Verb == "apply" {
			t.Errorf("the child was written again: %s", r)
		}
	}
}

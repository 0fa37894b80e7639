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

// The informers show what was written long after it was written. Nothing is written twice, and no pass sees less than
// what the passes before it wrote.
func TestReadsItsOwnWritesWhenWatchesAreLate(t *testing.T) {
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
	f.late.Store(int64(300 * time.Millisecond))
	s := newSite("a")
	s.Spec.Extra = true
	k.Apply(s)
	k.Eventually(s, testkit.Ready())
	quiet(k, running, time.Second)
	k.Update(s, func() { s.Spec.Extra, s.Spec.Text = false, "new" })
	k.Eventually(named(&corev1.ConfigMap{}, "a-extra"), testkit.Gone())
	k.Eventually(s, testkit.Ready())
	quiet(k, running, time.Second)

	want := []string{
		"patch sites.e2e.homeostat.dev a -> 200", // the finalizer
		"apply configmaps a -> 201",
		"apply configmaps a-extra -> 201",
		"patch sites.e2e.homeostat.dev/status a -> 200",
		"patch sites.e2e.homeostat.dev/status a -> 200", // what the next pass saw of the children
		"apply configmaps a -> 200",
		"patch sites.e2e.homeostat.dev/status a -> 200",
		"delete configmaps a-extra -> 200",
	}
	if diff := cmp.Diff(want, sent(k, running)); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
	if lost.Load() > 0 {
		t.Errorf("%d passes did not see what had been written before", lost.Load())
	}
}

// The child is gone, and the watch that should tell so hangs. The attempts to change it become rarer.
func TestHangingWatchCausesNoFlood(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	f := &faults{
		counted: func(req *http.Request) bool { return isApply(req, "configmaps") },
		delayed: func(req *http.Request) bool { return strings.HasSuffix(req.URL.Path, "/configmaps") },
	}
	running := start(k, operator(oneChild), f.config(k))
	s := newSite("a")
	k.Apply(s)
	converged(k, running, s)
	before := len(f.times())
	f.late.Store(int64(3 * time.Second))
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
	k.Eventually(named(&corev1.ConfigMap{}, s.Name), text("new"))
}

// The server carries out a write and its answer is lost: the next pass finds out instead of writing again blindly.
func TestLostAnswer(t *testing.T) {
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
	quiet(k, running, still)
	if c := get(k, named(&corev1.ConfigMap{}, s.Name)); c.Data["text"] != "hello" {
		t.Errorf("data %v", c.Data)
	}
	for _, r := range running.Requests() {
		if r.Resource == "configmaps" && r.Code == http.StatusOK && r.Verb == "apply" {
			t.Errorf("the child was written again: %s", r)
		}
	}
}

package e2e

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/homeostat-dev/homeostat/sdk"
	"github.com/homeostat-dev/homeostat/sdk/e2e/site"
	"github.com/homeostat-dev/homeostat/testkit"
)

// A change of the spec takes two reconciles: the first writes the child and the status, and the second has nothing to do.
// The events of the three writes cause no reconcile. Occasionally an event arrives before the response to its write. The
// operator cannot distinguish it from a foreign event, hence the allowance. The second reconcile may also include the next
// change.
func TestOwnWritesCauseNoReconcile(t *testing.T) {
	t.Parallel()
	const changes, allowance = 20, 8
	k := testkit.New(t)
	var passes atomic.Int64
	running := start(k, operator(func(_ context.Context, p *pass) error {
		passes.Add(1)
		sdk.Apply(p, configMap(p.Object, "one"))
		sdk.Apply(p, configMap(p.Object, "two"))
		return nil
	}))
	s := newSite("a")
	k.Apply(s)
	converged(k, running, s)
	passes.Store(0)
	for i := range changes {
		k.Update(s, func() { s.Spec.Text = strconv.Itoa(i) })
		converged(k, running, s)
	}
	if n := passes.Load(); n < changes || n > 2*changes+allowance {
		t.Errorf("%d passes for %d changes, want %d", n, changes, 2*changes)
	}
}

// Another actor changes a child between the operator's read and its write.
func TestForeignChangeDuringReconcile(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	var hold atomic.Pointer[barrier]
	running := start(k, operator(func(_ context.Context, p *pass) error {
		c := sdk.Apply(p, configMap(p.Object, p.Object.Name))
		p.Object.Status.Seen = int64(len(c.Live().Data))
		if g := hold.Load(); g != nil {
			g.arrive()
		}
		return nil
	}))
	s := newSite("a")
	k.Apply(s)
	converged(k, running, s)
	for i := range 5 {
		g := newBarrier()
		hold.Store(g)
		k.Update(s, func() { s.Spec.Text = strconv.Itoa(i) })
		g.waitReached(k)
		mustPatch(t, k, named(&corev1.ConfigMap{}, s.Name), types.MergePatchType, fmt.Sprintf(`{"data":{"foreign-%d":"x"}}`, i))
		hold.Store(nil)
		g.open()
		k.Eventually(s, testkit.Ready(), testkit.Match("seen", func(*site.Site) bool { return s.Status.Seen == int64(i+2) }))
	}
}

// The spec changes between the operator's read and its status patch. The status of the old spec must not be stored for the
// new one.
func TestSpecChangeDuringReconcile(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	var hold atomic.Pointer[barrier]
	running := start(k, operator(func(_ context.Context, p *pass) error {
		p.Object.Status.UID = p.Object.Spec.Text
		if g := hold.Load(); g != nil {
			g.arrive()
		}
		return nil
	}))
	s := newSite("a")
	k.Apply(s)
	converged(k, running, s)
	states := collectStates(t, k)
	for i := range 3 {
		g := newBarrier()
		hold.Store(g)
		k.Update(s, func() { s.Spec.Text = fmt.Sprintf("old-%d", i) })
		g.waitReached(k)
		k.Update(s, func() { s.Spec.Text = fmt.Sprintf("new-%d", i) })
		hold.Store(nil)
		g.open()
		k.Eventually(s, testkit.Ready())
	}
	for _, s := range states(s.ResourceVersion) {
		if s.Status.ObservedGeneration == s.Generation && s.Status.UID != s.Spec.Text {
			t.Errorf("the status %q is stored as that of %q", s.Status.UID, s.Spec.Text)
		}
	}
}

// The deletion of a child always triggers a reconcile, even if the operator itself deleted the child.
func TestDeletedChildIsRecreated(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	running := start(k, operator(oneChild))
	s := newSite("a")
	k.Apply(s)
	converged(k, running, s)
	running.Recorder().Reset()
	c := get(k, named(&corev1.ConfigMap{}, s.Name))
	k.Delete(c)
	k.Wait("the child is made again", func(ctx context.Context) error {
		again := named(&corev1.ConfigMap{}, s.Name)
		again.Namespace = k.Namespace
		if err := k.Client.Get(ctx, client.ObjectKeyFromObject(again), again); err != nil {
			return err
		}
		if again.UID == c.UID {
			return errors.New("it is still there")
		}
		return nil
	})
	if got := sent(k, running); len(got) != 1 || got[0] != "apply configmaps a -> 201" {
		t.Errorf("requests %v, want one creation", got)
	}
}

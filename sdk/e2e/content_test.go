package e2e

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/homeostat-dev/homeostat/sdk"
	"github.com/homeostat-dev/homeostat/sdk/apply"
	"github.com/homeostat-dev/homeostat/sdk/e2e/site"
	"github.com/homeostat-dev/homeostat/testkit"
)

// originals returns the metadata of the ConfigMaps to copy.
func originals(p *pass) ([]*metav1.PartialObjectMetadata, error) {
	like := &metav1.PartialObjectMetadata{}
	like.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ConfigMap"))
	return sdk.Find(p, like, client.InNamespace(p.Object.Namespace), client.MatchingLabels{"original": "yes"})
}

// digests returns the digests of a ConfigMap's values.
func digests(full *corev1.ConfigMap) map[string]string {
	all := map[string]string{}
	for key, value := range full.Data {
		sum := sha256.Sum256([]byte(value))
		all[key] = hex.EncodeToString(sum[:])
	}
	return all
}

// copyOperator returns an operator that copies the ConfigMaps that it finds. It counts how often it reads one in full.
func copyOperator(reads *atomic.Int64) *siteOperator {
	op := operator(func(ctx context.Context, p *pass) error {
		found, err := originals(p)
		if err != nil {
			return err
		}
		p.Object.Status.Seen = int64(len(found))
		for _, original := range found {
			data, err := sdk.Derive(ctx, p, original, func(full *corev1.ConfigMap) map[string]string {
				reads.Add(1)
				return digests(full)
			})
			if err != nil {
				return err
			}
			placeholder := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "copy-of-" + original.Name}, Data: data}
			sdk.Apply(p, placeholder, sdk.ContentFrom(func(context.Context) (*corev1.ConfigMap, error) {
				return &corev1.ConfigMap{Data: map[string]string{"text": p.Object.Spec.Text}}, nil
			}))
		}
		return nil
	})
	op.Owns = []client.Object{sdk.ExclusiveMaps(sdk.MetadataOnly(&corev1.ConfigMap{}), "data", "binaryData")}
	return op
}

func originalConfigMap(name, value string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"original": "yes"}},
		Data:       map[string]string{"text": value},
	}
}

// hasData returns a check that a ConfigMap has exactly this data.
func hasData(data map[string]string) testkit.Check {
	return testkit.Match(fmt.Sprintf("data %v", data), func(c *corev1.ConfigMap) bool { return cmp.Equal(c.Data, data) })
}

// Large content is read only when it changes and when it is written. Every foreign change of a copy is reverted.
func TestContentFrom(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	var reads atomic.Int64
	running := start(k, copyOperator(&reads))
	s, c := newSite("a"), named(&corev1.ConfigMap{}, "copy-of-x")
	k.Apply(s)
	k.Apply(originalConfigMap("x", "hello"))
	k.Eventually(c, hasData(map[string]string{"text": "hello"}))
	converged(k, running, s)
	if n := reads.Load(); n != 1 {
		t.Errorf("the original was read %d times", n)
	}
	for change, body := range map[string]string{
		"a value is changed": `{"data":{"text":"theirs"}}`, "an entry is added": `{"data":{"more":"theirs"}}`,
		"an entry is removed":     `{"data":{"text":null}}`,
		"several changes":         `{"data":{"text":null,"more":"theirs"},"binaryData":{"even":"bW9yZQ=="}}`,
		"a binary entry is added": `{"binaryData":{"even":"bW9yZQ=="}}`,
	} {
		mustPatch(t, k, c, types.MergePatchType, body)
		k.Eventually(c, hasData(map[string]string{"text": "hello"}),
			testkit.Match(change+": no binary data is left", func(c *corev1.ConfigMap) bool { return c.BinaryData == nil }))
	}
	converged(k, running, s)
	running.Stop()

	// This entry is added while the operator is down, and is still detected.
	mustPatch(t, k, c, types.MergePatchType, `{"data":{"meanwhile":"theirs"}}`)
	running = start(k, copyOperator(&reads))
	k.Eventually(c, hasData(map[string]string{"text": "hello"}))
	if got := writes(sent(k, running)); len(got) != 2 {
		t.Errorf("the removal of an entry takes %v, want a removal and an apply", got)
	}
	converged(k, running, s)
	running.Stop()

	reads.Store(0)
	running = start(k, copyOperator(&reads))
	k.Wait("the reconcile after the restart", func(context.Context) error { return atLeast(&reads, 1) })
	if got := writes(sent(k, running)); len(got) > 0 || reads.Load() != 1 {
		t.Errorf("after a restart it writes %v and reads %d originals, want nothing and 1", got, reads.Load())
	}
}

// A plan shows the placeholder and calls it a digest. It never shows the content. Without MetadataOnly, values would be
// compared with those of the placeholder.
func TestPlanOfContentFrom(t *testing.T) {
	t.Parallel()
	var reads atomic.Int64
	s := newSite("a")
	s.Namespace = "shop"
	plan := sdk.Dry(t.Context(), copyOperator(&reads), s, originalConfigMap("x", "hello"), newSite("other")).String()
	want := `      data.text: digest "` + digests(originalConfigMap("x", "hello"))["text"] + "\"\n"
	if !strings.Contains(plan, want) || strings.Contains(plan, "hello") {
		t.Errorf("the plan does not show %s, or shows the content:\n%s", want, plan)
	}
	op := copyOperator(&reads)
	op.Owns = []client.Object{&corev1.ConfigMap{}}
	if err := sdk.Dry(t.Context(), op, s, originalConfigMap("x", "hello")).Err; err == nil ||
		!strings.Contains(err.Error(), "add MetadataOnly in Owns") {
		t.Errorf("got %v", err)
	}
}

// Content that has changed before it is written restarts the reconcile.
func TestStaleContentIsRetried(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	var calls atomic.Int64
	op := operator(func(_ context.Context, p *pass) error {
		sdk.Apply(p, configMap(p.Object, "a"), sdk.ContentFrom(func(context.Context) (*corev1.ConfigMap, error) {
			if calls.Add(1) < 3 {
				return nil, apply.ErrStale
			}
			return &corev1.ConfigMap{Data: map[string]string{"text": "in full"}}, nil
		}))
		return nil
	})
	op.Owns = []client.Object{sdk.MetadataOnly(&corev1.ConfigMap{})}
	running := start(k, op)
	s := newSite("a")
	k.Apply(s)
	k.Eventually(named(&corev1.ConfigMap{}, "a"), text("in full"))
	converged(k, running, s)
	if n := calls.Load(); n != 3 {
		t.Errorf("the content was requested %d times, want 3", n)
	}
}

// Objects that are found by their labels are watched, and no others. A change of their status triggers no reconcile.
func TestFind(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	var passes passTimes
	op := operator(func(_ context.Context, p *pass) error {
		passes.add()
		p.Object.Status.Seen = 0
		if strings.HasPrefix(p.Object.Spec.Text, "alone") {
			return nil
		}
		found, err := originals(p)
		if err != nil {
			return err
		}
		p.Object.Status.Seen = int64(len(found))
		if len(found) > 0 {
			found[0].Name = "a change of the copy, not of the cache"
		}
		peers, err := sdk.Find(p, &site.Site{}, client.InNamespace(p.Object.Namespace), client.MatchingLabels{"peer": "yes"})
		for _, peer := range peers {
			p.Object.Status.UID = peer.Spec.Text
		}
		return err
	})
	op.Owns = []client.Object{&corev1.Secret{}} // so that each watch of ConfigMaps belongs to Find
	var open atomic.Int64
	f := &faults{watched: func(req *http.Request, opened bool) {
		switch {
		case !strings.HasSuffix(req.URL.Path, "/configmaps"):
		case opened:
			open.Add(1)
		default:
			open.Add(-1)
		}
	}}
	running := start(k, op, f.config(k))
	s, peer, found := newSite("a"), newSite("peer"), originalConfigMap("x", "hello")
	peer.Labels = map[string]string{"peer": "yes"}
	peer.Spec.Text = "alone"
	k.Apply(s)
	k.Apply(found)
	k.Apply(peer)
	k.Eventually(s, testkit.Match("one", func(s *site.Site) bool { return s.Status.Seen == 1 && s.Status.UID == "alone" }))
	waitIdle(k, running, quietPeriod)

	before := len(passes.gaps())
	k.Apply(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "other", Labels: map[string]string{"original": "no"}}})
	k.UpdateStatus(peer, func() { peer.Status.Seen = 5 })
	waitIdle(k, running, observationPeriod)
	if n := len(passes.gaps()) - before; n > 2 { // of the peer itself, because its status was changed
		t.Errorf("%d reconciles for objects that are not selected", n)
	}
	k.Update(found, func() { found.Labels["original"] = "no" })
	k.Eventually(s, testkit.Match("none", func(s *site.Site) bool { return s.Status.Seen == 0 }))
	waitIdle(k, running, quietPeriod)
	k.Update(peer, func() { peer.Spec.Text = "alone again" })
	k.Eventually(s, testkit.Match("the peer's", func(s *site.Site) bool { return s.Status.UID == "alone again" }))
	k.Update(found, func() { found.Labels["original"] = "yes" })
	k.Eventually(s, testkit.Match("one", func(s *site.Site) bool { return s.Status.Seen == 1 }))
	k.Update(s, func() { s.Spec.Text = "alone" })
	k.Eventually(s, testkit.Match("none", func(s *site.Site) bool { return s.Status.Seen == 0 }))
	k.Wait("the watch ends", func(context.Context) error {
		if n := open.Load(); n != 0 {
			return fmt.Errorf("%d are open", n)
		}
		return nil
	})
}

// With OrphanChildren, children that leave the plan are orphaned.
func TestOrphanUnplannedChildren(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	op := operator(func(_ context.Context, p *pass) error {
		p.OrphanChildren()
		if p.Object.Spec.Extra {
			sdk.Apply(p, configMap(p.Object, "extra"))
		}
		return nil
	})
	op.Owns[0] = sdk.MetadataOnly(&corev1.ConfigMap{})
	running := start(k, op)
	s, extra := newSite("a"), named(&corev1.ConfigMap{}, "extra")
	s.Spec.Extra = true
	k.Apply(s)
	k.Eventually(extra, text("hello"))
	k.Update(s, func() { s.Spec.Extra = false })
	k.Eventually(extra, testkit.Match("orphaned", func(c *corev1.ConfigMap) bool { return len(c.OwnerReferences) == 0 }))
	converged(k, running, s)
	requireUnchanged(t, k, running, extra)
}

// The spec of an object can request a dry run.
func TestDryRunBySpec(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	op := operator(oneChild)
	op.DryRun = func(s *site.Site) bool { return s.Spec.Extra }
	running := start(k, op)
	s := newSite("a")
	s.Spec.Extra = true
	k.Apply(s)
	k.Eventually(s, testkit.Condition("DryRun", metav1.ConditionTrue))
	if _, _, message := dryRunCondition(s); message != "would create ConfigMap a" {
		t.Errorf("message %q", message)
	}
	k.Update(s, func() { s.Spec.Extra = false })
	converged(k, running, s)
}

func dryRunCondition(s *site.Site) (metav1.ConditionStatus, string, string) {
	return condition(s, "DryRun")
}

// Objects that an operator does not select are never written, even during their deletion.
func TestSelects(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	op := operator(oneChild)
	op.Selects = func(key types.NamespacedName) bool { return key.Name == "ours" }
	running := start(k, op)
	ours, theirs := newSite("ours"), newSite("theirs")
	theirs.Finalizers = []string{"example.com/theirs", ourFinalizer}
	k.Apply(theirs)
	k.Apply(ours)
	converged(k, running, ours)
	k.Delete(theirs)
	waitIdle(k, running, observationPeriod)
	k.Get(theirs)
	if len(theirs.Finalizers) != 2 || len(theirs.Status.Conditions) > 0 {
		t.Errorf("the object has finalizers %v and conditions %v", theirs.Finalizers, theirs.Status.Conditions)
	}
	k.Update(theirs, func() { theirs.Finalizers = nil })
}

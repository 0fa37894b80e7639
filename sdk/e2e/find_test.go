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

// originals is the metadata of the ConfigMaps to copy.
func originals(p *pass) ([]*metav1.PartialObjectMetadata, error) {
	like := &metav1.PartialObjectMetadata{}
	like.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ConfigMap"))
	return sdk.Find(p, like, client.InNamespace(p.Object.Namespace), client.MatchingLabels{"original": "yes"})
}

// digests stands for a ConfigMap without holding what it says.
func digests(full *corev1.ConfigMap) map[string]string {
	all := map[string]string{}
	for key, value := range full.Data {
		sum := sha256.Sum256([]byte(value))
		all[key] = hex.EncodeToString(sum[:])
	}
	return all
}

// copying is an operator that copies the ConfigMaps that it finds. It counts how often it reads one in full.
func copying(reads *atomic.Int64) *siteOperator {
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
			standIn := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "copy-of-" + original.Name}, Data: data}
			sdk.Apply(p, standIn, sdk.ContentFrom(func(context.Context) (*corev1.ConfigMap, error) {
				return &corev1.ConfigMap{Data: map[string]string{"text": p.Object.Spec.Text}}, nil
			}))
		}
		return nil
	})
	op.Owns = []client.Object{sdk.ExclusiveMaps(sdk.MetadataOnly(&corev1.ConfigMap{}), "data", "binaryData")}
	return op
}

func original(name, value string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"original": "yes"}},
		Data:       map[string]string{"text": value},
	}
}

// exactly waits until a ConfigMap has this data and no other.
func exactly(data map[string]string) testkit.Check {
	return testkit.Match(fmt.Sprintf("data %v", data), func(c *corev1.ConfigMap) bool { return cmp.Equal(c.Data, data) })
}

// What is large is read when it changes and when it is written, and all that people do to a copy is undone.
func TestFilled(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	var reads atomic.Int64
	running := start(k, copying(&reads))
	s, c := newSite("a"), named(&corev1.ConfigMap{}, "copy-of-x")
	k.Apply(s)
	k.Apply(original("x", "hello"))
	k.Eventually(c, exactly(map[string]string{"text": "hello"}))
	converged(k, running, s)
	if n := reads.Load(); n != 1 {
		t.Errorf("the original was read %d times", n)
	}
	for what, body := range map[string]string{
		"a value is changed": `{"data":{"text":"theirs"}}`, "an entry is added": `{"data":{"more":"theirs"}}`,
		"an entry is removed":         `{"data":{"text":null}}`,
		"all at once":                 `{"data":{"text":null,"more":"theirs"},"binaryData":{"even":"bW9yZQ=="}}`,
		"one is added in binary form": `{"binaryData":{"even":"bW9yZQ=="}}`,
	} {
		mustPatch(t, k, c, types.MergePatchType, body)
		k.Eventually(c, exactly(map[string]string{"text": "hello"}),
			testkit.Match(what+": nothing binary is left", func(c *corev1.ConfigMap) bool { return c.BinaryData == nil }))
	}
	converged(k, running, s)
	running.Stop()

	// Nobody took note of this entry, and yet it is found.
	mustPatch(t, k, c, types.MergePatchType, `{"data":{"meanwhile":"theirs"}}`)
	running = start(k, copying(&reads))
	k.Eventually(c, exactly(map[string]string{"text": "hello"}))
	if got := writes(sent(k, running)); len(got) != 2 {
		t.Errorf("to remove an entry takes %v, want a removal and an apply", got)
	}
	converged(k, running, s)
	running.Stop()

	reads.Store(0)
	running = start(k, copying(&reads))
	k.Wait("the pass after the restart", func(context.Context) error { return atLeast(&reads, 1) })
	if got := writes(sent(k, running)); len(got) > 0 || reads.Load() != 1 {
		t.Errorf("after a restart it writes %v and reads %d originals, want nothing and 1", got, reads.Load())
	}
}

// A plan shows the stand-in and calls it a digest, never what it stands for; without MetadataOnly values would be compared
// with those of the stand-in.
func TestPlanOfFilled(t *testing.T) {
	t.Parallel()
	var reads atomic.Int64
	s := newSite("a")
	s.Namespace = "shop"
	plan := sdk.Dry(t.Context(), copying(&reads), s, original("x", "hello"), newSite("other")).String()
	want := `      data.text: digest "` + digests(original("x", "hello"))["text"] + "\"\n"
	if !strings.Contains(plan, want) || strings.Contains(plan, "hello") {
		t.Errorf("the plan does not show %s and nothing else:\n%s", want, plan)
	}
	op := copying(&reads)
	op.Owns = []client.Object{&corev1.ConfigMap{}}
	if err := sdk.Dry(t.Context(), op, s, original("x", "hello")).Err; err == nil ||
		!strings.Contains(err.Error(), "add MetadataOnly in Owns") {
		t.Errorf("got %v", err)
	}
}

// What is not as it was any more when it is to be written makes the pass start anew.
func TestFilledWithSomethingElse(t *testing.T) {
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
		t.Errorf("it was filled %d times", n)
	}
}

// What is found by its labels is watched, and no other; what only changes its status is no news.
func TestFind(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	var passes clock
	op := operator(func(_ context.Context, p *pass) error {
		passes.tick()
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
			found[0].Name = "the cache is not to be changed"
		}
		peers, err := sdk.Find(p, &site.Site{}, client.InNamespace(p.Object.Namespace), client.MatchingLabels{"peer": "yes"})
		for _, peer := range peers {
			p.Object.Status.UID = peer.Spec.Text
		}
		return err
	})
	op.Owns = []client.Object{&corev1.Secret{}} // so that each watch of ConfigMaps is that of what is found
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
	s, peer, found := newSite("a"), newSite("peer"), original("x", "hello")
	peer.Labels, peer.Spec.Text = map[string]string{"peer": "yes"}, "alone"
	k.Apply(s)
	k.Apply(found)
	k.Apply(peer)
	k.Eventually(s, testkit.Match("one", func(s *site.Site) bool { return s.Status.Seen == 1 && s.Status.UID == "alone" }))
	quiet(k, running, still)

	before := len(passes.gaps())
	k.Apply(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "other", Labels: map[string]string{"original": "no"}}})
	k.UpdateStatus(peer, func() { peer.Status.Seen = 5 })
	quiet(k, running, window)
	if n := len(passes.gaps()) - before; n > 2 { // of the peer itself, whose status is not what it computes
		t.Errorf("%d passes for what nobody asked for", n)
	}
	k.Update(found, func() { found.Labels["original"] = "no" })
	k.Eventually(s, testkit.Match("none", func(s *site.Site) bool { return s.Status.Seen == 0 }))
	quiet(k, running, still)
	k.Update(peer, func() { peer.Spec.Text = "alone again" })
	k.Eventually(s, testkit.Match("the peer's", func(s *site.Site) bool { return s.Status.UID == "alone again" }))
	k.Update(found, func() { found.Labels["original"] = "yes" })
	k.Eventually(s, testkit.Match("one", func(s *site.Site) bool { return s.Status.Seen == 1 }))
	k.Update(s, func() { s.Spec.Text = "alone" })
	k.Eventually(s, testkit.Match("none", func(s *site.Site) bool { return s.Status.Seen == 0 }))
	k.Wait("the end of the watch", func(context.Context) error {
		if n := open.Load(); n != 0 {
			return fmt.Errorf("%d are open", n)
		}
		return nil
	})
}

// What leaves the plan is handed over if the pass says so.
func TestUnplannedChildrenCanBeKept(t *testing.T) {
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
	k.Eventually(extra, testkit.Match("nobody's", func(c *corev1.ConfigMap) bool { return len(c.OwnerReferences) == 0 }))
	converged(k, running, s)
	untouched(t, k, running, extra)
}

// An object can ask by its spec for being told what would be done.
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
	if _, _, message := dryRunOf(s); message != "would create ConfigMap a" {
		t.Errorf("message %q", message)
	}
	k.Update(s, func() { s.Spec.Extra = false })
	converged(k, running, s)
}

func dryRunOf(s *site.Site) (metav1.ConditionStatus, string, string) { return condition(s, "DryRun") }

// What an operator does not select it leaves alone, to the end.
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
	quiet(k, running, window)
	k.Get(theirs)
	if len(theirs.Finalizers) != 2 || len(theirs.Status.Conditions) > 0 {
		t.Errorf("it has finalizers %v and conditions %v", theirs.Finalizers, theirs.Status.Conditions)
	}
	k.Update(theirs, func() { theirs.Finalizers = nil })
}

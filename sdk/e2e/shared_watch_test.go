package e2e

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/homeostat-dev/homeostat/sdk"
	"github.com/homeostat-dev/homeostat/sdk/e2e/site"
	"github.com/homeostat-dev/homeostat/testkit"
)

// Selections of one kind in one namespace share one watch with SharedWatch. A change of an object that an operator's object
// does not select causes no reconcile of it. With KeepAnnotations the watch keeps a part of the metadata.
func TestSharedWatch(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	var passes passTimes
	var mu sync.Mutex
	var last metav1.ObjectMeta
	op := operator(func(_ context.Context, p *pass) error {
		passes.add()
		like := &metav1.PartialObjectMetadata{}
		like.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ConfigMap"))
		found, err := sdk.Find(p, like, client.InNamespace(p.Object.Namespace), client.MatchingLabels{"of": p.Object.Spec.Text},
			sdk.SharedWatch(), sdk.KeepAnnotations("kept"))
		if err != nil {
			return err
		}
		p.Object.Status.Seen = int64(len(found))
		mu.Lock()
		defer mu.Unlock()
		for _, o := range found {
			last = o.ObjectMeta
		}
		return nil
	})
	op.Owns = []client.Object{&corev1.Secret{}} // so that each watch of ConfigMaps belongs to Find
	opened := 0
	f := &faults{watched: func(req *http.Request, open bool) {
		if open && strings.HasSuffix(req.URL.Path, "/configmaps") {
			mu.Lock()
			defer mu.Unlock()
			opened++
		}
	}}
	running := start(k, op, f.config(k))
	selected := func(s *site.Site, n int64) {
		k.Eventually(s, testkit.Match("selected", func(s *site.Site) bool { return s.Status.Seen == n }))
	}
	one := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Name: "one", Labels: map[string]string{"of": "one"}, Finalizers: []string{"example.com/kept"},
		Annotations: map[string]string{"kept": "yes", "large": strings.Repeat("x", 10000)},
	}}
	k.Apply(one)
	a, b := newSite("a"), newSite("b")
	a.Spec.Text = "one"
	b.Spec.Text = "two"
	k.Apply(a)
	k.Apply(b)
	selected(a, 1)
	selected(b, 0)
	k.Update(b, func() { b.Spec.Text = "one" }) // another selector
	selected(b, 1)
	k.Update(b, func() { b.Spec.Text = "two" })
	selected(b, 0)
	waitIdle(k, running, quietPeriod)
	mu.Lock()
	if opened != 1 {
		t.Errorf("%d watches of ConfigMaps were opened, want 1", opened)
	}
	if diff := cmp.Diff(map[string]string{"kept": "yes"}, last.Annotations); diff != "" || len(last.Finalizers) > 0 {
		t.Errorf("the watch keeps finalizers %v and annotations (-want +got):\n%s", last.Finalizers, diff)
	}
	mu.Unlock()

	before := len(passes.gaps())
	k.Apply(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "other", Labels: map[string]string{"of": "others"}}})
	waitIdle(k, running, observationPeriod)
	if n := len(passes.gaps()) - before; n > 0 {
		t.Errorf("%d reconciles for an object that is not selected", n)
	}
	k.Update(one, func() { one.Labels["of"] = "two" })
	selected(a, 0)
	selected(b, 1)
	k.Update(one, func() { // more labels than the watch keeps
		for _, c := range "abcdefghijklmnopqrstuvwxyz" {
			for _, d := range "abcdefghijklmnopqrstuvwxyz" {
				one.Labels["filler-"+strings.Repeat(string(c), 20)+string(d)] = "x"
			}
		}
	})
	selected(b, 0)
	k.Update(one, func() { one.Labels = map[string]string{"of": "one"}; one.Finalizers = nil })
	selected(a, 1)
	k.Delete(a)
	k.Delete(b)
}

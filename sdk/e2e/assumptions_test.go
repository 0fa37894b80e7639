package e2e

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/homeostat-dev/homeostat/testkit"
)

// consistent is controller-runtime's client with its read-your-writes consistency, on a cache of labelled ConfigMaps, as
// an operator's cache of what it made, whose news are late.
func consistent(k *testkit.K) (client.Client, error) {
	f := &faults{}
	cfg := f.wrap(k.Config)
	c, err := cache.New(cfg, cache.Options{
		DefaultNamespaces:    map[string]cache.Config{k.Namespace: {}},
		DefaultLabelSelector: labels.SelectorFromSet(labels.Set{"cached": "yes"}),
	})
	if err != nil {
		return nil, err
	}
	if _, err := c.GetInformer(k.Context(), &corev1.ConfigMap{}, cache.BlockUntilSynced(false)); err != nil {
		return nil, err
	}
	go func() { _ = c.Start(k.Context()) }()
	if !c.WaitForCacheSync(k.Context()) {
		return nil, errors.New("the cache did not sync")
	}
	f.late.Store(int64(300 * time.Millisecond))
	return client.New(cfg, client.Options{Cache: &client.CacheOptions{
		Reader: c, Unstructured: true, EnableReadYourWritesConsistency: new(true),
	}})
}

// blocks reports whether a read waits for much longer than the cache is late.
func blocks(ctx context.Context, read func(context.Context) error) bool {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	return errors.Is(read(ctx), context.DeadlineExceeded)
}

// The traps for which the SDK has a view of its own instead (docs/adr/0041). This is about controller-runtime and not
// about us: when a new version makes one of these fail, the decision may be looked at again.
func TestTrapsOfReadYourWrites(t *testing.T) { //nolint:cyclop // a list
	t.Parallel()
	cached := func(k *testkit.K, name string) *corev1.ConfigMap {
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
			Namespace: k.Namespace, Name: name, Labels: map[string]string{"cached": "yes"},
		}}
	}
	get := func(c client.Client, o client.Object) func(context.Context) error {
		return func(ctx context.Context) error { return c.Get(ctx, client.ObjectKeyFromObject(o), o) }
	}
	for name, trap := range map[string]func(*testkit.K, client.Client) error{
		"it works where it is meant to": func(k *testkit.K, c client.Client) error {
			o := cached(k, "a")
			if err := c.Create(k.Context(), o); err != nil {
				return err
			}
			return get(c, o)(k.Context())
		},
		"a dry run that succeeds is an error": func(k *testkit.K, c client.Client) error {
			err := c.Create(k.Context(), cached(k, "a"), client.DryRunAll)
			if err == nil || !strings.Contains(err.Error(), "resource version") {
				return errors.Join(errors.New("it is none"), err)
			}
			return nil
		},
		"a dry run of a deletion blocks all reads of the object": func(k *testkit.K, c client.Client) error {
			o := cached(k, "a")
			if err := errors.Join(c.Create(k.Context(), o), get(c, o)(k.Context())); err != nil {
				return err
			}
			if err := c.Delete(k.Context(), o, client.DryRunAll); err != nil {
				return err
			}
			if !blocks(k.Context(), get(c, o)) {
				return errors.New("it does not")
			}
			return nil
		},
		"a write outside of the cache's selector blocks all lists of the kind": func(k *testkit.K, c client.Client) error {
			o := cached(k, "a")
			o.Labels = nil
			if err := c.Create(k.Context(), o); err != nil {
				return err
			}
			list := func(ctx context.Context) error { return c.List(ctx, &corev1.ConfigMapList{}) }
			if !blocks(k.Context(), list) {
				return errors.New("it does not")
			}
			return nil
		},
		"an unstructured write is not seen by an unstructured read": func(k *testkit.K, c client.Client) error {
			o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap"}}
			o.SetNamespace(k.Namespace)
			o.SetName("warm") // so that there is an informer of this representation, too
			if err := get(c, o)(k.Context()); !apierrors.IsNotFound(err) {
				return err
			}
			o.SetName("a")
			o.SetLabels(map[string]string{"cached": "yes"})
			if err := c.Create(k.Context(), o); err != nil {
				return err
			}
			if err := get(c, o)(k.Context()); !apierrors.IsNotFound(err) {
				return errors.Join(errors.New("it is"), err)
			}
			return nil
		},
		"DeleteAllOf is refused": func(k *testkit.K, c client.Client) error {
			if err := c.DeleteAllOf(k.Context(), &corev1.ConfigMap{}, client.InNamespace(k.Namespace)); err == nil {
				return errors.New("it is not")
			}
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := testkit.New(t)
			c, err := consistent(k)
			if err != nil {
				t.Fatal(err)
			}
			if err := trap(k, c); err != nil {
				t.Error(err)
			}
		})
	}
}

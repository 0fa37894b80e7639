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

// consistentClient returns controller-runtime's client with read-your-writes consistency. Its cache holds labelled
// ConfigMaps, as an operator's cache of its children does, and receives events with the lag of f.
func consistentClient(k *testkit.K, f *faults) (client.Client, error) {
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
	f.lag.Store(int64(300 * time.Millisecond))
	return client.New(cfg, client.Options{Cache: &client.CacheOptions{
		Reader: c, Unstructured: true, EnableReadYourWritesConsistency: new(true),
	}})
}

// blocks reports whether a read takes much longer than the lag of the cache.
func blocks(ctx context.Context, read func(context.Context) error) bool {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	return errors.Is(read(ctx), context.DeadlineExceeded)
}

// TestLimitsOfReadYourWrites shows the limits of controller-runtime because of which the SDK has an overlay of its own
// (docs/adr/0041). If a new version of controller-runtime makes a case fail, reconsider that decision.
func TestLimitsOfReadYourWrites(t *testing.T) { //nolint:cyclop // a list of independent cases
	t.Parallel()
	cached := func(k *testkit.K, name string) *corev1.ConfigMap {
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
			Namespace: k.Namespace, Name: name, Labels: map[string]string{"cached": "yes"},
		}}
	}
	get := func(c client.Client, o client.Object) func(context.Context) error {
		return func(ctx context.Context) error { return c.Get(ctx, client.ObjectKeyFromObject(o), o) }
	}
	for name, trap := range map[string]func(*testkit.K, client.Client, *faults) error{
		"it works for typed objects in the cache": func(k *testkit.K, c client.Client, _ *faults) error {
			o := cached(k, "a")
			if err := c.Create(k.Context(), o); err != nil {
				return err
			}
			return get(c, o)(k.Context())
		},
		"a dry run that succeeds is an error": func(k *testkit.K, c client.Client, _ *faults) error {
			err := c.Create(k.Context(), cached(k, "a"), client.DryRunAll)
			if err == nil || !strings.Contains(err.Error(), "resource version") {
				return errors.Join(errors.New("it is no error"), err)
			}
			return nil
		},
		"a dry run of a deletion blocks all reads of the object": func(k *testkit.K, c client.Client, _ *faults) error {
			o := cached(k, "a")
			if err := errors.Join(c.Create(k.Context(), o), get(c, o)(k.Context())); err != nil {
				return err
			}
			if err := c.Delete(k.Context(), o, client.DryRunAll); err != nil {
				return err
			}
			if !blocks(k.Context(), get(c, o)) {
				return errors.New("it does not block")
			}
			return nil
		},
		"a write outside of the selector blocks all lists of the kind": func(k *testkit.K, c client.Client, _ *faults) error {
			o := cached(k, "a")
			o.Labels = nil
			if err := c.Create(k.Context(), o); err != nil {
				return err
			}
			list := func(ctx context.Context) error { return c.List(ctx, &corev1.ConfigMapList{}) }
			if !blocks(k.Context(), list) {
				return errors.New("it does not block")
			}
			return nil
		},
		"an unstructured write is not seen by an unstructured read": func(k *testkit.K, c client.Client, f *faults) error {
			o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap"}}
			o.SetNamespace(k.Namespace)
			o.SetName("warm") // starts an informer of this representation, too
			if err := get(c, o)(k.Context()); !apierrors.IsNotFound(err) {
				return err
			}
			f.lag.Store(int64(time.Hour))
			o.SetName("a")
			o.SetLabels(map[string]string{"cached": "yes"})
			if err := c.Create(k.Context(), o); err != nil {
				return err
			}
			if err := get(c, o)(k.Context()); !apierrors.IsNotFound(err) {
				return errors.Join(errors.New("it is seen"), err)
			}
			return nil
		},
		"DeleteAllOf is rejected": func(k *testkit.K, c client.Client, _ *faults) error {
			if err := c.DeleteAllOf(k.Context(), &corev1.ConfigMap{}, client.InNamespace(k.Namespace)); err == nil {
				return errors.New("it is not rejected")
			}
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := testkit.New(t)
			f := &faults{}
			c, err := consistentClient(k, f)
			if err != nil {
				t.Fatal(err)
			}
			if err := trap(k, c, f); err != nil {
				t.Error(err)
			}
		})
	}
}

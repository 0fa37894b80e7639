//go:build linux

package realnode_test

import (
	"context"
	"errors"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/homeostat-dev/homeostat/testkit"
)

// The metrics API has what the containers of a pod use, and what each node uses.
func TestMetrics(t *testing.T) {
	t.Parallel()
	k := start(t)
	p := pod("measured")
	k.Apply(p)
	k.Eventually(p, testkit.Ready())
	const allocated = 64 << 20
	if _, err := k.Fetch(p, 8080, "/allocate?bytes=67108864"); err != nil {
		t.Fatal(err)
	}
	k.Wait("the metrics of the pod", func(ctx context.Context) error {
		m := metricsOf("PodMetrics", k.Namespace, p.Name)
		if err := k.Client.Get(ctx, client.ObjectKeyFromObject(m), m); err != nil {
			return err
		}
		containers, _, _ := unstructured.NestedSlice(m.Object, "containers")
		if len(containers) != 1 {
			return errors.New("it does not have those of one container")
		}
		return usesMemory(containers[0].(map[string]any), allocated)
	})
	k.Wait("the metrics of a node", func(ctx context.Context) error {
		m := metricsOf("NodeMetrics", "", p.Spec.NodeName)
		if err := k.Client.Get(ctx, client.ObjectKeyFromObject(m), m); err != nil {
			return err
		}
		return usesMemory(m.Object, allocated)
	})
}

func metricsOf(kind, namespace, name string) *unstructured.Unstructured {
	m := &unstructured.Unstructured{}
	m.SetGroupVersionKind(schema.GroupVersionKind{Group: "metrics.k8s.io", Version: "v1beta1", Kind: kind})
	m.SetNamespace(namespace)
	m.SetName(name)
	return m
}

// usesMemory returns an error if the memory of a measurement is less than a number of bytes.
func usesMemory(m map[string]any, bytes int64) error {
	text, _, err := unstructured.NestedString(m, "usage", "memory")
	if err != nil {
		return err
	}
	used, err := resource.ParseQuantity(text)
	if err != nil {
		return err
	}
	if used.Value() < bytes {
		return errors.New("it uses " + text)
	}
	return nil
}

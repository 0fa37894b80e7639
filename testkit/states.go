package testkit

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/homeostat-dev/homeostat/testkit/internal/history"
)

// States returns each stored state of the object named by obj since the begin of the test, the oldest first, also the states
// between two calls of Eventually. A deletion is nil. The states come from a watch. States waits until that shows the
// current object, and after 5 s the test fails. If the API server serves the kind in several versions, the states have the
// one that it prefers of those in Env's scheme, or of all if the scheme has none of them. The states of a cluster-scoped
// object are recorded if Env has the CustomResourceDefinition of a cluster-scoped kind, or if the control plane is private;
// otherwise the test fails. Those of an object that existed before the test begin with the first change in the test. There
// are no states in benchmarks.
func (k *K) States(obj client.Object) []*unstructured.Unstructured {
	k.t.Helper()
	namespaced, err := k.locate(obj)
	if err != nil {
		k.t.Fatalf("%v", err)
	}
	gvk, err := apiutil.GVKForObject(obj, k.conn.scheme)
	if err != nil {
		k.t.Fatalf("finding the kind of %T: %v", obj, err)
	}
	if k.obs == nil {
		return nil
	}
	if !namespaced && !k.conn.clusterScoped {
		k.t.Fatalf("the states of cluster-scoped objects, such as %s %s, are not recorded: Env has no CustomResourceDefinition "+
			"of a cluster-scoped kind, and the control plane is not private: set Env.Private, or call New with Private()",
			gvk.Kind, obj.GetName())
	}
	var states []*unstructured.Unstructured
	isCurrent := func(ctx context.Context) (bool, error) {
		current := &unstructured.Unstructured{}
		current.SetGroupVersionKind(gvk)
		err := k.conn.client.Get(ctx, client.ObjectKeyFromObject(obj), current)
		if client.IgnoreNotFound(err) != nil {
			return false, err
		}
		exists := err == nil
		states = k.recordedStates(gvk.GroupKind(), client.ObjectKeyFromObject(obj))
		if len(states) == 0 {
			return !exists || k.isUnchanged(current), nil
		}
		last := states[len(states)-1]
		if last == nil || !exists {
			return last == nil && !exists, nil
		}
		return !history.Older(last.GetResourceVersion(), current.GetResourceVersion()), nil
	}
	err = wait.PollUntilContextTimeout(k.Context(), time.Millisecond, catchUpTimeout, true, isCurrent)
	if err != nil {
		k.t.Fatalf("reading the states of %s %s, of which the watch has sent %d: %v", gvk.Kind, obj.GetName(), len(states), err)
	}
	return states
}

// isUnchanged reports whether an object has not been written since the namespace of the test was created.
func (k *K) isUnchanged(obj client.Object) bool {
	return history.Older(obj.GetResourceVersion(), k.namespace.ResourceVersion)
}

// recordedStates returns the states of an object in the history.
func (k *K) recordedStates(kind schema.GroupKind, key client.ObjectKey) []*unstructured.Unstructured {
	var states []*unstructured.Unstructured
	for _, c := range k.obs.changesOf(kind, key) {
		if c.Type == watch.Deleted {
			states = append(states, nil)
			continue
		}
		states = append(states, c.Object.DeepCopy())
	}
	return states
}

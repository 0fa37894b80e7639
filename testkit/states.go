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
// one that it prefers of those in Env's scheme, or of all if the scheme has none of them. There are no states of
// cluster-scoped objects, and none in benchmarks.
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
	if k.obs == nil || !namespaced {
		return nil
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
			return !exists, nil
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

// recordedStates returns the states of an object in the history.
func (k *K) recordedStates(kind schema.GroupKind, key client.ObjectKey) []*unstructured.Unstructured {
	var states []*unstructured.Unstructured
	for _, c := range k.obs.history() {
		u := c.Object
		if u.GroupVersionKind().GroupKind() != kind || client.ObjectKeyFromObject(u) != key {
			continue
		}
		if c.Type == watch.Deleted {
			states = append(states, nil)
			continue
		}
		states = append(states, u.DeepCopy())
	}
	return states
}

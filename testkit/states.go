package testkit

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

// States returns each stored state of the object named by obj since the begin of the test, the oldest first, also the states
// between two calls of Eventually. A deletion is nil. The states come from a watch, so that the last ones may be missing for
// some milliseconds: wait for the last state with Eventually first. Benchmarks record no states.
func (k *K) States(obj client.Object) []*unstructured.Unstructured {
	k.t.Helper()
	if _, err := k.locate(obj); err != nil {
		k.t.Fatalf("%v", err)
	}
	gvk, err := apiutil.GVKForObject(obj, k.conn.scheme)
	if err != nil {
		k.t.Fatalf("finding the kind of %T: %v", obj, err)
	}
	if k.obs == nil {
		return nil
	}
	var states []*unstructured.Unstructured
	for _, c := range k.obs.history() {
		u := c.Object
		isNamed := client.ObjectKeyFromObject(u) == client.ObjectKeyFromObject(obj)
		if u.GroupVersionKind().GroupKind() != gvk.GroupKind() || !isNamed {
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

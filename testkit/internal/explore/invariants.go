package explore

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/homeostat-dev/homeostat/testkit/internal/history"
)

func (ch checks) checkInvariants() {
	if len(ch.x.Invariants) == 0 {
		return
	}
	needsTypes := slices.ContainsFunc(ch.x.Invariants, func(n Invariant) bool { return n.HoldsIn == nil })
	var now []*unstructured.Unstructured
	var typed []client.Object // now with Go types, if an invariant needs them
	for _, c := range history.InOrder(ch.changes) {
		now, typed = withoutState(now, c), withoutState(typed, c)
		if c.Type != watch.Deleted {
			now = append(now, c.Object)
			if needsTypes {
				o, err := withType(ch.space.Client.Scheme(), c.Object)
				if err != nil {
					ch.abort(fmt.Errorf("checking the invariants: %w", err))
					return
				}
				typed = append(typed, o)
			}
		}
		for _, n := range ch.x.Invariants {
			if violation := n.check(ch.space.Namespace, now, typed); violation != "" {
				ch.addViolation(oracleInvariant, n.Name+": "+violation, "")
			}
		}
	}
}

// check returns a description of the violation, or "".
func (n Invariant) check(namespace string, objects []*unstructured.Unstructured, typed []client.Object) string {
	if n.HoldsIn != nil {
		return n.HoldsIn(namespace, objects)
	}
	return n.Holds(typed)
}

// withoutState removes the former state of an object.
func withoutState[T client.Object](objects []T, c history.Change) []T {
	return slices.DeleteFunc(objects, func(o T) bool { return o.GetUID() == c.Object.GetUID() })
}

// withType converts an object to its Go type in a scheme. It returns the object itself if the scheme does not have the kind,
// and an error if it has the kind in other versions only: no type assertion would succeed.
func withType(scheme *runtime.Scheme, u *unstructured.Unstructured) (client.Object, error) {
	gvk := u.GroupVersionKind()
	if !scheme.Recognizes(gvk) {
		if others := scheme.VersionsForGroupKind(gvk.GroupKind()); len(others) > 0 {
			return nil, fmt.Errorf("the API server sends %s objects as %s, but the scheme of testkit.Env has their Go type "+
				"for %s only", gvk.Kind, gvk.GroupVersion(), others)
		}
		return u, nil
	}
	made, err := scheme.New(gvk)
	if err != nil {
		return nil, err
	}
	o, ok := made.(client.Object)
	if !ok {
		return u, nil
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, o); err != nil {
		return nil, fmt.Errorf("converting %s %s to %T: %w", gvk.Kind, u.GetName(), o, err)
	}
	return o, nil
}

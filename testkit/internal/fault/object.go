package fault

import (
	"fmt"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/homeostat-dev/homeostat/testkit/internal/history"
	"github.com/homeostat-dev/homeostat/testkit/internal/intercept"
	"github.com/homeostat-dev/homeostat/testkit/internal/state"
)

// find returns an existing object.
func find(r Run, match func(history.Change) bool) (history.Change, bool) {
	for _, c := range r.CurrentObjects() {
		if match(c) {
			return c, true
		}
	}
	return history.Change{}, false
}

// nameOf returns the name of an object in messages.
func nameOf(c history.Change) string {
	return fmt.Sprintf("%s %s", c.Object.GetKind(), c.Object.GetName())
}

func annotate(r Run, u *unstructured.Unstructured, key, value string) error {
	return patch(r, u, types.MergePatchType, fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, key, value))
}

// patch changes an object in the role of another manager.
func patch(r Run, u *unstructured.Unstructured, kind types.PatchType, text string, opts ...client.PatchOption) error {
	opts = append(opts, client.FieldOwner("another-manager"))
	s := r.Space()
	return s.Client.Patch(s.Context(), u.DeepCopy(), client.RawPatch(kind, []byte(text)), opts...)
}

// triggerReconcile changes an annotation of the custom resources, so that the operator reconciles them.
func triggerReconcile(r Run) {
	for i, c := range r.Primaries() {
		_ = annotate(r, c.Object, state.Mark+"poke", strconv.Itoa(i)+time.Now().String()) // the object may have been deleted
	}
	r.Operator().ResetIdleTime()
}

func groupResourceOf(c history.Change) intercept.GroupResource {
	return intercept.GroupResource{Group: c.Resource.Group, Resource: c.Resource.Resource}
}

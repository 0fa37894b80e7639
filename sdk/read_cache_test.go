package sdk

import (
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlevent "sigs.k8s.io/controller-runtime/pkg/event"
)

// viewOf is a view whose informer holds these objects and never gets an event.
func viewOf(t *testing.T, held ...*corev1.ConfigMap) *view {
	t.Helper()
	gvk := corev1.SchemeGroupVersion.WithKind("ConfigMap")
	informer := toolscache.NewSharedIndexInformer(nil, &corev1.ConfigMap{}, 0, toolscache.Indexers{})
	for _, o := range held {
		if err := informer.GetIndexer().Add(o); err != nil {
			t.Fatal(err)
		}
	}
	s := &scope{informers: map[schema.GroupVersionKind]toolscache.SharedIndexInformer{gvk: informer}}
	return &view{
		kinds: &kinds{scheme: scheme.Scheme, primary: gvk}, scopes: map[string]*scope{"": s}, writes: map[types.UID]write{},
		byOwner: map[types.UID]map[types.UID]struct{}{}, deleted: map[types.UID]time.Time{}, swept: time.Now(),
		abandoned: map[types.UID]time.Time{},
	}
}

func atVersion(resourceVersion string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Namespace: "shop", Name: "a", UID: "u1", ResourceVersion: resourceVersion,
	}}
}

// What load returns is the newest that is known, and an object of which nothing is left is not worked on again although
// the informer still shows it.
func TestLoad(t *testing.T) {
	t.Parallel()
	key := client.ObjectKeyFromObject(atVersion(""))
	load := func(v *view) (string, bool) {
		o, gone, err := v.load(t.Context(), key)
		if err != nil || o == nil {
			t.Fatalf("%v, %v", o, err)
		}
		return o.GetResourceVersion(), gone
	}
	v := viewOf(t, atVersion("5"))
	if got, gone := load(v); got != "5" || gone {
		t.Errorf("from the informer: %s, %v", got, gone)
	}
	v.wrote(v.primary, "", atVersion("6"))
	if got, gone := load(v); got != "6" || gone {
		t.Errorf("after our write: %s, %v", got, gone)
	}
	v.deletes("u1")
	if _, gone := load(v); !gone {
		t.Error("after our deletion it is not gone")
	}
	v.news().Delete(ctrlevent.DeleteEvent{Object: atVersion("7")})
	if len(v.writes)+len(v.deleted) > 0 {
		t.Errorf("after its end there are left %v %v", v.writes, v.deleted)
	}
}

// An answer that comes after the event of the object's end would be kept for ever.
func TestWhatNobodyConfirmsIsDropped(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		v := viewOf(t)
		v.wrote(v.primary, "owner", atVersion("5"))
		v.deletes("u2")
		time.Sleep(overlayLimit / 2) //nolint:forbidigo // in the bubble's own time
		v.deletes("u3")
		if len(v.writes) != 1 || len(v.deleted) != 2 {
			t.Fatalf("too early: %v %v", v.writes, v.deleted)
		}
		time.Sleep(overlayLimit/2 + time.Second) //nolint:forbidigo // as above
		v.deletes("u4")
		if _, young := v.deleted["u3"]; len(v.writes)+len(v.byOwner) > 0 || len(v.deleted) != 2 || !young {
			t.Errorf("there are left %v %v %v", v.writes, v.byOwner, v.deleted)
		}
	})
}

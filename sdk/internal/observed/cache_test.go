package observed

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

// cacheOf returns a cache with an informer that holds these objects and never receives an event.
func cacheOf(t *testing.T, held ...*corev1.ConfigMap) *Cache {
	t.Helper()
	gvk := corev1.SchemeGroupVersion.WithKind("ConfigMap")
	informer := toolscache.NewSharedIndexInformer(nil, &corev1.ConfigMap{}, 0, toolscache.Indexers{})
	for _, o := range held {
		if err := informer.GetIndexer().Add(o); err != nil {
			t.Fatal(err)
		}
	}
	s := &scope{informers: map[schema.GroupVersionKind]toolscache.SharedIndexInformer{gvk: informer}}
	return &Cache{
		Kinds: &Kinds{Scheme: scheme.Scheme, Primary: gvk}, scopes: map[string]*scope{"": s},
		overlay: map[types.UID]overlayEntry{},
		byOwner: map[types.UID]map[types.UID]struct{}{}, deleted: map[types.UID]time.Time{}, lastExpiry: time.Now(),
		forceDeleted: map[types.UID]time.Time{},
	}
}

func atVersion(resourceVersion string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Namespace: "shop", Name: "a", UID: "u1", ResourceVersion: resourceVersion,
	}}
}

// TestLoad checks that load returns the newest known version, and reports an object without finalizers as gone although the
// informer still shows it.
func TestLoad(t *testing.T) {
	t.Parallel()
	key := client.ObjectKeyFromObject(atVersion(""))
	load := func(v *Cache) (string, bool) {
		o, gone, err := v.Load(t.Context(), key)
		if err != nil || o == nil {
			t.Fatalf("%v, %v", o, err)
		}
		return o.GetResourceVersion(), gone
	}
	v := cacheOf(t, atVersion("5"))
	if got, gone := load(v); got != "5" || gone {
		t.Errorf("from the informer: %s, %v", got, gone)
	}
	v.RecordWrite(v.Primary, "", atVersion("6"))
	if got, gone := load(v); got != "6" || gone {
		t.Errorf("after our write: %s, %v", got, gone)
	}
	v.RecordDeletion("u1")
	if _, gone := load(v); !gone {
		t.Error("after our deletion it is not gone")
	}
	v.changePredicate().Delete(ctrlevent.DeleteEvent{Object: atVersion("7")})
	if len(v.overlay)+len(v.deleted) > 0 {
		t.Errorf("after the DELETE event there are left %v %v", v.overlay, v.deleted)
	}
}

// TestUnconfirmedEntriesExpire covers a response that arrives after the DELETE event of its object.
func TestUnconfirmedEntriesExpire(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		v := cacheOf(t)
		v.RecordWrite(v.Primary, "owner", atVersion("5"))
		v.RecordDeletion("u2")
		time.Sleep(overlayMaxAge / 2) //nolint:forbidigo // fake time of synctest
		v.RecordDeletion("u3")
		if len(v.overlay) != 1 || len(v.deleted) != 2 {
			t.Fatalf("too early: %v %v", v.overlay, v.deleted)
		}
		time.Sleep(overlayMaxAge/2 + time.Second) //nolint:forbidigo // fake time of synctest
		v.RecordDeletion("u4")
		if _, young := v.deleted["u3"]; len(v.overlay)+len(v.byOwner) > 0 || len(v.deleted) != 2 || !young {
			t.Errorf("there are left %v %v %v", v.overlay, v.byOwner, v.deleted)
		}
	})
}

// TestForceDeletionIsRememberedAfterTheEvent covers a reconcile that still has the object in its snapshot when the event of
// the deletion arrives.
func TestForceDeletionIsRememberedAfterTheEvent(t *testing.T) {
	t.Parallel()
	v := cacheOf(t)
	v.RecordForceDeletion("u1")
	v.changePredicate().Delete(ctrlevent.DeleteEvent{Object: atVersion("5")})
	if !v.IsForceDeleted("u1") {
		t.Error("the object would be deleted a second time")
	}
}

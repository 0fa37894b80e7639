package observed

import (
	"context"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/homeostat-dev/homeostat/sdk/apply"
)

// Parent is the object of the operator's kind that owns a child.
type Parent struct {
	Key            types.NamespacedName
	UID            types.UID // "" if it belongs to none
	CrossNamespace bool
	Retained       bool // see Retain
}

// ParentOf returns the parent of an object. The owner label alone is no proof, because it is copied with an object: the
// operator must have applied the object, too.
func (k *Kinds) ParentOf(o metav1.Object) Parent {
	controller := metav1.GetControllerOf(o)
	if k.isPrimary(controller) {
		p := Parent{Key: types.NamespacedName{Name: controller.Name}, UID: controller.UID}
		if k.Namespaced(k.Primary) {
			p.Key.Namespace = o.GetNamespace()
		}
		return p
	}
	namespace, name, ok := strings.Cut(o.GetAnnotations()[apply.OwnerAnnotation], "/")
	if controller != nil || !ok || apply.OwnedFields(o, k.Operator).String() == "" {
		return Parent{}
	}
	uid := types.UID(o.GetLabels()[apply.OwnerUIDLabel])
	retained := namespace == "" || namespace == o.GetNamespace() // an owner reference would be possible
	key := types.NamespacedName{Namespace: namespace, Name: name}
	return Parent{Key: key, UID: uid, CrossNamespace: !retained, Retained: retained}
}

// parentRequests returns the request for the parent of a child. It returns none for a parent in an unwatched namespace:
// another instance of the operator reconciles it, and the child is cached only because it is cluster-scoped or in a shared
// namespace.
func (v *Cache) parentRequests(_ context.Context, o client.Object) []reconcile.Request {
	if p := v.ParentOf(o); p.UID != "" && v.Watches(p.Key.Namespace) {
		return []reconcile.Request{{NamespacedName: p.Key}}
	}
	return nil
}

// instanceOf returns the key of the object that an observed object belongs to.
func (k *Kinds) instanceOf(o client.Object) (types.NamespacedName, bool) {
	key := types.NamespacedName{Name: o.GetLabels()[InstanceLabel]}
	if k.Namespaced(k.Primary) {
		key.Namespace = o.GetNamespace()
	}
	return key, key.Name != ""
}

func (v *Cache) instanceRequests(_ context.Context, o client.Object) []reconcile.Request {
	if key, ok := v.instanceOf(o); ok && v.Watches(key.Namespace) {
		return []reconcile.Request{{NamespacedName: key}}
	}
	return nil
}

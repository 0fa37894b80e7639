package sdk

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/homeostat-dev/homeostat/sdk/apply"
)

// This file is about remote children: those that an owner reference cannot bind to their parent, because they are in
// another namespace, or in none while the parent is in one. Marks say whose they are, and a finalizer of the parent sees to
// their end.

// parent is the object of the operator's kind that an object belongs to.
type parent struct {
	key    types.NamespacedName
	uid    types.UID // "" if it belongs to none
	remote bool
	kept   bool // see Retain
}

// parentOf returns whose an object is. Marks alone prove nothing, since whoever copies an object may copy them: it also has
// to be us who applied it.
func (k *kinds) parentOf(o metav1.Object) parent {
	controller := metav1.GetControllerOf(o)
	if k.isPrimary(controller) {
		p := parent{key: types.NamespacedName{Name: controller.Name}, uid: controller.UID}
		if k.namespaced(k.primary) {
			p.key.Namespace = o.GetNamespace()
		}
		return p
	}
	namespace, name, ok := strings.Cut(o.GetAnnotations()[apply.OwnerAnnotation], "/")
	if controller != nil || !ok || apply.OwnedFields(o, k.operator).String() == "" {
		return parent{}
	}
	uid := types.UID(o.GetLabels()[apply.OwnerUIDLabel])
	kept := namespace == "" || namespace == o.GetNamespace() // an owner reference could bind it
	return parent{key: types.NamespacedName{Namespace: namespace, Name: name}, uid: uid, remote: !kept, kept: kept}
}

// requests names the parent of a child, unless it is in a namespace that is not watched: then another instance of the
// operator takes care of it, and the child is only in sight because it is in no namespace or in a shared one.
func (v *view) requests(_ context.Context, o client.Object) []reconcile.Request {
	if p := v.parentOf(o); p.uid != "" && v.watches(p.key.Namespace) {
		return []reconcile.Request{{NamespacedName: p.key}}
	}
	return nil
}

// instanceOf names the object that one of an observed kind is part of.
func (k *kinds) instanceOf(o client.Object) (types.NamespacedName, bool) {
	key := types.NamespacedName{Name: o.GetLabels()[InstanceLabel]}
	if k.namespaced(k.primary) {
		key.Namespace = o.GetNamespace()
	}
	return key, key.Name != ""
}

func (v *view) instances(_ context.Context, o client.Object) []reconcile.Request {
	if key, ok := v.instanceOf(o); ok && v.watches(key.Namespace) {
		return []reconcile.Request{{NamespacedName: key}}
	}
	return nil
}

// remote reports whether there is a remote child, or will be.
func (r *record) remote() bool {
	for _, s := range r.plan {
		if s.remote {
			return true
		}
	}
	for _, child := range r.seen.children {
		if child.remote {
			return true
		}
	}
	return false
}

// collect deletes the remote children of an object that is going, and waits for their end. Those that its clean-up applies
// come last and are not waited for, because the next pass would apply them anew.
func (e *engine[T]) collect(ctx context.Context, p *Pass[T]) (wrote bool, err error) {
	var left []string
	for _, id := range p.seen.unplanned(p.plan) {
		child := p.seen.children[id]
		if !child.remote || slices.Contains(p.keeps, id.gvk) {
			continue
		}
		left = append(left, fmt.Sprintf("%s %s", id.gvk.Kind, strings.TrimPrefix(id.key.String(), "/")))
		if !child.terminating && !p.turn.over() {
			if _, err := e.delete(ctx, child.object, metav1.DeletePropagationBackground); err != nil {
				return wrote, err
			}
			wrote = p.turn.wrote(true)
		}
	}
	if len(left) > 0 {
		return wrote, Wait("CleaningUp", "still being deleted: %s", list(left))
	}
	for _, s := range p.plan {
		if s.remote && s.stored != nil && !slices.Contains(p.keeps, s.gvk) {
			if _, err := e.delete(ctx, s.stored, metav1.DeletePropagationBackground); err != nil {
				return false, err
			}
		}
	}
	return false, nil
}

// collectFormer does for the remote children of an object that is gone what garbage collection does for the others, and lets
// go of tracked ones, which nobody will ever count. As garbage collection does, it asks the API server first whether that
// object is gone: its informer may be behind that of the children, on a standby that has just become the leader for one.
func (e *engine[T]) collectFormer(ctx context.Context, key types.NamespacedName, former map[childID]observed) error {
	finalizer := e.op.finalizerName()
	maps.DeleteFunc(former, func(_ childID, child observed) bool {
		tracked := child.terminating && controllerutil.ContainsFinalizer(child.object, finalizer)
		return !tracked && (!child.remote || child.terminating)
	})
	if len(former) == 0 {
		return nil
	}
	living, err := e.living(ctx, key)
	if err != nil {
		return err
	}
	maps.DeleteFunc(former, func(_ childID, child observed) bool { return e.view.parentOf(child.object).uid == living })
	for id, child := range former {
		if child.terminating {
			continue
		}
		// It may have been handed over meanwhile, so what is deleted is what was looked at.
		uid, version := child.object.GetUID(), child.object.GetResourceVersion()
		err := e.client.Delete(ctx, child.object, client.PropagationPolicy(metav1.DeletePropagationBackground),
			client.Preconditions{UID: &uid, ResourceVersion: &version})
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("collecting %s: %w", id, err)
		}
	}
	return e.releaseFormer(ctx, former)
}

// living asks the API server for the UID of the object of the operator's kind and of that name, "" if there is none.
func (e *engine[T]) living(ctx context.Context, key types.NamespacedName) (types.UID, error) {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(e.view.primary.GroupVersion().WithKind(e.view.primary.Kind + "List"))
	name := client.MatchingFields{metav1.ObjectNameField: key.Name} // to list is what the operator may do anyway
	if err := e.client.List(ctx, list, client.InNamespace(key.Namespace), name); err != nil {
		return "", fmt.Errorf("asking for %s %s: %w", e.view.primary.Kind, key, err)
	}
	if len(list.Items) == 0 {
		return "", nil
	}
	return list.Items[0].UID, nil
}

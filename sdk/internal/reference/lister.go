package reference

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// lister lists and watches one target.
type lister struct {
	client  client.WithWatch
	newList func() client.ObjectList
	opts    []client.ListOption
}

func (r *Watches) listerWatcher(t Target, like client.Object) (*lister, error) {
	newList, err := NewList(r.scheme, t.GVK, like)
	if err != nil {
		return nil, err
	}
	opts, err := t.Options()
	return &lister{client: r.client, newList: newList, opts: opts}, err
}

// NewList returns a constructor of empty lists of that kind, for objects of like's type.
func NewList(scheme *runtime.Scheme, gvk schema.GroupVersionKind, like client.Object) (func() client.ObjectList, error) {
	kind := gvk.GroupVersion().WithKind(gvk.Kind + "List")
	switch like.(type) {
	case *metav1.PartialObjectMetadata:
		return func() client.ObjectList { return ofKind(kind, &metav1.PartialObjectMetadataList{}) }, nil
	case *unstructured.Unstructured:
		return func() client.ObjectList { return ofKind(kind, &unstructured.UnstructuredList{}) }, nil
	}
	if o, err := scheme.New(kind); err != nil {
		return nil, fmt.Errorf("finding the list of kind %s: %w", gvk.Kind, err)
	} else if _, ok := o.(client.ObjectList); !ok {
		return nil, fmt.Errorf("%s is not a list", kind)
	}
	return func() client.ObjectList {
		o, _ := scheme.New(kind)
		list, _ := o.(client.ObjectList)
		return list
	}, nil
}

func ofKind(kind schema.GroupVersionKind, list client.ObjectList) client.ObjectList {
	list.GetObjectKind().SetGroupVersionKind(kind)
	return list
}

func (l *lister) list(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
	list := l.newList()
	return list, l.client.List(ctx, list, append(l.opts, &client.ListOptions{Raw: &o})...)
}

func (l *lister) watch(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	return l.client.Watch(ctx, l.newList(), append(l.opts, &client.ListOptions{Raw: &o})...)
}

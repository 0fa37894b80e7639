package apply

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

// ControlledBy makes the owner the controller of the object: garbage collection removes the object with its owner, and the
// object is written only if this owner controls it already or it does not exist. The owner must live in the object's
// namespace or have none, and its kind must be in the scheme unless it is unstructured.
func ControlledBy(owner client.Object) Option {
	return func(o *options) { o.owner = owner }
}

// What marks an object whose owner garbage collection cannot follow.
const (
	// OwnerUIDLabel holds the owner's UID.
	OwnerUIDLabel = "homeostat.dev/owner-uid"
	// OwnerAnnotation holds the owner's namespace and name, with a slash between them.
	OwnerAnnotation = "homeostat.dev/owner"
)

// LabeledBy is [ControlledBy] for an owner in another namespace: a label and an annotation say whose the object is. Garbage
// collection does nothing about it, so the owner needs a finalizer.
func LabeledBy(owner client.Object) Option {
	return func(o *options) {
		o.marks = &mark{uid: owner.GetUID(), name: client.ObjectKeyFromObject(owner).String()}
	}
}

// mark is the owner that a label and an annotation name.
type mark struct {
	uid  types.UID
	name string
}

// WithLabel adds a label to the object.
func WithLabel(key, value string) Option {
	return func(o *options) {
		if o.labels == nil {
			o.labels = map[string]string{}
		}
		o.labels[key] = value
	}
}

// WithFinalizer adds a finalizer when the object is created and keeps it for as long as the option is given: an object
// without it is not converged. It is not part of the digest, so that to give the option no longer is no reason to apply
// the rest anew: the finalizer goes with the next update, or at once with package finalizer.
func WithFinalizer(name string) Option {
	return func(o *options) { o.finalizers = append(o.finalizers, name) }
}

// stamp writes what the options say into the metadata of the intent.
func (o *options) stamp(i *Intent, scheme *runtime.Scheme) error {
	for key, value := range o.labels {
		with(&i.meta.Labels, key, value)
	}
	if o.marks != nil {
		i.owner, i.marked = o.marks.uid, true
		with(&i.meta.Labels, OwnerUIDLabel, string(o.marks.uid))
		with(&i.meta.Annotations, OwnerAnnotation, o.marks.name)
	}
	if o.owner == nil {
		return nil
	}
	gvk, err := apiutil.GVKForObject(o.owner, scheme)
	if err != nil {
		return fmt.Errorf("finding the kind of the owner %T: %w", o.owner, err)
	}
	i.owner, i.marked = o.owner.GetUID(), false
	i.meta.OwnerReferences = append(i.meta.OwnerReferences, *metav1.NewControllerRef(o.owner, gvk))
	return nil
}

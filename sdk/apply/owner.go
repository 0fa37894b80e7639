package apply

import (
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

// ControlledBy makes the owner the controller of the object: garbage collection deletes the object with its owner, and the
// object is written only if this owner already controls it or it does not exist. The owner must be in the object's namespace
// or cluster-scoped. Its kind must be in the scheme unless it is unstructured.
func ControlledBy(owner client.Object) Option {
	return func(o *options) { o.owner = owner }
}

// Metadata of an object with an owner that an owner reference cannot name.
const (
	// OwnerUIDLabel holds the owner's UID.
	OwnerUIDLabel = "homeostat.dev/owner-uid"
	// OwnerAnnotation holds the owner's namespace and name, with a slash between them.
	OwnerAnnotation = "homeostat.dev/owner"
)

// LabeledBy is [ControlledBy] for an owner in another namespace: a label and an annotation identify the owner. Garbage
// collection ignores them, so the owner needs a finalizer.
func LabeledBy(owner client.Object) Option {
	return func(o *options) {
		o.ownerLabel = &labelOwner{object: owner, uid: owner.GetUID(), name: client.ObjectKeyFromObject(owner).String()}
	}
}

// labelOwner is the owner in a label and an annotation.
type labelOwner struct {
	object client.Object
	uid    types.UID
	name   string
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

// WithFinalizer adds a finalizer at the creation and keeps it while the option is given: an object without it is not
// converged. It is not part of the digest, so leaving out the option does not cause an apply: the finalizer is removed by
// the next update, or at once with package finalizer.
func WithFinalizer(name string) Option {
	return func(o *options) { o.finalizers = append(o.finalizers, name) }
}

// addOwnerMetadata writes the labels and the owner of the options into the metadata of the intent.
func (o *options) addOwnerMetadata(i *Intent, scheme *runtime.Scheme) error {
	for key, value := range o.labels {
		setEntry(&i.meta.Labels, key, value)
	}
	if o.ownerLabel != nil {
		i.owner = o.ownerLabel.uid
		i.labeled = true
		i.ownerName = o.ownerLabel.name
		i.ownerKind, _ = apiutil.GVKForObject(o.ownerLabel.object, scheme) // only for the text of an error
		setEntry(&i.meta.Labels, OwnerUIDLabel, string(o.ownerLabel.uid))
		setEntry(&i.meta.Annotations, OwnerAnnotation, o.ownerLabel.name)
	}
	if o.owner == nil {
		return nil
	}
	gvk, err := apiutil.GVKForObject(o.owner, scheme)
	if err != nil {
		return fmt.Errorf("finding the kind of the owner %T: %w", o.owner, err)
	}
	i.owner = o.owner.GetUID()
	i.labeled = false
	i.ownerName = client.ObjectKeyFromObject(o.owner).String()
	i.ownerKind = gvk
	i.meta.OwnerReferences = append(i.meta.OwnerReferences, *metav1.NewControllerRef(o.owner, gvk))
	return nil
}

// isFormerOwner reports whether an object belongs to an owner with the kind, namespace and name of the intent's owner, and
// thus to a former one: its UID differs.
func (i *Intent) isFormerOwner(controller *metav1.OwnerReference, live metav1.Object) bool {
	if controller == nil {
		return live.GetAnnotations()[OwnerAnnotation] == i.ownerName
	}
	namespace, name, _ := strings.Cut(i.ownerName, "/")
	gv, err := schema.ParseGroupVersion(controller.APIVersion)
	return err == nil && gv.Group == i.ownerKind.Group && controller.Kind == i.ownerKind.Kind && controller.Name == name &&
		(namespace == "" || namespace == live.GetNamespace())
}

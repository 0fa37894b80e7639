package apply

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

// DigestAnnotation holds, on every applied object, the digest of the intent that was applied last.
const DigestAnnotation = "homeostat.dev/applied"

// Intent is what one manager wants of one object: the fields it cares about and nothing else.
// It is immutable and safe for concurrent use.
type Intent struct {
	// GVK and Key identify the object.
	GVK schema.GroupVersionKind
	Key types.NamespacedName

	owner  types.UID // "" if there is none
	marked bool      // the owner is named by marks and not by a controller reference

	fields   map[string]any // without identity of an instance (uid, resourceVersion), with the digest annotation
	digest   string
	disowned []fieldPath
	initial  map[string]any // values of disowned fields for the creation, keyed by path

	finalizers []string // to keep, without those among the fields
}

// Option refines how an [Intent] is read from a Go object.
type Option func(*options)

type options struct {
	zero   map[string]bool
	disown []string
	owner  client.Object // the controller
	marks  *mark
	labels map[string]string

	finalizers []string
}

// Zero states that the zero value of the field at that path, for example "spec.paused", is meant if it is not set.
// Without it a zero value that is not behind a pointer, and a nil pointer, mean "not set". Paths are JSON field names
// joined by dots, below no list; a path that the object's type does not have is an error of [NewIntent].
func Zero(path string) Option {
	return func(o *options) {
		if o.zero == nil {
			o.zero = map[string]bool{}
		}
		o.zero[path] = true
	}
}

// Disown leaves the field at that path, for example "spec.replicas", to others: its value is used to create the object
// and never enforced afterwards. Paths are JSON field names joined by dots, below no list.
func Disown(path string) Option {
	return func(o *options) { o.disown = append(o.disown, path) }
}

// NewIntent reads the intent from a desired object. A field is intended if and only if it was set:
//   - the zero value of a field is not intended, whatever its JSON tag says ([Zero] makes it so);
//   - what a non-nil pointer points to is intended, even if it is zero (replicas: 0, emptyDir: {});
//   - every entry of a map and every item of a list is intended;
//   - status and the server's own metadata are never intended.
//
// Secret.stringData is folded into data, as the API server does. The scheme is needed for the kinds of the object and its
// owner. Errors are those of an unregistered kind, of a value that cannot be written as JSON and of a path that does not
// exist.
func NewIntent(desired client.Object, scheme *runtime.Scheme, opts ...Option) (*Intent, error) {
	var o options
	for _, opt := range opts {
		opt(&o)
	}
	gvk, err := apiutil.GVKForObject(desired, scheme)
	if err != nil {
		return nil, fmt.Errorf("finding the kind of %T: %w", desired, err)
	}
	fields, err := encodeObject(desired, o.zero)
	if err != nil {
		return nil, fmt.Errorf("reading the intent of %s %q: %w", gvk.Kind, desired.GetName(), err)
	}
	fields["apiVersion"], fields["kind"] = gvk.ToAPIVersionAndKind()
	i := &Intent{
		GVK: gvk, Key: client.ObjectKeyFromObject(desired), fields: fields, initial: map[string]any{},
		finalizers: o.finalizers,
	}
	if err := o.stamp(fields, scheme); err != nil {
		return nil, fmt.Errorf("reading the intent of %s: %w", i, err)
	}
	switch {
	case o.owner != nil:
		i.owner = o.owner.GetUID()
	case o.marks != nil:
		i.owner, i.marked = o.marks.uid, true
	}
	for _, path := range o.disown {
		p := fieldPath(strings.Split(path, "."))
		i.disowned = append(i.disowned, p)
		if v, found := p.remove(fields); found {
			i.initial[path] = v
		}
	}
	return i, i.seal()
}

// seal computes the digest and writes it into the annotation that carries it.
func (i *Intent) seal() error {
	raw, err := json.Marshal(i.fields)
	if err != nil {
		return fmt.Errorf("encoding the intent of %s %q: %w", i.GVK.Kind, i.Key.Name, err)
	}
	sum := sha256.Sum256(raw)
	i.digest = hex.EncodeToString(sum[:8])
	fieldPath{"metadata", "annotations", DigestAnnotation}.set(i.fields, i.digest)
	return nil
}

// Digest identifies the intent: equal intents have equal digests. Disowned fields and the finalizers of [WithFinalizer]
// are not part of it.
func (i *Intent) Digest() string { return i.digest }

// Fields returns a copy of the intended fields as JSON values, without the finalizers of [WithFinalizer].
func (i *Intent) Fields() map[string]any { return runtime.DeepCopyJSON(i.fields) }

// String names the object as "Kind namespace/name".
func (i *Intent) String() string { return i.GVK.Kind + " " + strings.TrimPrefix(i.Key.String(), "/") }

// guarded returns the fields together with the finalizers to keep.
func (i *Intent) guarded() map[string]any {
	fields := i.Fields()
	present, _ := fieldPath{"metadata", "finalizers"}.get(fields)
	given, _ := present.([]any)
	for _, name := range i.finalizers {
		if !slices.Contains(given, any(name)) {
			appendTo(fields, "finalizers", name)
		}
	}
	return fields
}

// createOnly is a resourceVersion that no stored object has: an apply with it creates the object or conflicts.
const createOnly = "1"

// forCreation returns the body of an apply that creates the object and fails with a conflict if it exists.
func (i *Intent) forCreation() ([]byte, error) {
	fields := i.guarded()
	fieldPath{"metadata", "resourceVersion"}.set(fields, createOnly)
	for _, p := range i.disowned {
		if v, ok := i.initial[p.String()]; ok {
			p.set(fields, runtime.DeepCopyJSONValue(v))
		}
	}
	return json.Marshal(fields)
}

// forUpdate returns the body of an apply onto exactly this live object. A disowned field that we still own, because we
// set it at creation and nobody took it over, keeps its present value: dropping it would reset it. The value is present
// in this very version only, so that the apply fails with a conflict if somebody takes the field over meanwhile.
func (i *Intent) forUpdate(live client.Object, owned Owned) ([]byte, error) {
	fields := i.guarded()
	fieldPath{"metadata", "uid"}.set(fields, string(live.GetUID()))
	if i.Refuse(live) != nil { // whoever decided to take it over looked at this version
		fieldPath{"metadata", "resourceVersion"}.set(fields, live.GetResourceVersion())
	}
	for _, p := range i.disowned {
		if !owned.has(p) {
			continue
		}
		present, err := encodeObject(live, nil)
		if err != nil {
			return nil, err
		}
		if v, found := p.get(present); found {
			p.set(fields, v)
			fieldPath{"metadata", "resourceVersion"}.set(fields, live.GetResourceVersion())
		}
	}
	return json.Marshal(fields)
}

// encodeObject turns an object into JSON values, without status and without what the server writes into metadata.
func encodeObject(o client.Object, zero map[string]bool) (map[string]any, error) {
	if s, ok := o.(*corev1.Secret); ok && len(s.StringData) > 0 {
		o = foldStringData(s)
	}
	fields, err := encode(o, zero)
	if err != nil {
		return nil, err
	}
	delete(fields, "status")
	metadata, _ := fields["metadata"].(map[string]any)
	for _, name := range []string{
		"uid", "resourceVersion", "generation", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds",
		"managedFields", "selfLink",
	} {
		delete(metadata, name)
	}
	return fields, nil
}

func foldStringData(s *corev1.Secret) *corev1.Secret {
	s = s.DeepCopy()
	if s.Data == nil {
		s.Data = map[string][]byte{}
	}
	for k, v := range s.StringData {
		s.Data[k] = []byte(v)
	}
	s.StringData = nil
	return s
}

package apply

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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

	meta     metadata // without what names an instance (uid, resourceVersion), with the digest annotation
	rest     []byte   // what is intended beside metadata, as a JSON object
	digest   string
	disowned []fieldPath // which metadata and rest have nevertheless: for the creation

	finalizers []string // to keep, without those among the metadata
	exact      []string // fields that are ours whole

	fill func() (client.Object, error) // makes what is sent in the place of rest; nil if rest is
}

// metadata is what an intent can say of the metadata of an object, and of which instance it says it.
type metadata struct {
	Name            string                  `json:"name,omitempty"`
	Namespace       string                  `json:"namespace,omitempty"`
	UID             types.UID               `json:"uid,omitempty"`
	ResourceVersion string                  `json:"resourceVersion,omitempty"`
	Labels          map[string]string       `json:"labels,omitempty"`
	Annotations     map[string]string       `json:"annotations,omitempty"`
	OwnerReferences []metav1.OwnerReference `json:"ownerReferences,omitempty"`
	Finalizers      []string                `json:"finalizers,omitempty"`
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
	exact      []string
	fill       func() (client.Object, error)
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

// Unmanaged leaves the field at that path, for example "spec.replicas", to others: its value is used to create the object
// and never enforced afterwards. Paths are JSON field names joined by dots, below no list.
func Unmanaged(path string) Option {
	return func(o *options) { o.disown = append(o.disown, path) }
}

// ContentFrom makes the desired object stand for the one that fill returns, which is what is sent: so nothing that is large or
// secret need be at hand to tell that there is nothing to do. Both must have the same fields, and the stand-in another value
// where the other has one, for instance its digest. Only the metadata of the stand-in counts. Fill is called once for each
// request that writes the object; its errors are returned as they are. Values of the object are never compared with those of
// the stand-in if the object that is observed has metadata alone, which is how to use this.
func ContentFrom(fill func() (client.Object, error)) Option {
	return func(o *options) { o.fill = fill }
}

// ExclusiveMaps makes maps at the top of the object, for example "data", ours whole: an entry that is not intended and that others
// own is removed. To notice it the object must carry what [TrimManagedFields] keeps with the same names.
func ExclusiveMaps(fields ...string) Option {
	return func(o *options) { o.exact = append(o.exact, fields...) }
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
	i, err := read(desired, gvk, o.zero)
	if err != nil {
		return nil, err
	}
	i.finalizers, i.exact, i.fill = o.finalizers, o.exact, o.fill
	if err := o.stamp(i, scheme); err != nil {
		return nil, fmt.Errorf("reading the intent of %s: %w", i, err)
	}
	for _, path := range o.disown {
		i.disowned = append(i.disowned, strings.Split(path, "."))
	}
	return i, i.seal()
}

// read takes in what an object says, without what the server writes into its metadata.
func read(o client.Object, gvk schema.GroupVersionKind, zero map[string]bool) (*Intent, error) {
	i := &Intent{GVK: gvk, Key: client.ObjectKeyFromObject(o), meta: metadata{
		Name: o.GetName(), Namespace: o.GetNamespace(),
		Labels: maps.Clone(o.GetLabels()), Annotations: maps.Clone(o.GetAnnotations()),
		OwnerReferences: slices.Clone(o.GetOwnerReferences()), Finalizers: slices.Clone(o.GetFinalizers()),
	}}
	if s, ok := o.(*corev1.Secret); ok && len(s.StringData) > 0 {
		o = foldStringData(s)
	}
	var err error
	if i.rest, err = encode(o, zero); err != nil {
		return nil, fmt.Errorf("reading the intent of %s %q: %w", gvk.Kind, o.GetName(), err)
	}
	return i, nil
}

// seal computes the digest and writes it into the annotation that carries it.
func (i *Intent) seal() error {
	raw, err := i.body(i.meta, nil)
	if err != nil {
		return err
	}
	sum := sha256.Sum256(raw)
	i.digest = hex.EncodeToString(sum[:8])
	with(&i.meta.Annotations, DigestAnnotation, i.digest)
	return nil
}

// with adds an entry to a map, which is made if it is nil.
func with(m *map[string]string, key, value string) {
	if *m == nil {
		*m = map[string]string{}
	}
	(*m)[key] = value
}

// Digest identifies the intent: equal intents have equal digests. Disowned fields and the finalizers of [WithFinalizer]
// are not part of it.
func (i *Intent) Digest() string { return i.digest }

// Fields returns the intended fields as JSON values, without the finalizers of [WithFinalizer].
func (i *Intent) Fields() map[string]any { return i.fields(i.meta, nil) }

// String names the object as "Kind namespace/name".
func (i *Intent) String() string { return i.GVK.Kind + " " + strings.TrimPrefix(i.Key.String(), "/") }

// guarded returns the metadata together with the finalizers to keep.
func (i *Intent) guarded() metadata {
	m := i.meta
	for _, name := range i.finalizers {
		if !slices.Contains(m.Finalizers, name) {
			m.Finalizers = append(slices.Clip(m.Finalizers), name)
		}
	}
	return m
}

// whole returns what is intended as JSON, with this metadata.
func (i *Intent) whole(m metadata) ([]byte, error) { return i.compose(m, i.rest) }

// filled returns what is sent as JSON, with this metadata.
func (i *Intent) filled(m metadata) ([]byte, error) {
	if i.fill == nil {
		return i.whole(m)
	}
	o, err := i.fill()
	if err != nil {
		return nil, err
	}
	rest, err := encode(o, nil)
	if err != nil {
		return nil, fmt.Errorf("reading what to send as %s: %w", i, err)
	}
	return i.compose(m, rest)
}

// Sent returns what an apply would send, as JSON values: the fields of the intent or, with [ContentFrom], of what it stands for.
func (i *Intent) Sent() (map[string]any, error) {
	if i.fill == nil {
		return i.Fields(), nil
	}
	raw, err := i.filled(i.meta)
	return decode(raw), err
}

func (i *Intent) compose(m metadata, rest []byte) ([]byte, error) {
	version, kind := i.GVK.ToAPIVersionAndKind()
	raw, err := json.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("encoding the intent of %s: %w", i, err)
	}
	const head = 128 // bytes for what comes before metadata
	body := make([]byte, 0, head+len(raw)+len(rest))
	body = fmt.Appendf(body, `{"apiVersion":%q,"kind":%q,"metadata":%s`, version, kind, raw)
	if len(rest) > len("{}") {
		body = append(body, ',')
	}
	return append(body, rest[1:]...), nil
}

// fields returns what is intended with this metadata, and of the disowned fields those that are given, by their path.
func (i *Intent) fields(m metadata, given map[string]any) map[string]any {
	raw, _ := i.whole(m) // it could be encoded when the intent was made
	fields := decode(raw)
	for _, p := range i.disowned {
		p.remove(fields)
		if v, ok := given[p.String()]; ok {
			p.set(fields, v)
		}
	}
	return fields
}

// body returns the same as JSON.
func (i *Intent) body(m metadata, given map[string]any) ([]byte, error) {
	if len(i.disowned) == 0 {
		return i.whole(m)
	}
	return json.Marshal(i.fields(m, given))
}

// createOnly is a resourceVersion that no stored object has: an apply with it creates the object or conflicts.
const createOnly = "1"

// forCreation returns the body of an apply that creates the object and fails with a conflict if it exists.
func (i *Intent) forCreation() ([]byte, error) {
	m := i.guarded()
	m.ResourceVersion = createOnly
	return i.filled(m)
}

// forUpdate returns the body of an apply onto exactly this live object. A disowned field that we still own, because we
// set it at creation and nobody took it over, keeps its present value: dropping it would reset it. The value is present
// in this very version only, so that the apply fails with a conflict if somebody takes the field over meanwhile.
func (i *Intent) forUpdate(live client.Object, owned FieldSet) ([]byte, error) {
	m, kept := i.guarded(), map[string]any{}
	m.UID = live.GetUID()
	if i.CheckOwnership(live) != nil { // whoever decided to take it over looked at this version
		m.ResourceVersion = live.GetResourceVersion()
	}
	if i.fill != nil {
		return i.filled(m)
	}
	for _, p := range i.disowned {
		if !owned.has(p) {
			continue
		}
		now, err := present(live)
		if err != nil {
			return nil, err
		}
		if v, found := p.get(now); found {
			kept[p.String()] = v
			m.ResourceVersion = live.GetResourceVersion()
		}
	}
	return i.body(m, kept)
}

// present returns what an object says as JSON values, without its status and what the server writes into its metadata.
func present(o client.Object) (map[string]any, error) {
	i, err := read(o, o.GetObjectKind().GroupVersionKind(), nil)
	if err != nil {
		return nil, err
	}
	return i.Fields(), nil
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

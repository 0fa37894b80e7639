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

// DigestAnnotation holds, on every applied object, the digest of the last applied intent.
const DigestAnnotation = "homeostat.dev/applied"

// Intent is the set of fields that one field manager wants on one object. It is immutable and safe for concurrent use.
type Intent struct {
	// GVK and Key identify the object.
	GVK schema.GroupVersionKind
	Key types.NamespacedName

	owner     types.UID // "" if there is none
	ownerName string    // namespace and name of the owner, with a slash between them
	ownerKind schema.GroupVersionKind
	labeled   bool // the owner is in the owner label, not in a controller reference

	meta      metadata // without uid and resourceVersion, with the digest annotation
	rest      []byte   // the intended fields except metadata, as a JSON object
	digest    string
	unmanaged []fieldPath // fields that are sent for the creation only; metadata and rest contain them

	finalizers []string // finalizers to keep, except those in the metadata
	exclusive  []string // names of exclusive maps

	content func() (client.Object, error) // returns the object to send in place of rest; nil if rest is sent
}

// metadata is the part of the metadata that an intent can have, and the identity of the instance.
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

// Option configures how an [Intent] is read from a Go object.
type Option func(*options)

type options struct {
	zero       map[string]bool
	unmanaged  []string
	owner      client.Object // the controller
	ownerLabel *labelOwner
	labels     map[string]string

	finalizers []string
	exclusive  []string
	content    func() (client.Object, error)
}

// Zero makes the zero value of the field at that path, for example "spec.paused", intended even if the field is not set.
// Without it a zero value without a pointer, and a nil pointer, mean "not set". Paths are JSON field names joined by dots,
// outside of lists. A path that the type of the object does not have is an error of [NewIntent].
func Zero(path string) Option {
	return func(o *options) {
		if o.zero == nil {
			o.zero = map[string]bool{}
		}
		o.zero[path] = true
	}
}

// Unmanaged leaves the field at that path, for example "spec.replicas", to other field managers: its value is used for the
// creation and never enforced afterwards. Paths are JSON field names joined by dots, outside of lists.
func Unmanaged(path string) Option {
	return func(o *options) { o.unmanaged = append(o.unmanaged, path) }
}

// ContentFrom replaces the desired object by the result of fill when it is sent. Large or secret content is then not needed
// to find that the object is converged. Both objects must have the same fields. The desired object has a digest or another
// distinct value where the content has one; its metadata is the one that is sent. fill is called once for each request that
// writes the object; its errors are returned unchanged. Use it with live objects of metadata alone: then values of the live
// object are never compared with those of the desired object.
func ContentFrom(fill func() (client.Object, error)) Option {
	return func(o *options) { o.content = fill }
}

// ExclusiveMaps makes maps at the top of the object, for example "data", exclusive: entries that are not intended and belong
// to other managers are removed. Their detection needs the managedFields that [TrimManagedFields] keeps for the same names.
func ExclusiveMaps(fields ...string) Option {
	return func(o *options) { o.exclusive = append(o.exclusive, fields...) }
}

// NewIntent reads the intent from a desired object. A field is intended if and only if it is set:
//   - the zero value of a field is not intended, independent of its JSON tag ([Zero] makes it intended);
//   - the target of a non-nil pointer is intended, even if it is zero (replicas: 0, emptyDir: {});
//   - every entry of a map and every item of a list is intended;
//   - status and the server's own metadata are never intended.
//
// Secret.stringData is merged into data, as in the API server. The scheme must have the kinds of the object and its owner.
// Errors are an unregistered kind, a value without a JSON form and a path that does not exist.
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
	i.finalizers = o.finalizers
	i.exclusive = o.exclusive
	i.content = o.content
	if err := o.addOwnerMetadata(i, scheme); err != nil {
		return nil, fmt.Errorf("reading the intent of %s: %w", i, err)
	}
	for _, path := range o.unmanaged {
		i.unmanaged = append(i.unmanaged, strings.Split(path, "."))
	}
	return i, i.computeDigest()
}

// read returns the intent of an object, without the metadata that the server writes.
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

// computeDigest computes the digest and sets its annotation.
func (i *Intent) computeDigest() error {
	raw, err := i.body(i.meta, nil)
	if err != nil {
		return err
	}
	sum := sha256.Sum256(raw)
	i.digest = hex.EncodeToString(sum[:8])
	setEntry(&i.meta.Annotations, DigestAnnotation, i.digest)
	return nil
}

// setEntry sets an entry of a map, which is created if it is nil.
func setEntry(m *map[string]string, key, value string) {
	if *m == nil {
		*m = map[string]string{}
	}
	(*m)[key] = value
}

// Digest returns the digest of the intent: equal intents have equal digests. Unmanaged fields and the finalizers of
// [WithFinalizer] are not part of it.
func (i *Intent) Digest() string { return i.digest }

// Fields returns the intended fields as JSON values, without the finalizers of [WithFinalizer].
func (i *Intent) Fields() map[string]any { return i.fields(i.meta, nil) }

// String returns the object's identity as "Kind namespace/name".
func (i *Intent) String() string { return i.GVK.Kind + " " + strings.TrimPrefix(i.Key.String(), "/") }

// withFinalizers returns the metadata with the finalizers to keep.
func (i *Intent) withFinalizers() metadata {
	m := i.meta
	for _, name := range i.finalizers {
		if !slices.Contains(m.Finalizers, name) {
			m.Finalizers = append(slices.Clip(m.Finalizers), name)
		}
	}
	return m
}

// bodyWithUnmanaged returns all fields of the intent as JSON, with this metadata.
func (i *Intent) bodyWithUnmanaged(m metadata) ([]byte, error) { return i.compose(m, i.rest) }

// contentBody returns the object to send as JSON, with this metadata.
func (i *Intent) contentBody(m metadata) ([]byte, error) {
	if i.content == nil {
		return i.bodyWithUnmanaged(m)
	}
	o, err := i.content()
	if err != nil {
		return nil, err
	}
	rest, err := encode(o, nil)
	if err != nil {
		return nil, fmt.Errorf("reading what to send as %s: %w", i, err)
	}
	return i.compose(m, rest)
}

// Payload returns the fields that an apply would send, as JSON values: those of the intent, or of the result of
// [ContentFrom].
func (i *Intent) Payload() (map[string]any, error) {
	if i.content == nil {
		return i.Fields(), nil
	}
	raw, err := i.contentBody(i.meta)
	return decode(raw), err
}

func (i *Intent) compose(m metadata, rest []byte) ([]byte, error) {
	version, kind := i.GVK.ToAPIVersionAndKind()
	raw, err := json.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("encoding the intent of %s: %w", i, err)
	}
	const head = 128 // bytes before metadata
	body := make([]byte, 0, head+len(raw)+len(rest))
	body = fmt.Appendf(body, `{"apiVersion":%q,"kind":%q,"metadata":%s`, version, kind, raw)
	if len(rest) > len("{}") {
		body = append(body, ',')
	}
	return append(body, rest[1:]...), nil
}

// fields returns the intended fields with this metadata, and the unmanaged fields in given, by their path.
func (i *Intent) fields(m metadata, given map[string]any) map[string]any {
	raw, _ := i.bodyWithUnmanaged(m) // it was encoded when the intent was made
	fields := decode(raw)
	for _, p := range i.unmanaged {
		p.remove(fields)
		if v, ok := given[p.String()]; ok {
			p.set(fields, v)
		}
	}
	return fields
}

// body returns the result of fields as JSON.
func (i *Intent) body(m metadata, given map[string]any) ([]byte, error) {
	if len(i.unmanaged) == 0 {
		return i.bodyWithUnmanaged(m)
	}
	return json.Marshal(i.fields(m, given))
}

// createOnly is a resourceVersion that no stored object has: an apply with it creates the object or fails with a conflict.
const createOnly = "1"

// forCreation returns the body of an apply that creates the object and fails with a conflict if it exists.
func (i *Intent) forCreation() ([]byte, error) {
	m := i.withFinalizers()
	m.ResourceVersion = createOnly
	return i.contentBody(m)
}

// forUpdate returns the body of an apply to exactly this live object. An unmanaged field that we still own, because no other
// manager has set it since the creation, keeps its present value: leaving it out would reset it. The value belongs to this
// very version, so the apply fails with a conflict if another manager sets the field meanwhile.
func (i *Intent) forUpdate(live client.Object, owned FieldSet) ([]byte, error) {
	m, kept := i.withFinalizers(), map[string]any{}
	m.UID = live.GetUID()
	if i.CheckOwnership(live) != nil { // the adoption was decided for this version
		m.ResourceVersion = live.GetResourceVersion()
	}
	if i.content != nil {
		return i.contentBody(m)
	}
	for _, p := range i.unmanaged {
		if !owned.hasField(p) {
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

// present returns the fields of an object as JSON values, without its status and the metadata that the server writes.
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

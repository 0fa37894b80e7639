package function

import (
	"maps"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/homeostat-dev/homeostat/sdk/conditions"
	"github.com/homeostat-dev/homeostat/sdk/internal/desired"
	"github.com/homeostat-dev/homeostat/sdk/internal/object"
)

// Decorated is an object of a kind that has a controller of its own, see [Config.Decorates]. Its status is one of its fields
// and is never written. The conditions of a reconcile are kept in memory only.
type Decorated struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	// Fields are the fields at the top except apiVersion, kind and metadata.
	Fields map[string]any `json:"-"`

	common conditions.Status
}

// DecoratedList is a list of decorated objects.
type DecoratedList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`
	Items           []Decorated `json:"items"`
}

// CommonStatus implements sdk.Object.
func (o *Decorated) CommonStatus() *conditions.Status { return &o.common }

// DeepCopyObject implements runtime.Object.
func (o *Decorated) DeepCopyObject() runtime.Object {
	c := &Decorated{TypeMeta: o.TypeMeta, Fields: runtime.DeepCopyJSON(o.Fields)}
	o.ObjectMeta.DeepCopyInto(&c.ObjectMeta)
	o.common.DeepCopyInto(&c.common)
	return c
}

// DeepCopyObject implements runtime.Object.
func (l *DecoratedList) DeepCopyObject() runtime.Object {
	c := &DecoratedList{TypeMeta: l.TypeMeta, Items: make([]Decorated, len(l.Items))}
	l.ListMeta.DeepCopyInto(&c.ListMeta)
	for i := range l.Items {
		if o, ok := l.Items[i].DeepCopyObject().(*Decorated); ok {
			c.Items[i] = *o
		}
	}
	return c
}

// decoratedFields are the fields of a [Decorated] with a Go type.
type decoratedFields struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
}

// MarshalJSON implements json.Marshaler.
func (o *Decorated) MarshalJSON() ([]byte, error) {
	return marshalWith(o.Fields, decoratedFields{o.TypeMeta, o.ObjectMeta})
}

// UnmarshalJSON implements json.Unmarshaler.
func (o *Decorated) UnmarshalJSON(data []byte) error {
	var known decoratedFields
	fields, err := unmarshalWith(data, &known, "apiVersion", "kind", "metadata")
	*o = Decorated{TypeMeta: known.TypeMeta, ObjectMeta: known.ObjectMeta, Fields: fields}
	return err
}

// ownScheme is a manager with a scheme for one operator: the kind of decorated objects may have another Go type in the
// program, and the kinds of several operators have one Go type.
type ownScheme struct {
	manager.Manager
	scheme *runtime.Scheme
}

// GetScheme implements manager.Manager.
func (m ownScheme) GetScheme() *runtime.Scheme { return m.scheme }

// GetConfig implements manager.Manager.
func (m ownScheme) GetConfig() *rest.Config { return inJSON(m.Manager.GetConfig()) }

// inJSON returns the configuration of a client that reads JSON. A built-in kind would be read as protobuf.
func inJSON(cfg *rest.Config) *rest.Config {
	cfg = rest.CopyConfig(cfg)
	cfg.ContentType = runtime.ContentTypeJSON
	return cfg
}

// selects reports whether the object is one of the operator.
func (c Config) selects(o desired.Object) bool {
	if !c.Decorates || c.Selects == nil {
		return true
	}
	own := object.AppliedMetadata(o, c.Name)
	return c.Selects(excluding(o.GetLabels(), own.Labels), excluding(o.GetAnnotations(), own.Annotations))
}

// needsFinalizer reports whether the function is called for the clean-up of the object. One that is being deleted has the
// finalizer if it was selected before.
func (c Config) needsFinalizer(o desired.Object) bool {
	return c.Finalize && (!o.GetDeletionTimestamp().IsZero() || c.selects(o))
}

// excluding returns the entries of a map whose keys are not in another.
func excluding(entries, others map[string]string) map[string]string {
	rest := maps.Clone(entries)
	maps.DeleteFunc(rest, func(key, _ string) bool {
		_, ok := others[key]
		return ok
	})
	return rest
}

// recordMetadata records the labels and annotations of an answer for a decorated object, and refuses a status.
func recordMetadata(p *desired.Pass, answer *Answer) error {
	if answer.Status != nil || answer.Conditions != nil || answer.NotReady != nil || answer.Suspended != nil {
		return bug(ReasonInvalidAnswer, "the answer has a status: that of a decorated object belongs to the "+
			"controller of its kind")
	}
	p.Metadata = &object.MetadataEntries{Labels: answer.Labels, Annotations: answer.Annotations}
	return nil
}

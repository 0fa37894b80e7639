package conversion

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
)

// Kind is a kind of custom resources with several versions. It must not be changed or copied after its first use, and is
// then safe for concurrent use.
type Kind struct {
	// GroupKind is the group and the kind. Required.
	GroupKind schema.GroupKind
	// Hub is the version that all others are converted to and from: usually the newest one, because it expresses most. It
	// need not be the storage version. Required.
	Hub string
	// Versions are all versions of the CustomResourceDefinition, also those that are not served. The hub may be left out if
	// it needs no other field than its name. Required.
	Versions []Version

	once     sync.Once
	err      error
	versions map[string]*compiled
}

// Version is a version of a [Kind].
type Version struct {
	// Name is the name of the version, such as v1beta1. Required.
	Name string
	// Lenses relate the fields of this version to those of the hub. Fields without a lens are equal. The hub has none.
	Lenses []Lens
	// Type is a pointer to the Go type of this version. What an annotation says is restored only if the result decodes into
	// it, so that a client cannot store an object that stops the informers of an operator. Optional.
	Type any
	// ListKeys are the keys of the items of lists, as x-kubernetes-list-map-keys of the schema has them: for example
	// {"spec.members": {"name"}}. Items of such a list are objects of their own: what another version cannot express of an
	// item is kept while the item exists. In a path, [] stands for the items of a list, and * for the values of a map:
	// "spec.groups.*.teams[].members". Optional.
	ListKeys map[string][]string
}

type compiled struct {
	*Version

	toHub, toSpoke *direction
	keys           listKeys
}

// Validate returns an error that names every mistake in the declaration.
func (k *Kind) Validate() error {
	k.once.Do(func() {
		if k.err = errors.Join(k.compile()...); k.err != nil {
			k.err = fmt.Errorf("conversion of %s: %w", k.GroupKind, k.err)
		}
	})
	return k.err
}

func (k *Kind) compile() []error {
	var errs []error
	if k.GroupKind.Kind == "" || k.GroupKind.Group == "" {
		errs = append(errs, errors.New("field GroupKind needs a group and a kind"))
	}
	if k.Hub == "" {
		errs = append(errs, errors.New("field Hub is missing: name the version that all others are converted to and from"))
	}
	k.versions = map[string]*compiled{}
	for i := range k.Versions {
		v := &k.Versions[i]
		if k.versions[v.Name] != nil {
			errs = append(errs, fmt.Errorf("version %s is declared twice", v.Name))
		}
		c, err := v.compile(v.Name == k.Hub)
		if err != nil {
			errs = append(errs, fmt.Errorf("version %q: %w", v.Name, err))
		}
		k.versions[v.Name] = c
	}
	if k.Hub != "" && k.versions[k.Hub] == nil {
		c, _ := (&Version{Name: k.Hub}).compile(true)
		k.versions[k.Hub] = c
	}
	if len(k.versions) < 2 {
		errs = append(errs, errors.New("field Versions names no version beside the hub, so there is nothing to convert"))
	}
	return errs
}

func (v *Version) compile(hub bool) (*compiled, error) {
	var errs []error
	for _, problem := range validation.IsDNS1035Label(v.Name) {
		errs = append(errs, fmt.Errorf("field Name: %s", problem))
	}
	if hub && len(v.Lenses) > 0 {
		errs = append(errs, errors.New("the hub has lenses: lenses belong to the other versions"))
	}
	if t := reflect.TypeOf(v.Type); t != nil && (t.Kind() != reflect.Pointer || t.Elem().Kind() != reflect.Struct) {
		errs = append(errs, fmt.Errorf("field Type is a %s: give a pointer to a struct", t))
	}
	c := &compiled{Version: v, keys: v.ListKeys}
	var err error
	c.toHub, c.toSpoke, err = compile(v.Lenses, true)
	return c, errors.Join(append(errs, err)...)
}

// OneSided returns the paths of the fields of a version whose values the declaration allows other versions not to
// express: those of [SpokeOnly], [HubOnly], [Wrap] and [Unwrap], and of [Values] without a counterpart of its own for
// each value. In a path, [] stands for the items of a list or the values of a map. A path "" stands for all fields:
// [Functions] have no declaration.
func (k *Kind) OneSided(version string) []string {
	var paths []string
	for i := range k.Versions {
		v := &k.Versions[i]
		if version == k.Hub || version == v.Name {
			paths = oneSided(paths, v.Lenses, "", version == k.Hub)
		}
	}
	slices.Sort(paths)
	return slices.Compact(paths)
}

func oneSided(paths []string, lenses []Lens, prefix string, hub bool) []string {
	for _, l := range lenses {
		fields, keeps := l.spoke, l.spokeKeeps
		if hub {
			fields = l.hub
			keeps = l.hubKeeps
		}
		switch {
		case l.convert != nil:
			paths = append(paths, "")
		case l.each != nil:
			paths = oneSided(paths, l.each, prefix+fields[0]+items+".", hub)
		case keeps:
			for _, f := range fields {
				paths = append(paths, prefix+f)
			}
		}
	}
	return paths
}

// Convert returns the object in another version of its kind, and does not modify its argument. The error names the object
// and the path of the field that could not be converted.
func (k *Kind) Convert(obj *unstructured.Unstructured, version string) (*unstructured.Unstructured, error) {
	if err := k.Validate(); err != nil {
		return nil, err
	}
	result := shallow(obj)
	err := k.convert(result, version)
	if err != nil {
		name := obj.GetName()
		if ns := obj.GetNamespace(); ns != "" {
			name = ns + "/" + name
		}
		return nil, fmt.Errorf("converting %s %s %s to %s: %w", obj.GroupVersionKind().Version, obj.GetKind(), name, version, err)
	}
	return result, nil
}

// shallow returns a copy whose metadata and annotations can be changed. The rest is copied by the lenses.
func shallow(obj *unstructured.Unstructured) *unstructured.Unstructured {
	object := maps.Clone(obj.Object)
	if m, ok := object["metadata"].(map[string]any); ok {
		object["metadata"] = runtime.DeepCopyJSON(m)
	}
	return &unstructured.Unstructured{Object: object}
}

func (k *Kind) convert(obj *unstructured.Unstructured, version string) error {
	gvk := obj.GroupVersionKind()
	if gvk.GroupKind() != k.GroupKind {
		return fmt.Errorf("it is a %s, not a %s", gvk.GroupKind(), k.GroupKind)
	}
	for _, name := range []string{gvk.Version, version} {
		if k.versions[name] == nil {
			return fmt.Errorf("version %q is not one of %v", name, slices.Sorted(maps.Keys(k.versions)))
		}
	}
	if gvk.Version == version {
		obj.Object = runtime.DeepCopyJSON(obj.Object)
		return nil
	}
	c := &conversion{kind: k, object: obj.Object}
	if err := c.readRecords(); err != nil {
		return err
	}
	from := gvk.Version
	if from != k.Hub {
		if err := c.step(k.versions[from], k.versions[k.Hub], k.versions[from].toHub, k.versions[from].toSpoke); err != nil {
			return err
		}
		from = k.Hub
	}
	if from != version {
		to := k.versions[version]
		if err := c.step(k.versions[from], to, to.toSpoke, to.toHub); err != nil {
			return err
		}
	}
	c.object["apiVersion"] = k.GroupKind.WithVersion(version).GroupVersion().String()
	obj.Object = c.object
	return c.writeRecords()
}

// conversion is the conversion of one object.
type conversion struct {
	kind    *Kind
	object  map[string]any
	records map[string]record
}

// step converts the object between the hub and a spoke, with both directions.
func (c *conversion) step(from, to *compiled, forth, back *direction) error {
	original := c.object
	delete(c.records, from.Name) // nothing can be restored in a version that the object has
	shown, err := c.apply(forth, original, to)
	if err != nil {
		return err
	}
	counterpart, err := c.apply(back, shown, from)
	if err != nil {
		return err
	}
	if kept := c.records[to.Name]; len(kept) > 0 {
		delete(c.records, to.Name)
		unexpressed := difference(original, counterpart, nil, nil)
		shown = c.restore(kept, shown, to, func(restored map[string]any) bool {
			view, err := c.apply(back, restored, from)
			if err != nil || !difference(original, view, nil, nil).within(unexpressed) {
				return false
			}
			counterpart = view
			return true
		})
	}
	if kept := difference(original, counterpart, from.keys, forth.vanishing); len(kept) > 0 {
		c.records[from.Name] = kept
	}
	c.object = shown
	return nil
}

// apply returns a converted copy of an object.
func (c *conversion) apply(d *direction, object map[string]any, to *compiled) (map[string]any, error) {
	metadata := object["metadata"]
	content := make(map[string]any, len(object))
	for key, v := range object {
		if key != "metadata" || d.whole != nil {
			content[key] = runtime.DeepCopyJSONValue(v)
		}
	}
	result, err := d.apply(content)
	if err != nil {
		return nil, err
	}
	result["apiVersion"] = c.kind.GroupKind.WithVersion(to.Name).GroupVersion().String()
	result["kind"] = c.kind.GroupKind.Kind
	delete(result, "metadata")
	if metadata != nil {
		result["metadata"] = metadata
	}
	return result, nil
}

// restore returns the object with the kept values that are not stale. A value is stale if the object does not show the same
// any more, or if it would change what the other version shows.
func (c *conversion) restore(
	kept record, shown map[string]any, to *compiled, consistent func(map[string]any) bool,
) map[string]any {
	if kept = kept.fresh(shown, to.keys); len(kept) == 0 {
		return shown
	}
	try := func(r record) (map[string]any, bool) {
		restored := r.apply(shown, to.keys)
		return restored, to.accepts(restored) && consistent(restored)
	}
	search := search{good: record{}, attempts: maxAttempts, result: shown, try: try}
	search.add(kept, slices.Sorted(maps.Keys(kept)))
	return search.result
}

// maxAttempts limits the work that a forged annotation with many values causes.
const maxAttempts = 32

// search looks for the values of a record that can be restored.
type search struct {
	good     record
	attempts int
	result   map[string]any // the object with the good values
	try      func(record) (map[string]any, bool)
}

// add restores these values together, or else each half of them.
func (s *search) add(kept record, pointers []string) {
	if len(pointers) == 0 || s.attempts == 0 {
		return
	}
	s.attempts--
	candidate := maps.Clone(s.good)
	for _, pointer := range pointers {
		candidate[pointer] = kept[pointer]
	}
	if result, ok := s.try(candidate); ok {
		s.good = candidate
		s.result = result
		return
	}
	if half := len(pointers) / 2; half > 0 {
		s.add(kept, pointers[:half])
		s.add(kept, pointers[half:])
	}
}

// accepts reports whether an object decodes into the Go type of its version.
func (c *compiled) accepts(object map[string]any) bool {
	if c.Type == nil {
		return true
	}
	data, err := json.Marshal(object)
	return err == nil && json.Unmarshal(data, reflect.New(reflect.TypeOf(c.Type).Elem()).Interface()) == nil
}

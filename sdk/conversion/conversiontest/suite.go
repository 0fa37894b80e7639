package conversiontest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/homeostat-dev/homeostat/sdk/conversion"
)

// The rules of the package documentation. A case that breaks ruleInvalid says nothing about the conversion.
const (
	ruleInvalid   = "invalid"
	ruleConvert   = "convert"
	ruleValid     = "valid"
	ruleKept      = "kept"
	ruleRoundTrip = "round trip"
	ruleEdit      = "edit"
	ruleLost      = "lost"
)

// Names of objects that are compared with a valid one.
const (
	backAgain = "converted back"
	readAgain = "read by the client"
)

type suite struct {
	kind     *conversion.Kind
	versions []*version
	seed     uint64
	mayKeep  map[string][]string // by options
	oneSided map[string][]string // by the declaration
}

func newSuite(kind *conversion.Kind, crd *apiextensionsv1.CustomResourceDefinition, opts []Option) (*suite, error) {
	if err := kind.Validate(); err != nil {
		return nil, err
	}
	s := &suite{kind: kind, seed: 1, mayKeep: map[string][]string{}, oneSided: map[string][]string{}}
	for _, o := range opts {
		o(s)
	}
	if crd.Spec.Group != kind.GroupKind.Group || crd.Spec.Names.Kind != kind.GroupKind.Kind {
		return nil, fmt.Errorf("the CustomResourceDefinition %s is not of %s", crd.Name, kind.GroupKind)
	}
	declared := map[string]*conversion.Version{kind.Hub: {}}
	for i := range kind.Versions {
		declared[kind.Versions[i].Name] = &kind.Versions[i]
	}
	var errs []error
	for i := range crd.Spec.Versions {
		v, err := newVersion(&crd.Spec.Versions[i])
		if err != nil {
			errs = append(errs, fmt.Errorf("version %s of %s: %w", crd.Spec.Versions[i].Name, crd.Name, err))
			continue
		}
		s.versions = append(s.versions, v)
		if declared[v.name] == nil {
			errs = append(errs, fmt.Errorf("version %s of %s is in no field Versions", v.name, crd.Name))
			continue
		}
		errs = append(errs, v.checkListKeys(declared[v.name].ListKeys))
		if goType := declared[v.name].Type; goType != nil {
			v.goType = reflect.TypeOf(goType).Elem()
		}
		delete(declared, v.name)
		s.oneSided[v.name] = kind.OneSided(v.name)
	}
	for name := range declared {
		errs = append(errs, fmt.Errorf("the CustomResourceDefinition %s has no version %s", crd.Name, name))
	}
	return s, errors.Join(errs...)
}

// testCase is one object, and the change of a client of another version.
type testCase struct {
	index    int
	from, to *version
	object   map[string]any
	// other is an object of version to. The change is to what it has at one place.
	other map[string]any
	// place selects the place.
	place uint64
}

type failure struct {
	testCase

	rule, message string
	steps         []namedObject
}

type namedObject struct {
	name   string
	object map[string]any
}

// maxInvalid is the number of generated objects after which a run ends if none of them is valid.
const maxInvalid = 1000

type result struct {
	checked, edited, invalid int
	reason                   string
	failure                  *failure
}

// run checks n objects with as many goroutines as there are processors.
func (s *suite) run(ctx context.Context, n int) result {
	var (
		next    atomic.Int64
		stopped atomic.Bool
		mu      sync.Mutex
		total   result
		all     sync.WaitGroup
	)
	defer debug.SetGCPercent(debug.SetGCPercent(400)) // objects are small, and live shortly
	for range runtime.GOMAXPROCS(0) {
		all.Go(func() {
			for !stopped.Load() {
				i := int(next.Add(1)) - 1
				if i >= n {
					return
				}
				c := s.generate(rand.NewPCG(s.seed, uint64(i))) //nolint:gosec // an index is not negative, and nothing is secret
				c.index = i
				f := s.check(ctx, c)
				mu.Lock()
				total.add(f)
				stop := f.isViolation() || total.checked == 0 && total.invalid == maxInvalid
				mu.Unlock()
				stopped.CompareAndSwap(false, stop)
			}
		})
	}
	all.Wait()
	return total
}

// add counts a case. A failure without a rule is a success without an edit.
func (r *result) add(f *failure) {
	switch {
	case f == nil:
		r.checked++
		r.edited++
	case f.rule == "":
		r.checked++
	case f.rule == ruleInvalid:
		r.invalid++
		r.reason = f.message
	case r.failure == nil || f.index < r.failure.index:
		r.failure = f
	}
}

// isViolation reports whether a rule is broken, and not the object invalid, or the edit missing.
func (f *failure) isViolation() bool { return f != nil && f.rule != ruleInvalid && f.rule != "" }

// generate returns a case. Its versions differ.
func (s *suite) generate(source rand.Source) testCase {
	g := generator{rand.New(source)} //nolint:gosec // nothing is secret
	i := g.IntN(len(s.versions))
	j := (i + 1 + g.IntN(len(s.versions)-1)) % len(s.versions)
	c := testCase{from: s.versions[i], to: s.versions[j]}
	c.object = g.object(c.from, s.apiVersion(c.from), s.kind.GroupKind.Kind)
	c.other = g.object(c.to, s.apiVersion(c.to), s.kind.GroupKind.Kind)
	c.place = g.Uint64()
	return c
}

func (s *suite) apiVersion(v *version) string {
	return s.kind.GroupKind.WithVersion(v.name).GroupVersion().String()
}

// check returns the first broken rule, or nil. Its rule is "" if all rules hold and there was no edit.
func (s *suite) check(ctx context.Context, c testCase) *failure {
	f := &failure{testCase: c}
	if err := c.from.validate(ctx, c.object); err != nil {
		return f.with(ruleInvalid, err.Error())
	}
	converted, broken := s.convert(ctx, f, c.object, c.to, "in "+c.to.name)
	if broken != nil {
		return broken
	}
	if extra := s.undeclared(converted); extra != "" {
		return f.with(ruleKept, extra)
	}
	back, broken := s.convert(ctx, f, converted, c.from, backAgain)
	if broken != nil {
		return broken
	}
	if d := difference(c.object, back); d != "" {
		return f.with(ruleRoundTrip, "after the conversion to "+c.to.name+" and back: "+d)
	}
	f.steps = f.steps[:1]
	return s.checkEdit(ctx, f, converted)
}

func (f *failure) with(rule, message string) *failure {
	f.rule = rule
	f.message = message
	return f
}

// convert converts a valid object and validates the result.
func (s *suite) convert(
	ctx context.Context, f *failure, object map[string]any, to *version, name string,
) (map[string]any, *failure) {
	sample := f.place%8 == 0 // to compare each one would take long
	var before map[string]any
	if sample {
		before = copyOf(object)
	}
	u, err := s.kind.Convert(&unstructured.Unstructured{Object: object}, to.name)
	if err != nil {
		return nil, f.with(ruleConvert, err.Error())
	}
	if sample && !reflect.DeepEqual(before, object) {
		return nil, f.with(ruleConvert, "the conversion modifies its argument")
	}
	f.steps = append(f.steps, namedObject{name, u.Object})
	if name == backAgain || name == readAgain {
		return u.Object, nil // the object must be equal to a valid one
	}
	if err := to.validate(ctx, u.Object); err != nil {
		return nil, f.with(ruleValid, fmt.Sprintf("converted to %s: %v", to.name, err))
	}
	return u.Object, nil
}

// checkEdit lets a client change the converted object.
func (s *suite) checkEdit(ctx context.Context, f *failure, converted map[string]any) *failure {
	edited := copyOf(converted)
	g := generator{rand.New(rand.NewPCG(f.place, 1))} //nolint:gosec // nothing is secret
	change := g.edit(edited, f.other)
	if change == unchanged || f.to.validate(ctx, edited) != nil {
		return f.with("", "no edit")
	}
	f.steps = append(f.steps, namedObject{"changed by a client", edited})
	stored, broken := s.convert(ctx, f, edited, f.from, "stored in "+f.from.name)
	if broken != nil {
		return broken
	}
	read, broken := s.convert(ctx, f, stored, f.to, readAgain)
	if broken != nil {
		return broken
	}
	if d := difference(withoutRecord(edited), withoutRecord(read)); d != "" {
		return f.with(ruleEdit, "the client reads back something else: "+d)
	}
	if change == changedObject {
		return nil // what was kept of its fields is gone with it
	}
	shownBefore, broken := s.convertBare(f, converted)
	if broken != nil {
		return broken
	}
	shownAfter, broken := s.convertBare(f, edited)
	if broken != nil {
		return broken
	}
	if path := s.lost(f, f.object, stored, shownBefore, shownAfter, ""); path != "" {
		return f.with(ruleLost, fmt.Sprintf("%s of %s is lost, and the change does not affect it", path, f.from.name))
	}
	return nil
}

// withoutRecord returns an object without the annotation of the conversion, whose stale parts a conversion drops.
func withoutRecord(object map[string]any) map[string]any {
	object = copyOf(object)
	u := unstructured.Unstructured{Object: object}
	annotations := u.GetAnnotations()
	if delete(annotations, conversion.Annotation); len(annotations) == 0 {
		annotations = nil
	}
	u.SetAnnotations(annotations)
	return object
}

// convertBare converts an object without annotations.
func (s *suite) convertBare(f *failure, object map[string]any) (map[string]any, *failure) {
	bare := copyOf(object)
	unstructured.RemoveNestedField(bare, "metadata", "annotations")
	u, err := s.kind.Convert(&unstructured.Unstructured{Object: bare}, f.from.name)
	if err != nil {
		return nil, f.with(ruleConvert, err.Error())
	}
	return u.Object, nil
}

// lost returns the path of a value that is not in the stored object, although the change makes no difference there.
// Values of several fields that a function computes from one field depend on each other, so the fields of MayKeep are
// left out.
func (s *suite) lost(f *failure, object, stored, before, after map[string]any, path string) string {
	for _, name := range sortedKeys(object) {
		if path == "" && inHeader(name) {
			continue
		}
		b, hadBefore := before[name]
		a, hasAfter := after[name]
		if hadBefore != hasAfter {
			continue
		}
		v, isMap := object[name].(map[string]any)
		bm, ok1 := b.(map[string]any)
		am, ok2 := a.(map[string]any)
		if isMap && ok1 && ok2 {
			sm, _ := stored[name].(map[string]any)
			if p := s.lost(f, v, sm, bm, am, path+"."+name); p != "" {
				return p
			}
			continue
		}
		full := strings.TrimPrefix(path+"."+name, ".")
		if reflect.DeepEqual(a, b) && !reflect.DeepEqual(stored[name], object[name]) &&
			!covered(s.mayKeep[f.from.name], strings.Split(full, ".")) {
			return full
		}
	}
	return ""
}

// undeclared returns a message if the annotation keeps a field that the declaration does not permit.
func (s *suite) undeclared(object map[string]any) string {
	u := unstructured.Unstructured{Object: object}
	var kept map[string]map[string]struct {
		Value json.RawMessage `json:"value"`
		Shown string          `json:"shown"`
	}
	if err := json.Unmarshal([]byte(u.GetAnnotations()[conversion.Annotation]), &kept); err != nil {
		return "" // there is no annotation
	}
	for version, paths := range kept {
		for pointer, e := range paths {
			path := strings.Split(strings.TrimPrefix(pointer, "/"), "/")
			empty := string(e.Value) == "{}" || string(e.Value) == "null" // there are several ways to say nothing
			if empty || covered(s.mayKeep[version], path) || covered(s.oneSided[version], path) {
				continue
			}
			return fmt.Sprintf("the annotation keeps %s of %s, %s, although the declaration does not permit it: a lens is missing, "+
				"or its functions are not the inverse of each other (if that is intended: conversiontest.MayKeep)",
				strings.Join(path, "."), version, e.Value)
		}
	}
	return ""
}

func covered(patterns, path []string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool { return covers(p, path) })
}

// covers reports whether one of two paths is inside of the other.
func covers(pattern string, path []string) bool {
	if pattern == "" {
		return true
	}
	a := strings.Split(strings.ReplaceAll(pattern, "[]", ".[]"), ".")
	for i := range min(len(a), len(path)) {
		if a[i] != path[i] && a[i] != "[]" {
			return false
		}
	}
	return true
}

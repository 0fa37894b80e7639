package scenario

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/homeostat-dev/homeostat/testkit/internal/runname"
)

// Read reads a scenario and the files that it names. Steps may use the kinds of the given CustomResourceDefinitions,
// because these will be installed as well. The error holds an [*Error] for each mistake.
func Read(file string, crds ...*unstructured.Unstructured) (*Scenario, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("reading the scenario: %w", err)
	}
	r := &reader{
		dir: filepath.Dir(file), kinds: kinds{},
		scenario: &Scenario{File: file, origin: map[*unstructured.Unstructured]located{}},
	}
	for _, crd := range crds {
		r.kinds.define(crd)
	}
	if r.document, err = parseDocument(file, data); err != nil {
		return nil, err
	}
	r.read()
	if len(r.errs) > 0 {
		return nil, errors.Join(r.errs...)
	}
	return r.scenario, nil
}

// reader collects the contents of a scenario and its mistakes.
type reader struct {
	*document

	dir       string
	scenario  *Scenario
	kinds     kinds
	namespace *yaml.Node // the first one that an object names
	anywhere  bool       // objects may be in several namespaces
	errs      []error
}

func (r *reader) fail(node *yaml.Node, format string, args ...any) {
	r.errs = append(r.errs, r.errorf(node, format, args...))
}

func (r *reader) read() {
	if len(r.roots) == 0 {
		r.fail(&yaml.Node{Line: 1}, "the scenario is empty: add steps, each with a name and one of apply, patch and delete")
		return
	}
	if len(r.roots) > 1 {
		r.fail(r.roots[1], "the scenario has a second document: remove the --- in front of it")
		return
	}
	root := r.roots[0]
	fields, ok := r.mapping(root, "the scenario", "namespaces", "crds", "setup", "steps", "never")
	if !ok {
		return
	}
	r.scenario.Namespaces = r.furtherNamespaces(fields["namespaces"])
	r.checkPlaceholders(r.document, root)
	r.scenario.CRDs = r.definitions(fields["crds"])
	r.scenario.Setup = r.namespaced(fields["setup"], "setup", "")
	if fields["steps"] == nil {
		r.fail(root, "the scenario has no steps: add at least one under steps")
		return
	}
	r.steps(fields["steps"])
	r.scenario.Never = r.never(fields["never"])
}

// mapping returns the fields of a mapping. The argument what is its name in a sentence.
func (r *reader) mapping(node *yaml.Node, what string, allowed ...string) (map[string]*yaml.Node, bool) {
	target := deref(node)
	if target.Kind != yaml.MappingNode {
		r.fail(node, "%s is %s, and has to be a mapping: its fields are %s", what, describe(node), enumerate(allowed))
		return nil, false
	}
	fields := map[string]*yaml.Node{}
	ok := true
	for i := 0; i < len(target.Content); i += 2 {
		key, value := target.Content[i], target.Content[i+1]
		if !slices.Contains(allowed, key.Value) {
			r.fail(key, "unknown field %q in %s: its fields are %s", key.Value, what, enumerate(allowed))
			ok = false
			continue
		}
		fields[key.Value] = value
	}
	return fields, ok
}

// text returns a field's text, or "" after recording a mistake.
func (r *reader) text(node *yaml.Node, field string) string {
	if target := deref(node); target.Kind == yaml.ScalarNode && target.ShortTag() == stringTag && target.Value != "" {
		return target.Value
	}
	fix := "write one"
	if kind := describe(node); kind == "a number" || kind == "true or false" {
		fix = "put it in quotes"
	}
	r.fail(node, "%s is %s, and has to be a text: %s", field, describe(node), fix)
	return ""
}

// enumerate formats a list, for example "a, b and c".
func enumerate(words []string) string {
	last := len(words) - 1
	if last < 1 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:last], ", ") + " and " + words[last]
}

// definitions reads CustomResourceDefinitions.
func (r *reader) definitions(node *yaml.Node) []*unstructured.Unstructured {
	return r.define(r.objects(node, "crds"), "move it from crds to setup")
}

// define returns the CustomResourceDefinitions. The fix is part of the error for other objects.
func (r *reader) define(all []located, fix string) []*unstructured.Unstructured {
	var objects []*unstructured.Unstructured
	for _, o := range all {
		switch {
		case o.content.GetKind() != crdKind:
			r.errs = append(r.errs, o.doc.errorf(o.node,
				"%s %s is no CustomResourceDefinition: %s", o.content.GetKind(), o.content.GetName(), fix))
		case !r.kinds.define(o.content):
			r.errs = append(r.errs, o.doc.errorf(o.node,
				"the CustomResourceDefinition %s lacks spec.group, spec.names.kind or a version: complete it", o.content.GetName()))
		default:
			objects = append(objects, o.content)
		}
	}
	return objects
}

// namespaced reads objects that are created in this namespace of the run, unless they name another one.
func (r *reader) namespaced(node *yaml.Node, field, namespace string) []*unstructured.Unstructured {
	var objects []*unstructured.Unstructured
	for _, o := range r.objects(node, field) {
		if o.content.GetKind() == crdKind {
			r.errs = append(r.errs, o.doc.errorf(o.node,
				"the CustomResourceDefinition %s is installed too late here: move it to crds", o.content.GetName()))
			continue
		}
		r.kinds.add(o.content.GroupVersionKind())
		r.inNamespace(o.content, namespace)
		r.scenario.origin[o.content] = o
		objects = append(objects, o.content)
	}
	return objects
}

// A located object has the position at which it was read.
type located struct {
	content *unstructured.Unstructured
	doc     *document
	node    *yaml.Node
}

// objects reads the name of a file or folder, an object, or a list of these. An absent field has no objects.
func (r *reader) objects(node *yaml.Node, field string) []located {
	if node == nil {
		return nil
	}
	switch target := deref(node); {
	case target.Kind == yaml.SequenceNode && len(target.Content) > 0:
		var all []located
		for _, child := range target.Content {
			if deref(child).Kind == yaml.SequenceNode {
				r.fail(child, "a list in a list names no object: write a file name or an object")
				continue
			}
			all = append(all, r.objects(child, field)...)
		}
		return all
	case target.Kind == yaml.MappingNode:
		if o, ok := r.object(r.document, target); ok {
			return []located{o}
		}
	case target.Kind == yaml.ScalarNode && target.ShortTag() == stringTag && target.Value != "":
		return r.files(node, target.Value)
	default:
		r.fail(node, "%s is %s, and has to be a file name, an object or a list of these: write one, or remove the field",
			field, describe(node))
	}
	return nil
}

// files reads the objects of a file or a folder.
func (r *reader) files(node *yaml.Node, name string) []located {
	path := name
	if !filepath.IsAbs(path) {
		path = filepath.Join(r.dir, path)
	}
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		r.fail(node, "there is no file %s: correct the path, which is relative to the scenario's folder", name)
		return nil
	case err != nil:
		r.fail(node, "%s cannot be read (%v): make it readable", name, err)
		return nil
	case info.IsDir():
		return r.folder(node, name, path)
	}
	return r.manifest(node, name, path)
}

func (r *reader) folder(node *yaml.Node, name, path string) []located {
	entries, err := os.ReadDir(path)
	if err != nil {
		r.fail(node, "%s cannot be read (%v): make it readable", name, err)
		return nil
	}
	var all []located
	manifests := 0
	for _, entry := range entries {
		extension := filepath.Ext(entry.Name())
		base := strings.TrimSuffix(entry.Name(), extension)
		if entry.IsDir() || base == "kustomization" || !slices.Contains([]string{".yaml", ".yml", ".json"}, extension) {
			continue
		}
		manifests++
		all = append(all, r.manifest(node, filepath.Join(name, entry.Name()), filepath.Join(path, entry.Name()))...)
	}
	if manifests == 0 {
		r.fail(node, "the folder %s has no .yaml, .yml or .json file: name another one", name)
	}
	return all
}

func (r *reader) manifest(node *yaml.Node, name, path string) []located {
	data, err := os.ReadFile(path)
	if err != nil {
		r.fail(node, "%s cannot be read (%v): make it readable", name, err)
		return nil
	}
	doc, err := parseDocument(path, data)
	if err != nil {
		r.errs = append(r.errs, err)
		return nil
	}
	if len(doc.roots) == 0 {
		r.fail(node, "%s holds no object: write one there, or name another file", name)
		return nil
	}
	var all []located
	for _, root := range doc.roots {
		r.checkPlaceholders(doc, root)
		if o, ok := r.object(doc, root); ok {
			all = append(all, o)
		}
	}
	return all
}

// object checks the fields that every object has.
func (r *reader) object(doc *document, node *yaml.Node) (located, bool) {
	fail := func(at *yaml.Node, format string, args ...any) (located, bool) {
		r.errs = append(r.errs, doc.errorf(at, format, args...))
		return located{}, false
	}
	if node.Kind != yaml.MappingNode {
		return fail(node, "this is %s, and has to be an object: give it apiVersion, kind and metadata", describe(node))
	}
	value, err := doc.value(node)
	if err != nil {
		r.errs = append(r.errs, err)
		return located{}, false
	}
	content, ok := value.(map[string]any)
	if !ok {
		return fail(node, "this is no object: give it apiVersion, kind and metadata")
	}
	u := &unstructured.Unstructured{Object: content}
	switch {
	case u.GetKind() == "":
		return fail(node, "the object has no kind: add one, for example kind: ConfigMap")
	case u.GetAPIVersion() == "":
		return fail(node, "the %s has no apiVersion: add one, for example apiVersion: v1", u.GetKind())
	case u.GetName() == "":
		return fail(node, "the %s has no name: add metadata.name, the same in each run", u.GetKind())
	}
	if ns := find(node, "metadata", "namespace"); ns != nil && !r.anywhere && !r.isOwn(ns.Value) {
		if r.namespace == nil {
			r.namespace = ns
		} else if r.namespace.Value != ns.Value {
			return fail(ns, "the %s is in namespace %s, and another object is in %s: "+
				"write namespaces: [%[2]s] into the scenario, or give all objects the same or none",
				u.GetKind(), ns.Value, r.namespace.Value)
		}
	}
	return located{content: u, doc: doc, node: node}, true
}

// isOwn reports whether an object names a namespace that the run has.
func (r *reader) isOwn(namespace string) bool {
	return slices.Contains(r.scenario.Namespaces, namespace) || runname.Expand(namespace, "") != namespace
}

// find follows keys through mappings. It returns nil if one is absent.
func find(node *yaml.Node, keys ...string) *yaml.Node {
	for _, key := range keys {
		target := deref(node)
		node = nil
		for i := 0; target.Kind == yaml.MappingNode && i < len(target.Content); i += 2 {
			if target.Content[i].Value == key {
				node = target.Content[i+1]
			}
		}
		if node == nil {
			return nil
		}
	}
	return deref(node)
}

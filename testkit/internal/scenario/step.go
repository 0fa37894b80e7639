package scenario

import (
	"fmt"
	"strings"

	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/homeostat-dev/homeostat/testkit/internal/runname"
)

const actions = "apply, patch and delete"

func (r *reader) steps(node *yaml.Node) {
	list := deref(node)
	if list.Kind != yaml.SequenceNode {
		r.fail(node, "steps is %s, and has to be a list: put a - in front of each step", describe(node))
		return
	}
	if len(list.Content) == 0 {
		r.fail(node, "the scenario has no steps: add at least one under steps")
		return
	}
	// An open step is read after all objects, because these declare the API versions of kinds that earlier steps may use.
	type openStep struct {
		node   *yaml.Node
		fields map[string]*yaml.Node
		step   Step
	}
	steps := make([]openStep, 0, len(list.Content))
	lines := map[string]int{}
	for i, child := range list.Content {
		what := fmt.Sprintf("steps[%d]", i)
		fields, ok := r.mapping(child, what, "name", "namespace", "apply", "patch", "delete", "wait")
		if !ok {
			continue
		}
		step := Step{Position: Position{r.file, child.Line}, Name: r.stepName(child, what, fields["name"], lines)}
		step.Namespace = r.furtherNamespace(fields["namespace"])
		step.Apply = r.namespaced(fields["apply"], "apply", step.Namespace)
		steps = append(steps, openStep{child, fields, step})
	}
	for _, s := range steps {
		r.action(s.node, s.fields, &s.step)
		wait, subject := s.fields["wait"], s.step.subject()
		if wait != nil && (subject != nil || s.step.Apply != nil) { // otherwise the missing subject has to be corrected first
			s.step.Waits = r.waits(wait, subject, s.step.Namespace)
		}
		r.scenario.Steps = append(r.scenario.Steps, s.step)
	}
}

func (r *reader) stepName(step *yaml.Node, what string, node *yaml.Node, lines map[string]int) string {
	if node == nil {
		r.fail(step, "%s has no name: add one, for example name: create", what)
		return ""
	}
	name := r.text(node, "the name of "+what)
	switch {
	case name == "":
	case strings.ContainsAny(name, "\r\n"):
		r.fail(node, "the name of %s has several lines: make it one", what)
	case lines[name] != 0:
		r.fail(node, "two steps are called %s, the first in line %d: rename one of the two", name, lines[name])
	default:
		lines[name] = node.Line
	}
	return name
}

// action reads the single action of a step.
func (r *reader) action(node *yaml.Node, fields map[string]*yaml.Node, step *Step) {
	var there []string
	for _, action := range []string{"apply", "patch", "delete"} {
		if fields[action] != nil {
			there = append(there, action)
		}
	}
	switch {
	case len(there) == 0 && fields["wait"] != nil:
		r.fail(node, "step %s only waits: add one of %s, or move wait to the step before", step.Name, actions)
	case len(there) == 0:
		r.fail(node, "step %s does nothing: add one of %s", step.Name, actions)
	case len(there) > 1:
		r.fail(node, "step %s has %s: make a step of each", step.Name, enumerate(there))
	case there[0] == "patch":
		step.Patch = r.patch(fields["patch"], step.Namespace)
	case there[0] == "delete":
		if fields, ok := r.mapping(fields["delete"], "delete", "apiVersion", "kind", "namespace", "name"); ok {
			target := r.target(node, "delete", fields, step.Namespace)
			step.Delete = &target
		}
	}
}

// subject returns the one object that the step is about, or nil.
func (s *Step) subject() *Target {
	switch {
	case len(s.Apply) == 1:
		return &Target{
			Kind: s.Apply[0].GroupVersionKind(), Namespace: strings.Join(runname.Mentioned(s.Apply[0].GetNamespace()), ""),
			Name: s.Apply[0].GetName(),
		}
	case s.Patch != nil:
		return &s.Patch.Target
	default:
		return s.Delete
	}
}

func (r *reader) patch(node *yaml.Node, namespace string) *Patch {
	fields, ok := r.mapping(node, "patch", "apiVersion", "kind", "namespace", "name", "merge", "subresource")
	if !ok {
		return nil
	}
	p := &Patch{Target: r.target(node, "patch", fields, namespace)}
	if sub := fields["subresource"]; sub != nil {
		if p.Subresource = r.text(sub, "subresource"); p.Subresource != "" && p.Subresource != "status" {
			r.fail(sub, "subresource is %s, and can only be status: correct it, or leave it out", p.Subresource)
		}
	}
	merge := fields["merge"]
	if merge == nil {
		r.fail(node, "patch has no merge: add what is to change, for example merge: {spec: {replicas: 3}}")
		return p
	}
	if target := deref(merge); target.Kind != yaml.MappingNode || len(target.Content) == 0 {
		r.fail(merge, "merge is %s, and has to say what is to change: write for example merge: {spec: {replicas: 3}}",
			strings.Replace(describe(merge), "a mapping", "empty", 1))
		return p
	}
	value, err := r.value(merge)
	if err != nil {
		r.errs = append(r.errs, err)
		return p
	}
	p.Merge, _ = value.(map[string]any)
	return p
}

// target reads the reference to an object, which is in the given namespace unless it names another one. The argument where
// names the field in errors.
func (r *reader) target(node *yaml.Node, where string, fields map[string]*yaml.Node, namespace string) Target {
	for _, field := range []string{"kind", "name"} {
		if fields[field] == nil {
			r.fail(node, "%s has no %s: add it, so that one object is meant", where, field)
		}
	}
	name := ""
	if fields["name"] != nil {
		name = r.text(fields["name"], "name")
	}
	t := r.kindIn(fields, namespace)
	t.Name = name
	return t
}

// kindOnly reads the reference to the objects of a kind.
func (r *reader) kindOnly(node *yaml.Node, where string, fields map[string]*yaml.Node, namespace string) Target {
	if fields["kind"] == nil {
		r.fail(node, "%s has no kind: add it, so that it is known what to count", where)
	}
	return r.kindIn(fields, namespace)
}

// kindIn reads a kind and a namespace.
func (r *reader) kindIn(fields map[string]*yaml.Node, namespace string) Target {
	t := Target{Namespace: namespace}
	if fields["namespace"] != nil {
		t.Namespace = r.furtherNamespace(fields["namespace"])
	}
	if fields["kind"] == nil {
		return t
	}
	kind := r.text(fields["kind"], "kind")
	if kind == "" {
		return t
	}
	var err error
	if fields["apiVersion"] == nil {
		if t.Kind, err = r.kinds.resolve(kind); err != nil {
			r.fail(fields["kind"], "%v", err)
		}
		return t
	}
	version := r.text(fields["apiVersion"], "apiVersion")
	gv, err := schema.ParseGroupVersion(version)
	if err != nil {
		r.fail(fields["apiVersion"], "apiVersion %s has more than one slash: write it like apps/v1", version)
	}
	t.Kind = gv.WithKind(kind)
	return t
}

package scenario

import (
	"fmt"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/util/jsonpath"
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
		fields, ok := r.mapping(child, what, "name", "apply", "patch", "delete", "wait")
		if !ok {
			continue
		}
		step := Step{Position: Position{r.file, child.Line}, Name: r.stepName(child, what, fields["name"], lines)}
		step.Apply = r.namespaced(fields["apply"], "apply")
		steps = append(steps, openStep{child, fields, step})
	}
	for _, s := range steps {
		r.action(s.node, s.fields, &s.step)
		wait, subject := s.fields["wait"], s.step.subject()
		if wait != nil && (subject != nil || s.step.Apply != nil) { // otherwise the missing subject has to be corrected first
			s.step.Waits = r.waits(wait, subject)
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
		step.Patch = r.patch(fields["patch"])
	case there[0] == "delete":
		if fields, ok := r.mapping(fields["delete"], "delete", "apiVersion", "kind", "name"); ok {
			target := r.target(node, "delete", fields)
			step.Delete = &target
		}
	}
}

// subject returns the one object that the step is about, or nil.
func (s *Step) subject() *Target {
	switch {
	case len(s.Apply) == 1:
		return &Target{Kind: s.Apply[0].GroupVersionKind(), Name: s.Apply[0].GetName()}
	case s.Patch != nil:
		return &s.Patch.Target
	default:
		return s.Delete
	}
}

func (r *reader) patch(node *yaml.Node) *Patch {
	fields, ok := r.mapping(node, "patch", "apiVersion", "kind", "name", "merge", "subresource")
	if !ok {
		return nil
	}
	p := &Patch{Target: r.target(node, "patch", fields)}
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

// target reads the reference to an object. The argument where names the field in errors.
func (r *reader) target(node *yaml.Node, where string, fields map[string]*yaml.Node) Target {
	var t Target
	for _, field := range []string{"kind", "name"} {
		if fields[field] == nil {
			r.fail(node, "%s has no %s: add it, so that one object is meant", where, field)
		}
	}
	if name := fields["name"]; name != nil {
		t.Name = r.text(name, "name")
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

// waits reads one wait or a list of them.
func (r *reader) waits(node *yaml.Node, subject *Target) []Wait {
	list := []*yaml.Node{node}
	if target := deref(node); target.Kind == yaml.SequenceNode {
		list = target.Content
	}
	waits := make([]Wait, 0, len(list))
	for _, child := range list {
		waits = append(waits, r.wait(child, subject))
	}
	return waits
}

func (r *reader) wait(node *yaml.Node, subject *Target) Wait {
	w := Wait{Position: Position{r.file, node.Line}, Timeout: DefaultTimeout}
	fields, ok := r.mapping(node, "wait",
		"apiVersion", "kind", "name", "condition", "field", "value", "exists", "timeout")
	if !ok {
		return w
	}
	if fields["kind"] == nil && fields["name"] == nil && subject != nil {
		w.Target = *subject
	} else {
		w.Target = r.target(node, "wait", fields)
	}
	if timeout := fields["timeout"]; timeout != nil {
		w.Timeout = r.timeout(timeout)
	}
	r.expectation(node, fields, &w)
	return w
}

func (r *reader) timeout(node *yaml.Node) time.Duration {
	timeout, err := time.ParseDuration(deref(node).Value)
	if err != nil || timeout <= 0 {
		r.fail(node, "timeout is %s, and has to be a positive duration: write it like 30s or 2m", deref(node).Value)
	}
	return timeout
}

// expectation reads the expectation of a wait.
func (r *reader) expectation(node *yaml.Node, fields map[string]*yaml.Node, w *Wait) {
	var there []string
	for _, kind := range []string{"condition", "field", "exists"} {
		if fields[kind] != nil {
			there = append(there, kind)
		}
	}
	if value := fields["value"]; value != nil && fields["field"] == nil {
		r.fail(value, "wait has a value and no field: add the field, for example field: status.phase")
	}
	switch {
	case len(there) == 0:
		r.fail(node, "wait does not say for what: add one of condition, field and exists")
	case len(there) > 1:
		r.fail(node, "wait has %s: write a list with a wait for each", enumerate(there))
	case there[0] == "condition":
		r.condition(fields["condition"], w)
	case there[0] == "field":
		r.path(fields, w)
	case deref(fields["exists"]).ShortTag() != boolTag:
		r.fail(fields["exists"], "exists is %s, and has to be true or false: write one of the two",
			describe(fields["exists"]))
	default:
		w.Exists = new(strings.EqualFold(deref(fields["exists"]).Value, "true"))
	}
}

func (r *reader) condition(node *yaml.Node, w *Wait) {
	text := r.text(node, "condition")
	kind, status, found := strings.Cut(text, "=")
	w.Condition = kind
	w.Status = metav1.ConditionTrue
	if !found {
		return
	}
	w.Status = metav1.ConditionStatus(status)
	switch w.Status {
	case metav1.ConditionTrue, metav1.ConditionFalse, metav1.ConditionUnknown:
	default:
		r.fail(node, "condition %s has the status %q, which no condition can have: write True, False or Unknown",
			kind, status)
	}
}

func (r *reader) path(fields map[string]*yaml.Node, w *Wait) {
	w.Field = r.text(fields["field"], "field")
	if w.Field == "" {
		return
	}
	w.path = jsonpath.New("field").AllowMissingKeys(true)
	expression := strings.TrimPrefix(strings.TrimSuffix(strings.TrimPrefix(w.Field, "{"), "}"), ".")
	if err := w.path.Parse("{." + expression + "}"); err != nil {
		r.fail(fields["field"], "field %s is no path (%v): write it like status.replicas or status.list[0].name",
			w.Field, err)
	}
	if value := fields["value"]; value != nil {
		w.HasValue = true
		var err error
		if w.Value, err = r.value(value); err != nil {
			r.errs = append(r.errs, err)
		}
	}
}

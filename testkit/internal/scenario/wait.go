package scenario

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/jsonpath"
)

// waits reads one wait or a list of them.
func (r *reader) waits(node *yaml.Node, subject *Target, namespace string) []Wait {
	list := []*yaml.Node{node}
	if target := deref(node); target.Kind == yaml.SequenceNode {
		list = target.Content
	}
	waits := make([]Wait, 0, len(list))
	for _, child := range list {
		waits = append(waits, r.wait(child, subject, namespace))
	}
	return waits
}

// expectations are the fields of a wait that say what is expected.
var expectations = []string{"condition", "reason", "field", "value", "exists", "count", "labels"}

// targetFields are the fields that name an object.
var targetFields = []string{"apiVersion", "kind", "namespace", "name"}

func (r *reader) wait(node *yaml.Node, subject *Target, namespace string) Wait {
	w := Wait{Position: Position{r.file, node.Line}, Timeout: DefaultTimeout}
	fields, ok := r.mapping(node, "wait", slices.Concat(targetFields, expectations, []string{"timeout"})...)
	if !ok {
		return w
	}
	switch {
	case fields["count"] != nil:
		w.Target = r.kindOnly(node, "wait", fields, namespace)
	case fields["kind"] == nil && fields["name"] == nil && subject != nil:
		w.Target = *subject
		if fields["namespace"] != nil {
			w.Namespace = r.furtherNamespace(fields["namespace"])
		}
	default:
		w.Target = r.target(node, "wait", fields, namespace)
	}
	if timeout := fields["timeout"]; timeout != nil {
		w.Timeout = r.timeout(timeout)
	}
	r.expectation(node, "wait", fields, &w)
	return w
}

// never reads the states that must never exist.
func (r *reader) never(node *yaml.Node) []Wait {
	if node == nil {
		return nil
	}
	list := deref(node)
	if list.Kind != yaml.SequenceNode {
		r.fail(node, "never is %s, and has to be a list: put a - in front of each state", describe(node))
		return nil
	}
	var all []Wait
	for _, child := range list.Content {
		fields, ok := r.mapping(child, "never", slices.Concat(targetFields, expectations)...)
		if !ok {
			continue
		}
		w := Wait{Position: Position{r.file, child.Line}}
		if fields["count"] != nil {
			w.Target = r.kindOnly(child, "never", fields, "")
		} else {
			w.Target = r.target(child, "never", fields, "")
		}
		r.expectation(child, "never", fields, &w)
		if w.Exists != nil && !*w.Exists && w.Field == "" {
			r.fail(fields["exists"], "never has exists: false, which is so before the first step: write exists: true, or a field")
		}
		former := slices.IndexFunc(all, func(other Wait) bool {
			return other.Kind.GroupKind() == w.Kind.GroupKind() && other.Kind.Version != w.Kind.Version
		})
		if former >= 0 {
			r.fail(child, "never has states of %s in %s and in %s, and each run records one version: "+
				"write all of them in the same version", w.Kind.Kind, all[former].Kind.Version, w.Kind.Version)
		}
		all = append(all, w)
	}
	return all
}

func (r *reader) timeout(node *yaml.Node) time.Duration {
	timeout, err := time.ParseDuration(deref(node).Value)
	if err != nil || timeout <= 0 {
		r.fail(node, "timeout is %s, and has to be a positive duration: write it like 30s or 2m", deref(node).Value)
	}
	return timeout
}

// expectation reads what a wait expects. The argument where names the field in errors.
func (r *reader) expectation(node *yaml.Node, where string, fields map[string]*yaml.Node, w *Wait) {
	var there []string
	for _, kind := range []string{"condition", "field", "exists", "count"} {
		if fields[kind] != nil && (kind != "exists" || fields["field"] == nil) {
			there = append(there, kind)
		}
	}
	r.companions(where, fields)
	switch {
	case len(there) == 0:
		r.fail(node, "%s says nothing about the object: add one of condition, field, exists and count", where)
	case len(there) > 1:
		r.fail(node, "%s has %s: write a list with a %s for each", where, enumerate(there), where)
	case there[0] == "condition":
		r.condition(fields, w)
	case there[0] == "field":
		r.path(fields, w)
		r.exists(fields["exists"], w)
	case there[0] == "count":
		r.count(fields, w)
	default:
		r.exists(fields["exists"], w)
	}
}

// companions checks the fields that belong to another one.
func (r *reader) companions(where string, fields map[string]*yaml.Node) {
	for _, pair := range []struct{ field, of, example string }{
		{"value", "field", "field: status.phase"},
		{"reason", "condition", "condition: Ready=False"},
		{"labels", "count", "count: 1"},
	} {
		if node := fields[pair.field]; node != nil && fields[pair.of] == nil {
			r.fail(node, "%s has a %s and no %s: add the %s, for example %s",
				where, strings.TrimSuffix(pair.field, "s"), pair.of, pair.of, pair.example)
		}
	}
	switch {
	case fields["value"] != nil && fields["exists"] != nil:
		r.fail(fields["exists"], "%s has value and exists: remove one of the two", where)
	case fields["count"] != nil && fields["name"] != nil:
		r.fail(fields["name"], "%s has a count and a name: remove the name, or write exists instead of count", where)
	}
}

func (r *reader) exists(node *yaml.Node, w *Wait) {
	switch {
	case node == nil:
	case deref(node).ShortTag() != boolTag:
		r.fail(node, "exists is %s, and has to be true or false: write one of the two", describe(node))
	default:
		w.Exists = new(strings.EqualFold(deref(node).Value, "true"))
	}
}

func (r *reader) count(fields map[string]*yaml.Node, w *Wait) {
	n, err := strconv.Atoi(deref(fields["count"]).Value)
	if err != nil || n < 0 {
		r.fail(fields["count"], "count is %s, and has to be a number of objects: write it like 3", deref(fields["count"]).Value)
	}
	w.Count = &n
	if fields["labels"] == nil {
		return
	}
	target := deref(fields["labels"])
	if target.Kind != yaml.MappingNode {
		r.fail(fields["labels"], "labels is %s, and has to be a mapping: write it like labels: {app: web}", describe(target))
		return
	}
	w.Labels = map[string]string{}
	for i := 0; i+1 < len(target.Content); i += 2 {
		w.Labels[target.Content[i].Value] = r.text(target.Content[i+1], "label "+target.Content[i].Value)
	}
}

func (r *reader) condition(fields map[string]*yaml.Node, w *Wait) {
	node := fields["condition"]
	if fields["reason"] != nil {
		w.Reason = r.text(fields["reason"], "reason")
	}
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

package scenario

import (
	"context"
	"fmt"
	"regexp"
	"slices"

	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/homeostat-dev/homeostat/testkit/internal/gc"
	"github.com/homeostat-dev/homeostat/testkit/internal/manifest"
	"github.com/homeostat-dev/homeostat/testkit/internal/runname"
)

// label matches the names that a namespace can have.
var label = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`)

// furtherNamespaces reads the names of the further namespaces of a run.
func (r *reader) furtherNamespaces(node *yaml.Node) []string {
	if node == nil {
		return nil
	}
	list := deref(node)
	if list.Kind != yaml.SequenceNode {
		r.fail(node, "namespaces is %s, and has to be a list: write for example namespaces: [team-a]", describe(node))
		return nil
	}
	var names []string
	for i, child := range list.Content {
		name := r.text(child, fmt.Sprintf("namespaces[%d]", i))
		switch {
		case name == "":
		case !label.MatchString(name) || len(name) > runname.MaxFurther:
			r.fail(child, "namespace %s: its name begins with that of the run: "+
				"write at most %d lower-case letters, digits and hyphens", name, runname.MaxFurther)
		case slices.Contains(names, name):
			r.fail(child, "namespace %s is there twice: remove one of the two", name)
		default:
			names = append(names, name)
		}
	}
	return names
}

// checkPlaceholders finds further namespaces that the scenario does not have.
func (r *reader) checkPlaceholders(doc *document, node *yaml.Node) {
	if r.anywhere {
		return
	}
	node = deref(node)
	for _, name := range runname.Mentioned(node.Value) {
		if !slices.Contains(r.scenario.Namespaces, name) {
			r.errs = append(r.errs, doc.errorf(node,
				"the scenario has no namespace %s: write namespaces: [%s] into it, or correct {namespace:%s}", name, name, name))
		}
	}
	for _, child := range node.Content {
		r.checkPlaceholders(doc, child)
	}
}

// furtherNamespace reads the field of a step or a target that names a further namespace.
func (r *reader) furtherNamespace(node *yaml.Node) string {
	if node == nil {
		return ""
	}
	name := r.text(node, "namespace")
	if name != "" && !slices.Contains(r.scenario.Namespaces, name) {
		r.fail(node, "the scenario has no namespace %s: write namespaces: [%s] into it, or correct the name", name, name)
		return ""
	}
	return name
}

// inNamespace sets the namespace of an object to a placeholder: the one that it names if the run has it, or else the given
// one. "" stands for the first namespace.
func (r *reader) inNamespace(u *unstructured.Unstructured, otherwise string) {
	switch named := u.GetNamespace(); {
	case slices.Contains(r.scenario.Namespaces, named):
		u.SetNamespace(further(named))
	case runname.Expand(named, "") != named:
	default:
		u.SetNamespace(further(otherwise))
	}
}

// further returns the placeholder of a further namespace, and "" for the first one.
func further(name string) string {
	if name == "" {
		return ""
	}
	return "{namespace:" + name + "}"
}

// createNamespaces creates the further namespaces of a run.
func (s *Scenario) createNamespaces(ctx context.Context, c client.Client, namespace string) error {
	for _, name := range s.Namespaces {
		u := &unstructured.Unstructured{}
		u.SetAPIVersion("v1")
		u.SetKind("Namespace")
		u.SetName(runname.Further(namespace, name))
		if err := manifest.Apply(ctx, c, u); err != nil {
			return err
		}
	}
	return nil
}

// Remove deletes an object outside of the first namespace of a run, and its finalizers: the operator has ended. The content
// of a Namespace is left to the garbage collector.
func Remove(ctx context.Context, c client.Client, u *unstructured.Unstructured) error {
	patch := `{"metadata":{"finalizers":null}}`
	if u.GetKind() == "Namespace" {
		patch = fmt.Sprintf(`{"metadata":{"annotations":{%q:"true"}}}`, gc.AbandonAnnotation)
	}
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(u.GroupVersionKind())
	object.SetName(u.GetName())
	err := c.Patch(ctx, object, client.RawPatch(types.MergePatchType, []byte(patch)))
	if err == nil {
		err = c.Delete(ctx, object)
	}
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting %s %s: %w", u.GetKind(), u.GetName(), err)
	}
	return nil
}

// localize replaces the placeholders of an object, and sets its namespace if its kind is namespaced.
func localize(c client.Client, u *unstructured.Unstructured, namespace string) error {
	u.Object, _ = expand(u.Object, namespace).(map[string]any)
	namespaced, err := c.IsObjectNamespaced(u)
	switch {
	case meta.IsNoMatchError(err):
		return fmt.Errorf("%w: add its CustomResourceDefinition to the scenario's crds", err)
	case err != nil:
		return fmt.Errorf("finding out whether it is cluster-wide: %w", err)
	case !namespaced:
		u.SetNamespace("")
	case u.GetNamespace() == "":
		u.SetNamespace(namespace)
	}
	return nil
}

// expand returns a copy of a decoded JSON value with the placeholders replaced.
func expand(value any, namespace string) any {
	switch v := value.(type) {
	case string:
		return runname.Expand(v, namespace)
	case []any:
		all := make([]any, 0, len(v))
		for _, item := range v {
			all = append(all, expand(item, namespace))
		}
		return all
	case map[string]any:
		all := make(map[string]any, len(v))
		for key, item := range v {
			all[runname.Expand(key, namespace)] = expand(item, namespace)
		}
		return all
	default:
		return value
	}
}

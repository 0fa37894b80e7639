package function

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/homeostat-dev/homeostat/sdk/apply"
	"github.com/homeostat-dev/homeostat/sdk/internal/desired"
	"github.com/homeostat-dev/homeostat/sdk/internal/object"
	"github.com/homeostat-dev/homeostat/sdk/internal/observed"
	"github.com/homeostat-dev/homeostat/sdk/internal/reference"
)

// newRequest returns the request of a reconcile, without references and an ID.
func (f *caller) newRequest(p *desired.Pass, call string) (*Request, error) {
	req := &Request{
		Protocol: ProtocolVersion, Call: call, Namespaces: p.Namespaces, Now: p.Now.UTC().Format(time.RFC3339Nano), Dry: p.IsDry,
		Children: []map[string]any{}, Observed: []map[string]any{},
	}
	if req.Namespaces == nil {
		req.Namespaces = []string{}
	}
	var err error
	if req.Object, err = fields(p.Object, f.config.Kind.gvk()); err != nil {
		return nil, err
	}
	for id, child := range p.Snapshot.Children {
		o, err := fields(child.Object, id.GVK)
		if err != nil {
			return nil, err
		}
		req.Children = append(req.Children, o)
	}
	for gvk, objects := range p.Snapshot.Observed {
		for _, seen := range objects {
			o, err := fields(seen, gvk)
			if err != nil {
				return nil, err
			}
			req.Observed = append(req.Observed, o)
		}
	}
	slices.SortFunc(req.Children, compareObjects)
	slices.SortFunc(req.Observed, compareObjects)
	return req, nil
}

// fields returns a shallow copy of an object as JSON values, with its kind, and without managedFields and the annotation of
// package apply.
func fields(o client.Object, gvk schema.GroupVersionKind) (map[string]any, error) {
	var content map[string]any
	if u, ok := o.(*unstructured.Unstructured); ok {
		content = maps.Clone(u.Object)
	} else {
		data, err := utiljson.Marshal(o)
		if err == nil {
			err = utiljson.Unmarshal(data, &content)
		}
		if err != nil {
			return nil, fmt.Errorf("encoding %s %s: %w", gvk.Kind, o.GetName(), err)
		}
	}
	content["apiVersion"], content["kind"] = gvk.ToAPIVersionAndKind()
	metadata, _ := content["metadata"].(map[string]any)
	metadata = maps.Clone(metadata)
	delete(metadata, "managedFields")
	if annotations, _ := metadata["annotations"].(map[string]any); annotations[apply.DigestAnnotation] != nil {
		annotations = maps.Clone(annotations)
		delete(annotations, apply.DigestAnnotation)
		metadata["annotations"] = annotations
	}
	content["metadata"] = metadata
	return content, nil
}

// compareObjects orders objects by kind and name.
func compareObjects(a, b map[string]any) int {
	x, y := unstructured.Unstructured{Object: a}, unstructured.Unstructured{Object: b}
	return cmp.Or(
		strings.Compare(x.GetAPIVersion(), y.GetAPIVersion()), strings.Compare(x.GetKind(), y.GetKind()),
		strings.Compare(x.GetNamespace(), y.GetNamespace()), strings.Compare(x.GetName(), y.GetName()))
}

// referenceKey identifies a reference.
type referenceKey struct{ apiVersion, kind, namespace, name, selector string }

func (r Reference) key() referenceKey {
	return referenceKey{r.APIVersion, r.Kind, r.Namespace, r.Name, r.Selector}
}

// read returns the objects that the reference names, for an object in the namespace home.
func (r Reference) read(reader *reference.Reader, kinds *observed.Kinds, home string) ([]map[string]any, error) {
	like := ofKind(schema.FromAPIVersionAndKind(r.APIVersion, r.Kind))
	gvk := like.GroupVersionKind()
	t := reference.Target{ID: object.ID{GVK: gvk, Key: types.NamespacedName{Namespace: r.Namespace, Name: r.Name}}}
	switch {
	case r.Name == "":
		selector, err := labels.Parse(r.Selector)
		if err != nil {
			return nil, bug(ReasonInvalidAnswer, "the selector of the reference to kind %s: %s", gvk.Kind, err)
		}
		t.Labels = selector.String()
	case r.Selector != "":
		return nil, bug(ReasonInvalidAnswer, "the reference to %s has a name and a selector", t)
	default:
		named := like.DeepCopy()
		named.SetNamespace(r.Namespace)
		kinds.DefaultNamespace(named, gvk, home)
		t.Key.Namespace = named.GetNamespace()
		if err := kinds.CheckNamespace(t.ID); err != nil {
			return nil, bug(ReasonInvalidAnswer, "a reference is unusable: %s", err)
		}
	}
	found, err := reader.All(t, like)
	if err != nil {
		return nil, err
	}
	all := make([]map[string]any, 0, len(found))
	for _, o := range found {
		content, err := fields(o, gvk)
		if err != nil {
			return nil, err
		}
		all = append(all, content)
	}
	slices.SortFunc(all, compareObjects)
	return all, nil
}

// encode returns the JSON of a request in one line.
func encode(req *Request) ([]byte, error) { return utiljson.Marshal(req) }

package metacontroller

import (
	"context"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/homeostat-dev/homeostat/sdk/function"
)

// customizeResponse is the response of the customize hook.
type customizeResponse struct {
	RelatedResources []struct {
		Resource      `json:",inline"`
		LabelSelector *metav1.LabelSelector `json:"labelSelector"`
		Namespace     string                `json:"namespace"`
		Names         []string              `json:"names"`
	} `json:"relatedResources"`
}

// customize calls the customize hook, and returns the related objects. They are not complete if the engine has to read them
// first.
func (c *connection) customize(
	ctx context.Context, req *function.Request, answer *function.Answer,
) (related objects, complete bool, err error) {
	related = objects{}
	if c.hooks[customizeHook] == nil {
		return related, true, nil
	}
	var response customizeResponse
	request := map[string]any{"controller": c.Controller.content(), "parent": req.Object}
	if err := c.call(ctx, customizeHook, request, &response); err != nil {
		return nil, false, err
	}
	home := (&unstructured.Unstructured{Object: req.Object}).GetNamespace()
	for _, r := range response.RelatedResources {
		k, err := c.kind(r.Resource)
		var selector string
		if err == nil && r.LabelSelector != nil {
			selector, err = notation(r.LabelSelector)
		}
		if err != nil {
			return nil, false, &function.CallError{
				Reason: function.ReasonInvalidAnswer, Message: "the customize hook: " + err.Error(),
			}
		}
		related[key(k)] = map[string]map[string]any{}
		reference := function.Reference{APIVersion: k.APIVersion, Kind: k.Kind, Namespace: r.Namespace}
		if r.Namespace == "" && c.isNamespaced(k) { // also of a selection
			reference.Namespace = home
		}
		if len(r.Names) == 0 {
			reference.Selector = selector
			answer.References = append(answer.References, reference)
		}
		for _, name := range r.Names {
			reference.Name = name
			answer.References = append(answer.References, reference)
		}
	}
	for _, wanted := range answer.References {
		i := slices.IndexFunc(req.References, func(r function.Reference) bool {
			r.Objects = nil
			return fmt.Sprint(r) == fmt.Sprint(wanted)
		})
		if i < 0 {
			return related, false, nil
		}
		for _, o := range req.References[i].Objects {
			related.add(o, home)
		}
	}
	return related, true, nil
}

// notation returns a selector in the notation of kubectl.
func notation(s *metav1.LabelSelector) (string, error) {
	selector, err := metav1.LabelSelectorAsSelector(s)
	if err != nil {
		return "", err
	}
	return selector.String(), nil
}

package scenario

import (
	"context"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/install"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation"
	"k8s.io/apimachinery/pkg/runtime"
)

// definitionScheme has the versions of CustomResourceDefinition, their defaults and conversions.
var definitionScheme = func() *runtime.Scheme {
	scheme := runtime.NewScheme()
	install.Install(scheme)
	return scheme
}()

// validate returns the errors that the API server would return for the creation of a CustomResourceDefinition, with
// lines.
func validate(o located) error {
	if o.content.GetKind() != crdKind || o.content.GetAPIVersion() != apiextensionsv1.SchemeGroupVersion.String() {
		return nil
	}
	var crd apiextensionsv1.CustomResourceDefinition
	err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(o.content.Object, &crd, true)
	if err != nil {
		return o.doc.errorf(o.node, "the CustomResourceDefinition %s is not valid: %v: correct it", o.content.GetName(), err)
	}
	definitionScheme.Default(&crd)
	var internal apiextensions.CustomResourceDefinition
	if err := definitionScheme.Convert(&crd, &internal, nil); err != nil {
		return o.doc.errorf(o.node, "the CustomResourceDefinition %s is not valid: %v: correct it", crd.Name, err)
	}
	for _, wrong := range validation.ValidateCustomResourceDefinition(context.Background(), &internal) {
		if wrong.Field == "status.storedVersions" {
			continue // the server checks it
		}
		for hoisted, written := range map[string]string{
			"spec.validation": "spec.versions[0].schema", "spec.subresources": "spec.versions[0].subresources",
			"spec.additionalPrinterColumns": "spec.versions[0].additionalPrinterColumns",
		} { // the conversion moves fields that all versions have in common
			if rest, is := strings.CutPrefix(wrong.Field, hoisted); is {
				wrong.Field = written + rest
			}
		}
		return o.doc.errorf(locate(o.node, wrong.Field), "the CustomResourceDefinition %s is not valid: %v: correct it",
			crd.Name, wrong)
	}
	return nil
}

// pathPart matches a part of a field's path: a name, or an index or a key in brackets.
var pathPart = regexp.MustCompile(`[^.\[\]]+|\[[^\]]*\]`)

// locate finds the node of a field by its path in an error, or the innermost existing node around it.
func locate(node *yaml.Node, path string) *yaml.Node {
	node = deref(node)
	for _, p := range pathPart.FindAllString(path, -1) {
		key := strings.Trim(p, "[]")
		child := find(node, key)
		if i, err := strconv.Atoi(key); child == nil && err == nil && node.Kind == yaml.SequenceNode && i < len(node.Content) {
			child = deref(node.Content[i])
		}
		if child == nil {
			return node
		}
		node = child
	}
	return node
}

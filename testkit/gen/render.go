package gen

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/homeostat-dev/homeostat/testkit/internal/schema"
)

// render prints a manifest as YAML in the usual order of fields.
func render(m *unstructured.Unstructured) string {
	data, err := schema.Render(m)
	if err != nil {
		return "# " + err.Error() + "\n"
	}
	return string(data)
}

package explore

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/homeostat-dev/homeostat/testkit/internal/operatorproc"
)

// A program sends its requests unchanged, and those for all namespaces are noted.
func TestAllNamespaces(t *testing.T) {
	t.Parallel()
	pages := schema.GroupVersion{Group: "example.com", Version: "v1"}
	mapper := meta.NewDefaultRESTMapper([]schema.GroupVersion{corev1.SchemeGroupVersion, pages})
	mapper.Add(corev1.SchemeGroupVersion.WithKind("ConfigMap"), meta.RESTScopeNamespace)
	mapper.Add(corev1.SchemeGroupVersion.WithKind("Secret"), meta.RESTScopeNamespace)
	mapper.Add(corev1.SchemeGroupVersion.WithKind("Node"), meta.RESTScopeRoot)
	mapper.Add(pages.WithKind("Page"), meta.RESTScopeNamespace)
	for url, want := range map[string]string{
		"/api/v1/configmaps?limit=5":                   "configmaps",
		"/apis/example.com/v1/pages?watch=1":           "pages.example.com",
		"/api/v1/nodes":                                "",
		"/api/v1/namespaces/other/secrets":             "",
		"/apis/example.com/v1/books":                   "",
		"/apis/example.com/v1":                         "",
		"/api/v1/namespaces/other/configmaps?watch=1":  "",
		"/apis/example.com/v1/namespaces/x/pages/name": "",
	} {
		c := &Command{}
		got := ""
		o := &observer{
			command: c, program: &program{startup: operatorproc.NewStartup()}, mapper: mapper,
			next: roundTrip(func(req *http.Request) (*http.Response, error) {
				got = req.URL.String()
				return &http.Response{StatusCode: http.StatusNotFound, Body: http.NoBody}, nil
			}),
		}
		resp, err := o.RoundTrip(httptest.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody))
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		var all []string
		if want != "" {
			all = []string{want}
		}
		if got != url || !slices.Equal(c.AllNamespaces(), all) {
			t.Errorf("%s is sent as %s, and the resources of all namespaces are %v, want %v", url, got, c.AllNamespaces(), all)
		}
	}
}

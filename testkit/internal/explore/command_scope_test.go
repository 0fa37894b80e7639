package explore

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Requests for all namespaces are narrowed to the run's namespace.
func TestScope(t *testing.T) {
	t.Parallel()
	pages := schema.GroupVersion{Group: "example.com", Version: "v1"}
	mapper := meta.NewDefaultRESTMapper([]schema.GroupVersion{corev1.SchemeGroupVersion, pages})
	mapper.Add(corev1.SchemeGroupVersion.WithKind("ConfigMap"), meta.RESTScopeNamespace)
	mapper.Add(corev1.SchemeGroupVersion.WithKind("Secret"), meta.RESTScopeNamespace)
	mapper.Add(corev1.SchemeGroupVersion.WithKind("Node"), meta.RESTScopeRoot)
	mapper.Add(pages.WithKind("Page"), meta.RESTScopeNamespace)
	c := &Command{Everywhere: func(verb string, resource schema.GroupResource) bool {
		return resource.Resource != "secrets" || verb == "list"
	}}
	for name, test := range map[string]struct {
		reason            string
		method, url, want string
	}{
		"List":  {"start of an informer", "GET", "/api/v1/configmaps?limit=5", "/api/v1/namespaces/run/configmaps?limit=5"},
		"Watch": {"an informer", "GET", "/api/v1/configmaps?watch=1", "/api/v1/namespaces/run/configmaps?watch=1"},
		"One": {
			"an informer of one object", "GET", "/api/v1/configmaps?watch=1&fieldSelector=metadata.name%3Dx",
			"/api/v1/namespaces/run/configmaps?watch=1&fieldSelector=metadata.name%3Dx",
		},
		"Custom":    {"in groups, too", "GET", "/apis/example.com/v1/pages", "/apis/example.com/v1/namespaces/run/pages"},
		"Delete":    {"all of a kind", "DELETE", "/apis/example.com/v1/pages", "/apis/example.com/v1/namespaces/run/pages"},
		"Cluster":   {"nodes are in no namespace", "GET", "/api/v1/nodes", "/api/v1/nodes"},
		"Namespace": {"already narrow", "GET", "/api/v1/namespaces/other/configmaps", "/api/v1/namespaces/other/configmaps"},
		"Unknown":   {"the server reports it", "GET", "/apis/example.com/v1/books", "/apis/example.com/v1/books"},
		"Discovery": {"no resource", "GET", "/apis/example.com/v1", "/apis/example.com/v1"},
		"Allowed":   {"the ClusterRole grants this permission", "GET", "/api/v1/secrets", "/api/v1/namespaces/run/secrets"},
		"Forbidden": {"the ClusterRole lacks this one", "GET", "/api/v1/secrets?watch=1", "/api/v1/secrets?watch=1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got string
			s := &scope{
				command: c, program: &program{firstRequest: make(chan struct{})}, mapper: mapper, namespace: "run",
				next: roundTrip(func(req *http.Request) (*http.Response, error) {
					got = req.URL.String()
					return &http.Response{StatusCode: http.StatusNotFound, Body: http.NoBody}, nil
				}),
			}
			req := httptest.NewRequestWithContext(t.Context(), test.method, test.url, http.NoBody)
			resp, err := s.RoundTrip(req)
			if err != nil {
				t.Fatal(err)
			}
			_ = resp.Body.Close()
			if got != test.want || req.URL.String() != test.url {
				t.Errorf("%s: %s, want %s", test.reason, got, test.want)
			}
		})
	}
	t.Cleanup(func() {
		if got := c.Narrowed(); !slices.Equal(got, []string{"configmaps", "pages.example.com", "secrets"}) {
			t.Errorf("narrowed: %v", got)
		}
	})
}

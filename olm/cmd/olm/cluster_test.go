package main

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/homeostat-dev/homeostat/olm/internal/programs"
)

// A cluster that is not simulated is never written to.
func TestRealClusterIsRefused(t *testing.T) {
	t.Parallel()
	closed := httptest.NewServer(http.NotFoundHandler())
	closed.Close()
	for name, c := range map[string]struct{ reason, host, want string }{
		"Missing": {"no variable names a cluster", "", "there is no KUBECONFIG: make up BARE=1"},
		"Remote":  {"simulated clusters are on this machine", "https://cluster.example.com", "is not on this machine"},
		"Silent":  {"it may be a real cluster", closed.URL, "does not say which nodes it has"},
		"Real":    {"those of kind are here, too", startNodeServer(t, "containerd://2.1.0"), "node node-0 of the cluster at "},
		"OneIsReal": {
			"a real node would run what is installed", startNodeServer(t, "kwok://v1", "containerd://2.1.0"),
			"node node-1 of",
		},
		"NoNodes": {"its kind is unknown", startNodeServer(t), "has no nodes"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := ""
			if c.host != "" {
				var err error
				if file, err = programs.Kubeconfig(t.TempDir(), &rest.Config{Host: c.host}); err != nil {
					t.Fatal(err)
				}
			}
			err := run(t.Context(), []string{"-kubeconfig", file, "-root", repository}, io.Discard)
			if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("%v, want one sentence with %q: %s", err, c.want, c.reason)
			}
		})
	}
	missing := filepath.Join(t.TempDir(), "missing")
	err := run(t.Context(), []string{"-kubeconfig", missing}, io.Discard)
	if err == nil || !strings.Contains(err.Error(), missing) {
		t.Errorf("%v, want the name of the file that is missing", err)
	}
	if err := run(t.Context(), []string{"-v2"}, io.Discard); err == nil || !strings.Contains(err.Error(), usage) {
		t.Errorf("%v, want how to use it", err)
	}
}

// startNodeServer starts an API server that has nodes with these container runtimes, and fails the test on any write.
func startNodeServer(t *testing.T, runtimes ...string) string {
	t.Helper()
	list := corev1.NodeList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "NodeList"}}
	for i, runtime := range runtimes {
		node := corev1.Node{}
		node.Name = "node-" + string(rune('0'+i))
		node.Status.NodeInfo.ContainerRuntimeVersion = runtime
		list.Items = append(list.Items, node)
	}
	answers := map[string]any{
		"/api":  metav1.APIVersions{TypeMeta: metav1.TypeMeta{Kind: "APIVersions"}, Versions: []string{"v1"}},
		"/apis": metav1.APIGroupList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "APIGroupList"}},
		"/api/v1": metav1.APIResourceList{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "APIResourceList"}, GroupVersion: "v1",
			APIResources: []metav1.APIResource{{Name: "nodes", Kind: "Node", Verbs: metav1.Verbs{"list"}}},
		},
		"/api/v1/nodes": list,
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer, ok := answers[r.URL.Path]
		if r.Method != http.MethodGet || !ok {
			t.Errorf("%s %s", r.Method, r.URL.Path)
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		if err := json.NewEncoder(w).Encode(answer); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(server.Close)
	return server.URL
}

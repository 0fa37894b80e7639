package proxy_test

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/homeostat-dev/homeostat/testkit"
	"github.com/homeostat-dev/homeostat/testkit/internal/proxy"
)

// typeLog records the Content-Type of each response.
type typeLog struct {
	mu    sync.Mutex
	types map[string]string // by path
}

func (l *typeLog) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTrip(func(req *http.Request) (*http.Response, error) {
		resp, err := next.RoundTrip(req)
		if err == nil {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.types[req.URL.Path] = resp.Header.Get("Content-Type") + " " + resp.Header.Get("Content-Encoding")
		}
		return resp, err
	})
}

func newConfigMap(name string, size int) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string]string{"k": strings.Repeat("x", size)},
	}
}

// TestRequestsHaveTargetIdentity checks that an operator has the permissions of its ServiceAccount, not those of the
// proxy's owner.
func TestRequestsHaveTargetIdentity(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	p := start(t, proxy.Options{Target: k.ServiceAccount("operator")})
	admin := start(t, proxy.Options{Target: k.Config})
	name := "system:serviceaccount:" + k.Namespace + ":operator"
	impersonating := config(t, admin, "operator")
	impersonating.Impersonate = rest.ImpersonationConfig{UserName: "jane", Groups: []string{"a", "b"}}
	forbidden := config(t, p, "operator")
	forbidden.Impersonate = impersonating.Impersonate
	tests := map[string]struct {
		reason string
		cfg    *rest.Config
		want   string
	}{
		"Account":       {"the token that the client sends is not the API server's", config(t, p, "operator"), name},
		"Impersonation": {"the client chooses those headers", impersonating, "jane a b"},
		"Forbidden":     {"the API server decides", forbidden, ""},
	}
	for test, tt := range tests {
		review, err := kubernetes.NewForConfigOrDie(tt.cfg).AuthenticationV1().SelfSubjectReviews().Create(
			t.Context(), &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
		if tt.want == "" {
			if !apierrors.IsForbidden(err) {
				t.Errorf("%s: %v is not forbidden, but %s", test, err, tt.reason)
			}
			continue
		}
		if err != nil {
			t.Fatalf("%s: %v", test, err)
		}
		groups := slices.DeleteFunc(review.Status.UserInfo.Groups, func(group string) bool {
			return strings.HasPrefix(group, "system:")
		})
		got := strings.Join(append([]string{review.Status.UserInfo.Username}, groups...), " ")
		if got != tt.want {
			t.Errorf("%s: the API server sees %q, want %q, because %s", test, got, tt.want, tt.reason)
		}
	}
	_, err := kubernetes.NewForConfigOrDie(config(t, p, "operator")).CoreV1().Secrets(k.Namespace).List(
		t.Context(), metav1.ListOptions{})
	if !apierrors.IsForbidden(err) {
		t.Errorf("listing what the account may not list: %v", err)
	}
}

// TestProtobufAndCompression checks that clients that prefer other encodings work, and that all traffic is JSON.
func TestProtobufAndCompression(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	log := &typeLog{types: map[string]string{}}
	p := start(t, proxy.Options{Target: k.Config, Wrap: log.wrap})
	cfg := config(t, p, "operator")
	cfg.ContentType = runtime.ContentTypeProtobuf
	cfg.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	c := kubernetes.NewForConfigOrDie(cfg).CoreV1().ConfigMaps(k.Namespace)
	const large = 900_000 // the API server compresses responses of more than 128 KiB
	if _, err := c.Create(t.Context(), newConfigMap("large", large), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	list, err := c.List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if len(list.Items) != 1 || len(list.Items[0].Data["k"]) != large {
		t.Error("the stored object differs from the sent one")
	}
	metadataClient := metadata.NewForConfigOrDie(config(t, p, "operator"))
	partial, err := metadataClient.Resource(corev1.SchemeGroupVersion.WithResource("configmaps")).
		Namespace(k.Namespace).List(t.Context(), metav1.ListOptions{})
	if err != nil || len(partial.Items) != 1 || partial.Items[0].Name != "large" {
		t.Errorf("by a metadata client: %v, %v", partial, err)
	}
	want := map[string]string{"/api/v1/namespaces/" + k.Namespace + "/configmaps": "application/json "}
	if diff := cmp.Diff(want, log.types); diff != "" {
		t.Errorf("types of responses (-want +got):\n%s", diff)
	}
}

func TestDiscovery(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	log := &typeLog{types: map[string]string{}}
	p := start(t, proxy.Options{Target: k.Config, Wrap: log.wrap})
	proxied := discovery.NewDiscoveryClientForConfigOrDie(config(t, p, "operator"))
	want := resources(t, discovery.NewDiscoveryClientForConfigOrDie(k.Config))
	if diff := cmp.Diff(want, resources(t, proxied)); diff != "" || want["apps/v1"] == nil {
		t.Errorf("resources (-direct +proxied):\n%s", diff)
	}
	log.mu.Lock()
	for path, kind := range log.types {
		if !slices.Contains([]string{"/api", "/apis"}, path) || !strings.Contains(kind, "as=APIGroupDiscoveryList") {
			t.Errorf("%s returned %s, so that discovery is not aggregated", path, kind)
		}
	}
	log.mu.Unlock()
	if doc, err := proxied.OpenAPISchema(); err != nil || len(doc.GetDefinitions().GetAdditionalProperties()) == 0 {
		t.Errorf("the OpenAPI document: %v", err)
	}
}

// resources lists the server's built-in resources: other tests add and remove kinds of their own.
func resources(t *testing.T, c discovery.DiscoveryInterface) map[string][]string {
	t.Helper()
	_, lists, err := c.ServerGroupsAndResources()
	if err != nil {
		t.Fatal(err)
	}
	names := map[string][]string{}
	for _, list := range lists {
		if group, _, _ := strings.Cut(list.GroupVersion, "/"); strings.Contains(group, ".") {
			continue
		}
		for _, resource := range list.APIResources {
			names[list.GroupVersion] = append(names[list.GroupVersion], resource.Name)
		}
		slices.Sort(names[list.GroupVersion])
	}
	return names
}

// TestInformer checks that an informer sees changes as they happen, and continues when its watch is broken.
func TestInformer(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	var watches sync.Map // of the bodies of watches
	p := start(t, proxy.Options{Target: k.Config, Wrap: func(next http.RoundTripper) http.RoundTripper {
		return roundTrip(func(req *http.Request) (*http.Response, error) {
			resp, err := next.RoundTrip(req)
			if err == nil && req.URL.Query().Has("watch") {
				watches.Store(resp.Body, nil)
			}
			return resp, err
		})
	}})
	configMaps := kubernetes.NewForConfigOrDie(config(t, p, "operator")).CoreV1().ConfigMaps(k.Namespace)
	informer := cache.NewSharedInformer(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			return configMaps.List(ctx, o)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			return configMaps.Watch(ctx, o)
		},
	}, &corev1.ConfigMap{}, 0)
	added := make(chan string, 10)
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: func(object any) {
		added <- object.(*corev1.ConfigMap).Name
	}})
	if err != nil {
		t.Fatal(err)
	}
	go informer.RunWithContext(t.Context())
	for _, name := range []string{"a", "b", "c"} {
		k.Apply(newConfigMap(name, 1))
		select {
		case got := <-added:
			if got != name {
				t.Errorf("saw %s, want %s", got, name)
			}
		case <-time.After(shortTimeout):
			t.Fatalf("%s was not seen", name)
		}
		broken := 0
		watches.Range(func(body, _ any) bool {
			_ = body.(interface{ Close() error }).Close()
			watches.Delete(body)
			broken++
			return true
		})
		if broken == 0 {
			t.Error("no watch was started")
		}
	}
}

// TestExec checks that the API server's rejection, as there is no kubelet, arrives as the response to the upgrade.
func TestExec(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	p := start(t, proxy.Options{Target: k.Config})
	k.Apply(&corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "p"},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}},
	})
	path := "/api/v1/namespaces/" + k.Namespace + "/pods/p/exec?command=true&stdout=1"
	for _, protocol := range []string{"SPDY/3.1", "websocket"} {
		_, _, status := upgrade(t, p, path, protocol)
		if !strings.Contains(status, "does not have a host assigned") {
			t.Errorf("%s: %s is not the API server's response", protocol, status)
		}
	}
}

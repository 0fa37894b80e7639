package e2e

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/homeostat-dev/homeostat/sdk"
	"github.com/homeostat-dev/homeostat/sdk/conditions"
	"github.com/homeostat-dev/homeostat/sdk/e2e/site"
	"github.com/homeostat-dev/homeostat/testkit"
)

// optionalKind is a kind of the test's own, which is not installed yet.
func optionalKind(k *testkit.K) schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: k.Namespace + ".homeostat.dev", Version: "v1", Kind: "Widget"}
}

func ofKind(gvk schema.GroupVersionKind, name string, spec map[string]any) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{}}
	u.SetGroupVersionKind(gvk)
	if name != "" {
		u.SetName(name)
	}
	if spec != nil {
		u.Object["spec"] = spec
	}
	return u
}

// install installs the CRD of a kind and waits until it is served; it is removed after the test.
func install(t *testing.T, k *testkit.K, gvk schema.GroupVersionKind) *unstructured.Unstructured {
	t.Helper()
	plural := strings.ToLower(gvk.Kind) + "s"
	crd := ofKind(schema.GroupVersionKind{
		Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition",
	}, plural+"."+gvk.Group, map[string]any{
		"group": gvk.Group, "scope": "Namespaced",
		"names": map[string]any{"kind": gvk.Kind, "plural": plural},
		"versions": []any{map[string]any{
			"name": gvk.Version, "served": true, "storage": true,
			"schema": map[string]any{"openAPIV3Schema": map[string]any{
				"type": "object", "x-kubernetes-preserve-unknown-fields": true,
			}},
		}},
	})
	if err := k.Client.Create(k.Context(), crd); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 10*time.Second)
		defer cancel()
		if err := k.Client.Delete(ctx, crd); client.IgnoreNotFound(err) != nil {
			t.Error(err)
		}
	})
	k.Wait("the kind is served", func(ctx context.Context) error {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(gvk.GroupVersion().WithKind(gvk.Kind + "List"))
		return k.Client.List(ctx, list, client.InNamespace(k.Namespace))
	})
	return crd
}

// An operator runs in a cluster that lacks a kind which it owns. What needs the kind says so and the rest is done; when the
// kind is installed everything is made up for, and kept as any other child.
func TestKindThatIsNotInstalled(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	kind := optionalKind(k)
	f := &faults{counted: func(req *http.Request) bool { return strings.Contains(req.URL.Path, kind.Group) }}
	op := operator(func(_ context.Context, p *pass) error {
		sdk.Apply(p, ofKind(kind, p.Object.Name, map[string]any{"text": p.Object.Spec.Text}),
			sdk.ReadyWhen(func(client.Object) (bool, string) { return true, "" }))
		sdk.Apply(p, configMap(p.Object, p.Object.Name))
		return nil
	})
	op.Owns = []client.Object{&corev1.ConfigMap{}, ofKind(kind, "", nil)}
	running := start(k, op, f.config(k))
	s := newSite("a")
	k.Apply(s)
	k.Eventually(s, testkit.Reason(conditions.Ready, metav1.ConditionFalse, "KindNotInstalled"))
	want := "kind Widget of " + kind.GroupVersion().String() + " is missing: the API server does not know it: install its CRD"
	if _, _, message := condition(s, conditions.Ready); message != want {
		t.Errorf("message %q, want %q", message, want)
	}
	k.Eventually(named(&corev1.ConfigMap{}, s.Name), text("hello"))
	untouched(t, k, running, s)

	crd := install(t, k, kind)
	k.Eventually(s, testkit.Ready())
	o := ofKind(kind, s.Name, nil)
	k.Eventually(o, testkit.Exists())
	mustPatch(t, k, ofKind(kind, s.Name, nil), types.MergePatchType, `{"spec":{"text":"changed by hand"}}`)
	k.Eventually(o, testkit.Match("repaired", func(u *unstructured.Unstructured) bool {
		got, _, _ := unstructured.NestedString(u.Object, "spec", "text")
		return got == "hello"
	}))
	converged(k, running, s)
	asked := len(f.times())
	quiet(k, running, window)
	if got := len(f.times()); got != asked {
		t.Errorf("%d requests about a kind that is there", got-asked)
	}

	k.Delete(crd)
	k.Eventually(s, testkit.Reason(conditions.Ready, metav1.ConditionFalse, "KindNotInstalled"))
	k.Eventually(crd, testkit.Gone())
	install(t, k, kind)
	k.Eventually(s, testkit.Ready())
}

// An operator can do without a kind, and makes use of it from the moment when it is there.
func TestInstalled(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	kind := optionalKind(k)
	op := operator(func(_ context.Context, p *pass) error {
		if sdk.Installed(p, ofKind(kind, "", nil)) {
			sdk.Apply(p, ofKind(kind, p.Object.Name, nil), sdk.ReadyWhen(func(client.Object) (bool, string) { return true, "" }))
		}
		sdk.Apply(p, configMap(p.Object, p.Object.Name))
		return nil
	})
	op.Owns = []client.Object{&corev1.ConfigMap{}, ofKind(kind, "", nil)}
	start(k, op)
	s := newSite("a")
	k.Apply(s)
	k.Eventually(s, testkit.Ready())
	install(t, k, kind)
	k.Eventually(ofKind(kind, s.Name, nil), testkit.Exists())
}

// A reference to an object of a kind that is not installed is waited for.
func TestReferenceToAKindThatIsNotInstalled(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	kind := optionalKind(k)
	op := operator(func(ctx context.Context, p *pass) error {
		if _, err := sdk.Ref(p, ofKind(kind, "shared", nil)); err != nil {
			return err
		}
		return oneChild(ctx, p)
	})
	start(k, op)
	s := newSite("a")
	k.Apply(s)
	k.Eventually(s, testkit.Reason(conditions.Ready, metav1.ConditionFalse, "KindNotInstalled"))
	install(t, k, kind)
	k.Eventually(s, testkit.Reason(conditions.Ready, metav1.ConditionFalse, "ReferenceNotFound"))
	k.Apply(ofKind(kind, "shared", nil))
	k.Eventually(s, testkit.Ready())
}

// siteOf registers sites under a group of the test's own, which is not installed yet.
func siteOf(gv schema.GroupVersion) func(*runtime.Scheme) error {
	return func(s *runtime.Scheme) error {
		s.AddKnownTypeWithName(gv.WithKind("Site"), &site.Site{})
		s.AddKnownTypeWithName(gv.WithKind("SiteList"), &site.List{})
		metav1.AddToGroupVersion(s, gv)
		return nil
	}
}

const siteMissing = "kind Site of %s is not installed in the cluster: install the operator's CRDs, for example with " +
	"kubectl apply -k config/crd"

// An operator that runs before its CRD says once what to do, is not ready, and waits longer than controllers wait for
// anything else. When the CRD comes it works. Its log names what it watches.
func TestOwnKindThatIsNotInstalled(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	kind := optionalKind(k).GroupVersion().WithKind("Site")
	var mu sync.Mutex
	var lines []string
	logged := func() string {
		mu.Lock()
		defer mu.Unlock()
		return strings.Join(lines, "\n")
	}
	scheme := runtime.NewScheme() // and not the one of all other tests, for the operator registers its types with it
	if err := clientgoscheme.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	probes := freeAddress(t)
	mgr, err := manager.New(k.Config, manager.Options{
		Scheme: scheme, Metrics: metricsserver.Options{BindAddress: "0"}, HealthProbeBindAddress: probes,
		Controller: config.Controller{CacheSyncTimeout: 50 * time.Millisecond, SkipNameValidation: new(true)},
		Logger: funcr.New(func(prefix, args string) {
			mu.Lock()
			defer mu.Unlock()
			lines = append(lines, prefix+" "+args)
		}, funcr.Options{}),
	})
	if err != nil {
		t.Fatal(err)
	}
	op := operator(oneChild)
	op.AddToScheme, op.Owns = siteOf(kind.GroupVersion()), []client.Object{&corev1.ConfigMap{}}
	if err := op.SetupWithManager(mgr, sdk.InNamespaces(k.Namespace, "elsewhere")); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(k.Context()) }()
	want := fmt.Sprintf(siteMissing, kind.GroupVersion())
	k.Wait("it says what is missing", func(context.Context) error {
		if n := strings.Count(logged(), want); n != 1 {
			return fmt.Errorf("%d times in\n%s", n, logged())
		}
		return nil
	})
	select {
	case err := <-ended:
		t.Fatalf("the manager ended: %v", err)
	case <-time.After(window): // which is longer than other caches may take
	}
	waitAnswer(k, "http://"+probes+"/readyz", "", http.StatusInternalServerError)

	install(t, k, kind)
	k.Apply(ofKind(kind, "a", map[string]any{"text": "hello"}))
	k.Eventually(named(&corev1.ConfigMap{}, "a"), text("hello"))
	waitAnswer(k, "http://"+probes+"/readyz", "", http.StatusOK)
	for _, source := range []string{"kind source: *site.Site", "kind source: ConfigMap", "objects that are referred to"} {
		if !strings.Contains(logged(), `"Starting EventSource" "controller"="sdk-e2e" "source"="`+source+`"`) {
			t.Errorf("no source of events is called %q in\n%s", source, logged())
		}
	}
	if all := logged(); strings.Count(all, want) != 1 || strings.Contains(all, "before calling Start") {
		t.Errorf("it is to say once what is missing:\n%s", all)
	}
}

// A dry run without the CRD names the way out.
func TestDryRunWithoutTheKind(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	gv := optionalKind(k).GroupVersion()
	p := run(t, []string{operatorVariable + "=" + gv.String()}, "--dry-run", "--kubeconfig="+kubeconfig(t, k))
	if code := p.exit(); code != 1 {
		t.Errorf("exit code %d, want 1", code)
	}
	if got, want := p.errors(), "Error: "+fmt.Sprintf(siteMissing, gv)+"\n"; got != want {
		t.Errorf("it says\n%s\nwant\n%s", got, want)
	}
}

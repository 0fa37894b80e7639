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

// optionalKind returns a kind that only this test uses and that is not installed yet.
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

// install installs the CRD of a kind and waits until the kind is served. The CRD is removed after the test.
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

// A cluster lacks a kind that the operator owns. The status reports the children that need it, and the others are written.
// When the kind is installed, the missing children are created and maintained like all others.
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
	requireUnchanged(t, k, running, s)

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
	before := len(f.times())
	waitIdle(k, running, observationPeriod)
	if got := len(f.times()); got != before {
		t.Errorf("%d requests about an installed kind", got-before)
	}

	k.Delete(crd)
	k.Eventually(s, testkit.Reason(conditions.Ready, metav1.ConditionFalse, "KindNotInstalled"))
	k.Eventually(crd, testkit.Gone())
	install(t, k, kind)
	k.Eventually(s, testkit.Ready())
}

// An operator can work without a kind, and uses it as soon as it is installed.
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

// A reference to an object of a missing kind waits until the kind is installed.
func TestReferenceToKindThatIsNotInstalled(t *testing.T) {
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

// siteOf registers sites in a group that only this test uses and that is not installed yet.
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

// An operator without its CRD logs the remedy once, is not ready, and waits longer than the cache sync timeout. It works as
// soon as the CRD is installed. Its log names the event sources.
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
	scheme := runtime.NewScheme() // not the shared one: the operator registers its types with it
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
	op.AddToScheme = siteOf(kind.GroupVersion())
	op.Owns = []client.Object{&corev1.ConfigMap{}}
	if err := op.SetupWithManager(mgr, sdk.InNamespaces(k.Namespace, "elsewhere")); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(k.Context()) }()
	want := fmt.Sprintf(siteMissing, kind.GroupVersion())
	k.Wait("the log names the missing kind", func(context.Context) error {
		if n := strings.Count(logged(), want); n != 1 {
			return fmt.Errorf("%d times in\n%s", n, logged())
		}
		return nil
	})
	select {
	case err := <-ended:
		t.Fatalf("the manager ended: %v", err)
	case <-time.After(observationPeriod): // longer than the cache sync timeout
	}
	waitForResponse(k, "http://"+probes+"/readyz", "", http.StatusInternalServerError)

	install(t, k, kind)
	k.Apply(ofKind(kind, "a", map[string]any{"text": "hello"}))
	k.Eventually(named(&corev1.ConfigMap{}, "a"), text("hello"))
	waitForResponse(k, "http://"+probes+"/readyz", "", http.StatusOK)
	for _, source := range []string{"kind source: *site.Site", "kind source: ConfigMap", "objects that are referred to"} {
		if !strings.Contains(logged(), `"Starting EventSource" "controller"="sdk-e2e" "source"="`+source+`"`) {
			t.Errorf("the log names no event source %q:\n%s", source, logged())
		}
	}
	if all := logged(); strings.Count(all, want) != 1 || strings.Contains(all, "before calling Start") {
		t.Errorf("the log must name the missing kind once:\n%s", all)
	}
}

// A dry run without the CRD reports the remedy.
func TestDryRunWithoutTheKind(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	gv := optionalKind(k).GroupVersion()
	p := run(t, []string{operatorVariable + "=" + gv.String()}, "--dry-run", "--kubeconfig="+kubeconfig(t, k))
	if code := p.exit(); code != 1 {
		t.Errorf("exit code %d, want 1", code)
	}
	if got, want := p.errors(), "Error: "+fmt.Sprintf(siteMissing, gv)+"\n"; got != want {
		t.Errorf("standard error\n%s\nwant\n%s", got, want)
	}
}

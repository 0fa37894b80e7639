package history_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"

	"github.com/homeostat-dev/homeostat/testkit"
	"github.com/homeostat-dev/homeostat/testkit/internal/history"
)

func TestMain(m *testing.M) { testkit.Main(m, testkit.Env{}) }

func acquire(t *testing.T, cfg *rest.Config) *history.Recorder {
	t.Helper()
	return acquireFor(t, cfg, nil)
}

func acquireFor(t *testing.T, cfg *rest.Config, scheme *runtime.Scheme) *history.Recorder {
	t.Helper()
	h, err := history.Acquire(t.Context(), cfg, scheme, false)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func newConfigMap(k *testkit.K, name string) *corev1.ConfigMap {
	cm := &corev1.ConfigMap{}
	cm.Name = name
	cm.Namespace = k.Namespace
	return cm
}

// await waits for n changes of the objects with this name, and returns their types.
func await(t *testing.T, log *history.Log, name string, n int) []watch.EventType {
	t.Helper()
	for {
		changed := log.Changed()
		var types []watch.EventType
		for _, c := range log.Changes() {
			if c.Object.GetName() == name {
				types = append(types, c.Type)
			}
		}
		if len(types) >= n {
			return types
		}
		select {
		case <-changed:
		case <-t.Context().Done():
			t.Fatalf("%s: %v, want %d changes", name, types, n)
		}
	}
}

func TestLog(t *testing.T) {
	t.Parallel()
	k, other := testkit.New(t), testkit.New(t)
	h := acquire(t, k.Config)
	t.Cleanup(h.Release)
	k.Apply(newConfigMap(k, "before"))
	log, same, elsewhere := h.Follow(k.Namespace), h.Follow(k.Namespace), h.Follow(other.Namespace)

	cm := newConfigMap(k, "cm")
	k.Apply(cm)
	k.Update(cm, func() { cm.Data = map[string]string{"a": "b"} })
	await(t, log, "cm", 2)
	if current := log.CurrentObjects(); current[len(current)-1].Object.GetResourceVersion() != cm.ResourceVersion {
		t.Errorf("the last state is %v, want version %s", current[len(current)-1].Object, cm.ResourceVersion)
	}
	k.Delete(cm)
	want := []watch.EventType{watch.Added, watch.Modified, watch.Deleted}
	for name, l := range map[string]*history.Log{"the first": log, "the second": same} {
		got := await(t, l, "cm", len(want))
		for i := range want {
			if got[i] != want[i] {
				t.Errorf("%s log has %v, want %v", name, got, want)
			}
		}
	}
	for _, c := range log.CurrentObjects() {
		if c.Object.GetName() == "cm" {
			t.Error("a deleted object is current")
		}
	}
	if changes := elsewhere.Changes(); len(changes) > 0 && changes[len(changes)-1].Object.GetName() == "cm" {
		t.Error("the log contains another namespace")
	}

	same.End()
	k.Apply(newConfigMap(k, "after"))
	await(t, log, "after", 1)
	for _, c := range same.Changes() {
		if c.Object.GetName() == "after" {
			t.Error("the log continues after its end")
		}
	}
}

// The order of changes of several kinds is that in which the API server made them, however they arrive. A deletion has a
// place of its own in it.
func TestInOrder(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	h := acquire(t, k.Config)
	t.Cleanup(h.Release)
	log := h.Follow(k.Namespace)
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "ordered"}}
	for range 2 {
		cm := newConfigMap(k, "ordered")
		k.Apply(cm)
		k.Delete(cm)
		k.Apply(secret.DeepCopy())
		k.Delete(secret.DeepCopy())
	}
	await(t, log, "ordered", 8)
	arrived := slices.DeleteFunc(log.Changes(), func(c history.Change) bool { return c.Object.GetName() != "ordered" })
	kinds := map[string][]history.Change{}
	for _, c := range arrived {
		kinds[c.Object.GetKind()] = append(kinds[c.Object.GetKind()], c)
	}
	var got []string
	for _, c := range history.InOrder(slices.Concat(kinds["Secret"], kinds["ConfigMap"])) {
		got = append(got, fmt.Sprint(c.Object.GetKind(), " ", c.Type))
	}
	want := []string{"ConfigMap ADDED", "ConfigMap DELETED", "Secret ADDED", "Secret DELETED"}
	if want = slices.Concat(want, want); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// A process has one set of watches. A later Acquire adds watches for new kinds.
func TestAcquire(t *testing.T) {
	t.Parallel()
	k := testkit.New(t, testkit.Private()) // private, because the definition is visible to all
	first := acquire(t, k.Config)
	log := first.Follow(k.Namespace)
	k.Apply(newDefinition())
	k.Wait("the kind", func(ctx context.Context) error { return served(ctx, k.Config, "things") })

	second := acquire(t, k.Config)
	if first != second {
		t.Error("there are two sets of watches")
	}
	first.Release()
	thing := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "history.test/v1", "kind": "Thing"}}
	thing.SetName("thing")
	k.Apply(thing)
	await(t, log, "thing", 1)
	second.Release()

	cfg := rest.CopyConfig(k.Config)
	cfg.Host += "/" // testkit has acquired the recorder of its own configuration
	third := acquire(t, cfg)
	third.Release()
	fourth := acquire(t, cfg)
	defer fourth.Release()
	if third == fourth {
		t.Error("Acquire returns a recorder with ended watches")
	}
	again := fourth.Follow(k.Namespace)
	k.Apply(newConfigMap(k, "cm"))
	await(t, again, "cm", 1)
}

// served waits until discovery returns a resource.
func served(ctx context.Context, cfg *rest.Config, resource string) error {
	client, err := discovery.NewDiscoveryClientForConfig(cfg)
	if err != nil {
		return err
	}
	return wait.PollUntilContextCancel(ctx, 20*time.Millisecond, true, func(context.Context) (bool, error) {
		lists, err := client.ServerPreferredNamespacedResources()
		for _, list := range lists {
			for _, r := range list.APIResources {
				if r.Name == resource {
					return true, nil
				}
			}
		}
		return false, err
	})
}

func newDefinition() *apiextensionsv1.CustomResourceDefinition {
	d := &apiextensionsv1.CustomResourceDefinition{}
	d.Name = "things.history.test"
	d.Spec = apiextensionsv1.CustomResourceDefinitionSpec{
		Group: "history.test",
		Names: apiextensionsv1.CustomResourceDefinitionNames{
			Plural: "things", Singular: "thing", Kind: "Thing", ListKind: "ThingList",
		},
		Scope: apiextensionsv1.NamespaceScoped,
		Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
			Name: "v1", Served: true, Storage: true,
			Schema: &apiextensionsv1.CustomResourceValidation{
				OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: "object"},
			},
		}},
	}
	return d
}

// IsBehind detects each way in which a log can lag.
func TestBehind(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	h := acquire(t, k.Config)
	t.Cleanup(h.Release)
	for _, test := range []struct {
		name string
		does func(cm *corev1.ConfigMap)
		want bool
	}{
		{"nothing", func(*corev1.ConfigMap) {}, false},
		{"change", func(cm *corev1.ConfigMap) { k.Update(cm, func() { cm.Data = map[string]string{"a": "b"} }) }, true},
		{"deletion", func(cm *corev1.ConfigMap) { k.Delete(cm) }, true},
		{"creation", func(*corev1.ConfigMap) { k.Apply(newConfigMap(k, "yet-another")) }, true},
	} {
		log := h.Follow(k.Namespace)
		cm := newConfigMap(k, test.name)
		k.Apply(cm)
		await(t, log, test.name, 1)
		log.End()                                                                  // the log receives no further events
		<-time.After(time.Until(log.Began.Truncate(time.Second).Add(time.Second))) // the API server stores times in seconds
		test.does(cm)
		got, err := log.IsBehind(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if got != test.want {
			t.Errorf("after an unrecorded %s, Behind returns %v, want %v", test.name, got, test.want)
		}
	}
}

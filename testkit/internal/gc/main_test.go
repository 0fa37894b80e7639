package gc_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/homeostat-dev/homeostat/testkit/assets"
	"github.com/homeostat-dev/homeostat/testkit/cluster"
	"github.com/homeostat-dev/homeostat/testkit/internal/gc"
)

// The tests share one control plane. The collector runs in this process so that the race detector sees it.
var (
	config *rest.Config
	api    client.Client
)

func TestMain(m *testing.M) {
	code, err := run(m)
	if err != nil {
		log.Fatal(err)
	}
	os.Exit(code)
}

func run(m *testing.M) (code int, err error) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	set, err := assets.Find(ctx, assets.Options{Programs: cluster.Programs(cluster.API)})
	if err != nil {
		return 1, err
	}
	c, err := cluster.Start(ctx, cluster.Options{Binaries: set.Dir})
	if err != nil {
		return 1, err
	}
	defer func() { err = c.Stop() }()
	cfg := rest.CopyConfig(c.Config())
	cfg.Wrap(late.wrap)
	j, err := gc.Start(ctx, cfg)
	if err != nil {
		return 1, err
	}
	defer j.Wait()
	defer cancel()
	config = c.Config()
	scheme := runtime.NewScheme()
	builder := runtime.NewSchemeBuilder(clientgoscheme.AddToScheme, apiextensionsv1.AddToScheme)
	if err := builder.AddToScheme(scheme); err != nil {
		return 1, err
	}
	if api, err = client.New(config, client.Options{Scheme: scheme}); err != nil {
		return 1, err
	}
	return m.Run(), nil
}

// late delays responses between the collector and the API server.
var late delay

// A delay fails lists of some resources, like a server that does not serve them yet.
type delay struct {
	next http.RoundTripper

	mu    sync.Mutex
	kinds map[string]*delayed // by plural
}

// A delayed kind has objects in one namespace. Its channels are closed when the client has requested a list, and an object.
type delayed struct {
	namespace         string
	listed, requested chan struct{}
}

func closeOnce(c chan struct{}) {
	select {
	case <-c:
	default:
		close(c)
	}
}

func (d *delay) wrap(next http.RoundTripper) http.RoundTripper {
	d.next = next
	return d
}

var errLate = errors.New("not served yet")

// RoundTrip implements http.RoundTripper.
func (d *delay) RoundTrip(req *http.Request) (*http.Response, error) {
	if d.holds(req.URL.Path) {
		return nil, errLate
	}
	return d.next.RoundTrip(req)
}

func (d *delay) holds(path string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	for plural, k := range d.kinds {
		switch prefix, name, found := strings.Cut(path, "/"+plural); {
		case found && name == "":
			closeOnce(k.listed)
			return !strings.Contains(prefix, "/namespaces/") || strings.HasSuffix(prefix, "/namespaces/"+k.namespace)
		case found:
			closeOnce(k.requested)
		}
	}
	return false
}

// add holds a kind back: lists of all namespaces, and of this one.
func (d *delay) add(plural, namespace string) *delayed {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.kinds == nil {
		d.kinds = map[string]*delayed{}
	}
	d.kinds[plural] = &delayed{namespace: namespace, listed: make(chan struct{}), requested: make(chan struct{})}
	return d.kinds[plural]
}

func (d *delay) lift(plural string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.kinds, plural)
}

// closed waits until a channel is closed.
func closed(t *testing.T, c <-chan struct{}, event string) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(timeout):
		t.Fatalf("not within %v: %s", timeout, event)
	}
}

// timeout is far more than any step takes on an idle machine.
const timeout = 30 * time.Second

// quietPeriod is the time for which a state has to last to count as stable. The collector takes milliseconds.
const quietPeriod = 300 * time.Millisecond

// eventually waits until check returns "".
func eventually(t *testing.T, check func() string) {
	t.Helper()
	var complaint string
	poll := func(context.Context) (bool, error) {
		complaint = check()
		return complaint == "", nil
	}
	if wait.PollUntilContextTimeout(t.Context(), 2*time.Millisecond, timeout, true, poll) != nil {
		t.Fatalf("not within %v: %s", timeout, complaint)
	}
}

// always fails the test if check returns a complaint within quietPeriod.
func always(t *testing.T, check func() string) {
	t.Helper()
	end := time.After(quietPeriod)
	for {
		if complaint := check(); complaint != "" {
			t.Fatal(complaint)
		}
		select {
		case <-end:
			return
		case <-time.After(10 * time.Millisecond):
		}
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func newNamespace(t *testing.T) *corev1.Namespace {
	t.Helper()
	name := strings.ToLower(strings.NewReplacer("/", "-", "_", "-").Replace(t.Name()))
	if len(name) > 40 {
		name = name[len(name)-40:]
	}
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: strings.Trim(name, "-") + "-"}}
	must(t, api.Create(t.Context(), ns))
	return ns
}

// An option changes an object before it is created.
type option func(client.Object)

func ownedBy(owners ...client.Object) option {
	return func(o client.Object) {
		for _, owner := range owners {
			gvk, err := api.GroupVersionKindFor(owner)
			if err != nil {
				panic(err)
			}
			o.SetOwnerReferences(append(o.GetOwnerReferences(), metav1.OwnerReference{
				APIVersion: gvk.GroupVersion().String(), Kind: gvk.Kind, Name: owner.GetName(), UID: owner.GetUID(),
			}))
		}
	}
}

// blocking makes the object block the foreground deletion of its last owner.
func blocking(o client.Object) {
	refs := o.GetOwnerReferences()
	refs[len(refs)-1].BlockOwnerDeletion = new(true)
	o.SetOwnerReferences(refs) // those of an unstructured object are a copy
}

const finalizer = "test.homeostat.dev/hold"

func held(o client.Object) { o.SetFinalizers([]string{finalizer}) }

func newConfigMap(t *testing.T, ns *corev1.Namespace, name string, opts ...option) *corev1.ConfigMap {
	t.Helper()
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ns.Name, Name: name}}
	for _, opt := range opts {
		opt(cm)
	}
	must(t, api.Create(t.Context(), cm))
	return cm
}

func release(t *testing.T, o client.Object) {
	t.Helper()
	patch := client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`))
	must(t, api.Patch(t.Context(), o, patch))
}

func deleteObject(t *testing.T, o client.Object, policy metav1.DeletionPropagation) {
	t.Helper()
	must(t, api.Delete(t.Context(), o, client.PropagationPolicy(policy)))
}

// fetch returns the object on the server, or nil.
func fetch(t *testing.T, o client.Object) client.Object {
	t.Helper()
	current := o.DeepCopyObject().(client.Object)
	err := api.Get(t.Context(), client.ObjectKeyFromObject(o), current)
	if apierrors.IsNotFound(err) || err == nil && current.GetUID() != o.GetUID() {
		return nil
	}
	must(t, err)
	return current
}

func gone(t *testing.T, objects ...client.Object) func() string {
	return func() string {
		for _, o := range objects {
			if current := fetch(t, o); current != nil {
				return fmt.Sprintf("%s still exists; finalizers %q, deleted at %v",
					o.GetName(), current.GetFinalizers(), current.GetDeletionTimestamp())
			}
		}
		return ""
	}
}

func deleting(t *testing.T, objects ...client.Object) func() string {
	return func() string {
		for _, o := range objects {
			if current := fetch(t, o); current == nil || current.GetDeletionTimestamp() == nil {
				return o.GetName() + " should be there and being deleted"
			}
		}
		return ""
	}
}

func kept(t *testing.T, objects ...client.Object) func() string {
	return func() string {
		for _, o := range objects {
			if current := fetch(t, o); current == nil || current.GetDeletionTimestamp() != nil {
				return o.GetName() + " should be there and not being deleted"
			}
		}
		return ""
	}
}

func ownedOnlyBy(t *testing.T, o client.Object, owners ...client.Object) func() string {
	return func() string {
		current := fetch(t, o)
		if current == nil {
			return o.GetName() + " is gone"
		}
		var got, want []string
		for _, ref := range current.GetOwnerReferences() {
			got = append(got, ref.Name)
		}
		for _, owner := range owners {
			want = append(want, owner.GetName())
		}
		if !slices.Equal(got, want) {
			return fmt.Sprintf("%s is owned by %q, want %q", o.GetName(), got, want)
		}
		return ""
	}
}

// word returns a name for a kind that no other test uses.
func word() string { return "thing" + strconv.FormatUint(rand.Uint64(), 36) }

func definition(word string, scope apiextensionsv1.ResourceScope) *apiextensionsv1.CustomResourceDefinition {
	schemaProps := &apiextensionsv1.JSONSchemaProps{Type: "object", XPreserveUnknownFields: new(true)}
	return &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: word + "s.test.homeostat.dev"},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: "test.homeostat.dev", Scope: scope,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Kind: "K" + word, Plural: word + "s"},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: "v1", Served: true, Storage: true,
				Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: schemaProps},
			}},
		},
	}
}

func newCustom(
	t *testing.T, gvk schema.GroupVersionKind, namespace, name string, opts ...option,
) *unstructured.Unstructured {
	t.Helper()
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(gvk)
	u.SetNamespace(namespace)
	u.SetName(name)
	for _, opt := range opts {
		opt(u)
	}
	must(t, api.Create(t.Context(), u))
	return u
}

package gc_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/homeostat-dev/homeostat/testkit/internal/gc"
)

func TestNamespaceDeletion(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		reason string
		run    func(t *testing.T, ns *corev1.Namespace)
	}{
		"Empty": {
			reason: "nothing to wait for",
			run: func(t *testing.T, ns *corev1.Namespace) {
				must(t, api.Delete(t.Context(), ns))
				eventually(t, gone(t, ns))
			},
		},
		"OrdinaryContent": {
			reason: "content without finalizers is deleted immediately",
			run: func(t *testing.T, ns *corev1.Namespace) {
				objects := ordinaryContent(t, ns)
				began := time.Now()
				must(t, api.Delete(t.Context(), ns))
				eventually(t, gone(t, ns))
				t.Logf("namespace with ordinary content gone after %v", time.Since(began))
				eventually(t, gone(t, objects...))
			},
		},
		"CustomContent": {
			reason: "objects of a new kind are deleted as well",
			run: func(t *testing.T, ns *corev1.Namespace) {
				gvk := install(t, definition(word(), apiextensionsv1.NamespaceScoped))
				object := newCustom(t, gvk, ns.Name, "object")
				must(t, api.Delete(t.Context(), ns))
				eventually(t, gone(t, ns, object))
			},
		},
		"HeldContent": {
			reason: "a finalizer holds the namespace, which reports it, and no longer than necessary",
			run: func(t *testing.T, ns *corev1.Namespace) {
				object := newConfigMap(t, ns, "held", held)
				must(t, api.Delete(t.Context(), ns))
				eventually(t, deleting(t, ns, object))
				eventually(t, reports(t, ns, corev1.NamespaceContentRemaining, "configmaps has 1 resource instances"))
				eventually(t, reports(t, ns, corev1.NamespaceFinalizersRemaining, finalizer+" in 1 resource instances"))
				always(t, deleting(t, ns, object))
				began := time.Now()
				release(t, object)
				eventually(t, gone(t, ns, object))
				t.Logf("namespace gone %v after its last finalizer", time.Since(began))
			},
		},
		"PodsFirst": {
			reason: "pods may need the other objects until they have ended",
			run: func(t *testing.T, ns *corev1.Namespace) {
				pod := newPod(t, ns, "", held)
				other := newConfigMap(t, ns, "other")
				must(t, api.Delete(t.Context(), ns))
				eventually(t, deleting(t, ns, pod))
				always(t, kept(t, other))
				release(t, pod)
				eventually(t, gone(t, ns, pod, other))
			},
		},
		"PodOnLostNode": {
			reason: "no kubelet will ever confirm that the pod has ended",
			run: func(t *testing.T, ns *corev1.Namespace) {
				pod := newPod(t, ns, "no-such-node")
				must(t, api.Delete(t.Context(), ns))
				eventually(t, gone(t, ns, pod))
			},
		},
		"Abandoned": {
			reason: "no controller is left to remove the finalizers",
			run: func(t *testing.T, ns *corev1.Namespace) {
				object, pod := newConfigMap(t, ns, "held", held), newPod(t, ns, "no-such-node", held)
				patch := fmt.Sprintf(`{"metadata":{"annotations":{%q:"true"}}}`, gc.AbandonAnnotation)
				must(t, api.Patch(t.Context(), ns, client.RawPatch("application/merge-patch+json", []byte(patch))))
				must(t, api.Delete(t.Context(), ns))
				eventually(t, gone(t, ns, object, pod))
			},
		},
		"OwnedFromOutside": {
			reason: "a namespace can own cluster-wide objects, which are deleted with it",
			run: func(t *testing.T, ns *corev1.Namespace) {
				other := newNamespace(t)
				patch := fmt.Sprintf(`{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"Namespace","name":%q,"uid":%q}]}}`,
					ns.Name, ns.UID)
				must(t, api.Patch(t.Context(), other, client.RawPatch("application/merge-patch+json", []byte(patch))))
				must(t, api.Delete(t.Context(), ns))
				eventually(t, gone(t, ns, other))
			},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			defer func() {
				if t.Failed() {
					t.Logf("reason: %s", tt.reason)
				}
			}()
			tt.run(t, newNamespace(t))
		})
	}
}

// A namespace can be created again as soon as it is gone, and contains no object of the old one.
func TestNamespaceRecreated(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	// The API server admits objects by a cache, which may still contain the old namespace.
	newObject := func() *corev1.ConfigMap {
		t.Helper()
		cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ns.Name, Name: "object"}}
		eventually(t, func() string {
			err := api.Create(t.Context(), cm)
			if apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
				return err.Error()
			}
			must(t, err)
			return ""
		})
		return cm
	}
	for range 5 {
		newObject()
		must(t, api.Delete(t.Context(), ns))
		eventually(t, gone(t, ns))
		ns = &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns.Name}}
		must(t, api.Create(t.Context(), ns))
	}
	always(t, kept(t, newObject()))
}

func BenchmarkNamespaceDeletion(b *testing.B) {
	for b.Loop() {
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "bench-"}}
		if err := api.Create(b.Context(), ns); err != nil {
			b.Fatal(err)
		}
		if err := api.Delete(b.Context(), ns); err != nil {
			b.Fatal(err)
		}
		poll := func(ctx context.Context) (bool, error) {
			err := api.Get(ctx, client.ObjectKeyFromObject(ns), ns)
			return apierrors.IsNotFound(err), client.IgnoreNotFound(err)
		}
		if err := wait.PollUntilContextTimeout(b.Context(), time.Millisecond, timeout, true, poll); err != nil {
			b.Fatal(err)
		}
	}
}

func reports(t *testing.T, ns *corev1.Namespace, kind corev1.NamespaceConditionType, what string) func() string {
	return func() string {
		current, ok := fetch(t, ns).(*corev1.Namespace)
		if !ok {
			return "the namespace is gone"
		}
		said := slices.ContainsFunc(current.Status.Conditions, func(c corev1.NamespaceCondition) bool {
			return c.Type == kind && c.Status == corev1.ConditionTrue && strings.Contains(c.Message, what)
		})
		if !said {
			return fmt.Sprintf("no %s with %q in %v", kind, what, current.Status.Conditions)
		}
		return ""
	}
}

func newPod(t *testing.T, ns *corev1.Namespace, node string, opts ...option) *corev1.Pod {
	t.Helper()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns.Name, Name: "pod"},
		Spec:       corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{Name: "c", Image: "i"}}},
	}
	for _, opt := range opts {
		opt(pod)
	}
	must(t, api.Create(t.Context(), pod))
	return pod
}

func ordinaryContent(t *testing.T, ns *corev1.Namespace) []client.Object {
	t.Helper()
	meta := metav1.ObjectMeta{Namespace: ns.Name, Name: "object"}
	objects := []client.Object{
		&corev1.ConfigMap{ObjectMeta: meta},
		&corev1.Secret{ObjectMeta: meta},
		&corev1.ServiceAccount{ObjectMeta: meta},
		&corev1.Service{ObjectMeta: meta, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}}},
		&eventsv1.Event{
			ObjectMeta: meta, EventTime: metav1.NowMicro(), Action: "Test", Reason: "Test", Type: "Normal",
			ReportingController: "test", ReportingInstance: "test", Regarding: corev1.ObjectReference{Namespace: ns.Name},
		},
	}
	for _, o := range objects {
		must(t, api.Create(t.Context(), o))
	}
	return append(objects, newPod(t, ns, ""))
}

package scenario_test

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/homeostat-dev/homeostat/testkit"
	"github.com/homeostat-dev/homeostat/testkit/internal/scenario"
)

func TestMain(m *testing.M) {
	testkit.Main(m, testkit.Env{FS: fstest.MapFS{"crd.yaml": {Data: []byte(widgetCRD)}}, CRDs: "crd.yaml"})
}

func read(t *testing.T, all files) *scenario.Scenario {
	t.Helper()
	all["crd.yaml"], all["sample.yaml"] = widgetCRD, widget
	s, err := scenario.Read(filepath.Join(all.write(t), "s.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func newWidget(k *testkit.K) *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	u.SetAPIVersion("example.com/v1")
	u.SetKind("Widget")
	u.SetNamespace(k.Namespace)
	u.SetName("w")
	return u
}

const ready = "{type: Ready, status: \"True\", reason: R, message: m, lastTransitionTime: 2026-01-01T00:00:00Z"

// TestDo runs a whole scenario. Its steps act for the operator.
func TestDo(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	s := read(t, files{"s.yaml": `
crds: crd.yaml
setup:
- {apiVersion: v1, kind: ConfigMap, metadata: {name: config, namespace: elsewhere}, data: {k: v}}
- {apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: ` + k.Namespace + `, labels: {a: b}}}
steps:
- name: create
  apply: sample.yaml
  wait: {exists: true}
- name: ready
  patch: {kind: Widget, name: w, subresource: status, merge: {status: {
    conditions: [` + ready + `, observedGeneration: 1}], replicas: 3, list: [{name: a}, {name: b, size: 1.5}]}}}
  wait:
  - {condition: Ready, reason: R}
  - {field: status.replicas, value: 3}
  - {field: "{.status.list[1].name}", value: b}
  - {field: 'status.list[?(@.name=="b")].size', value: 1.5}
  - {field: status.list, value: [{name: a}, {size: 1.5, name: b}]}
  - {field: metadata.uid}
  - {kind: ConfigMap, name: config, field: data.k, value: v}
- name: change
  patch: {kind: Widget, name: w, merge: {spec: {size: 2, old: null}, metadata: {finalizers: [example.com/hold]}}}
- name: delete
  delete: {kind: Widget, name: w}
  wait: {field: metadata.deletionTimestamp}
- name: let go
  patch: {kind: Widget, name: w, merge: {metadata: {finalizers: null}}}
  wait: {exists: false}
- name: again
  apply: sample.yaml
`})
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: k.Namespace}}
	k.Apply(role) // so that it is deleted after the test
	if err := s.SetUp(t.Context(), k.Client, k.Namespace); err != nil {
		t.Fatal(err)
	}
	if k.Get(role); role.Labels["a"] != "b" {
		t.Errorf("the cluster-scoped object was not applied: %v", role)
	}
	for _, step := range s.Steps {
		if err := step.Do(t.Context(), k.Client, k.Namespace); err != nil {
			t.Fatal(err)
		}
	}
	w := newWidget(k)
	k.Get(w)
	if size, _, _ := unstructured.NestedInt64(w.Object, "spec", "size"); size != 1 || w.GetGeneration() != 1 {
		t.Errorf("in the end it is %v", w)
	}
	if got := s.Steps[0].Apply[0]; got.GetUID() != "" || got.GetNamespace() != "" {
		t.Errorf("Do has modified the step: %v", got)
	}
	other := testkit.New(t)
	if err := s.Steps[0].Do(t.Context(), other.Client, other.Namespace); err != nil {
		t.Errorf("in another namespace: %v", err)
	}
}

// TestWaitIsMetLater checks that a step ends when its expectation is met, neither before nor much later.
func TestWaitIsMetLater(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	s := read(t, files{"s.yaml": "steps:\n- name: one\n  apply: sample.yaml\n  wait: {condition: Ready, timeout: 1m}\n"})
	done := make(chan error, 1)
	go func() { done <- s.Steps[0].Do(t.Context(), k.Client, k.Namespace) }()
	w := newWidget(k)
	k.Eventually(w, testkit.Exists())
	status := func(patch string) {
		t.Helper()
		raw := client.RawPatch(types.MergePatchType, []byte(patch))
		if err := k.Client.Status().Patch(t.Context(), w, raw); err != nil {
			t.Fatal(err)
		}
	}
	condition := `{"status": {"observedGeneration": %, "conditions": [{"type": "Ready", "status": "True"}]}}`
	status(strings.ReplaceAll(condition, "%", "0")) // true, but of an older spec
	select {
	case err := <-done:
		t.Fatalf("it is done too early: %v", err)
	case <-time.After(200 * time.Millisecond):
	}
	status(strings.ReplaceAll(condition, "%", "1"))
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestDoErrors(t *testing.T) {
	t.Parallel()
	const head = "steps:\n- name: one\n"
	tests := map[string]struct{ reason, text, want string }{
		"NotReady": {
			"the condition is not there", head + "  apply: sample.yaml\n  wait: {condition: Ready, timeout: 50ms}\n",
			"s.yaml:4: step one: waiting for Widget w: not within 50ms: it has no condition Ready",
		},
		"Absent": {
			"it is never created", head + "  apply: sample.yaml\n  wait: {kind: Pod, name: p, field: a, timeout: 50ms}\n",
			"s.yaml:4: step one: waiting for Pod p: not within 50ms: it does not exist",
		},
		"Never made": {
			"it is never created", head + "  apply: sample.yaml\n  wait: {kind: Pod, name: p, exists: true, timeout: 50ms}\n",
			"s.yaml:4: step one: waiting for Pod p: not within 50ms: it does not exist",
		},
		"Still there": {
			"it is never deleted", head + "  apply: sample.yaml\n  wait: {exists: false, timeout: 50ms}\n",
			"s.yaml:4: step one: waiting for Widget w: not within 50ms: it still exists",
		},
		"Other value": {
			"types matter", head + "  apply: sample.yaml\n  wait: {field: spec.size, value: '1', timeout: 50ms}\n",
			`s.yaml:4: step one: waiting for Widget w: not within 50ms: spec.size is 1, and should be "1"`,
		},
		"Unset": {
			"it is not there", head + "  apply: sample.yaml\n  wait: {field: 'status.x[0]', timeout: 50ms}\n",
			"s.yaml:4: step one: waiting for Widget w: not within 50ms: status.x[0] is not set",
		},
		"Several": {
			"it is not clear which", head + "  apply: sample.yaml\n  wait: {field: 'metadata.*', value: 1, timeout: 50ms}\n",
			"s.yaml:4: step one: waiting for Widget w: not within 50ms: metadata.* leads to ",
		},
		"Nowhere": {
			"a text has no elements", head + "  apply: sample.yaml\n  wait: {field: 'metadata.name[0]', timeout: 50ms}\n",
			"s.yaml:4: step one: waiting for Widget w: not within 50ms: metadata.name[0] leads nowhere: ",
		},
		"Set": {
			"it should not be", head + "  apply: sample.yaml\n  wait: {field: spec.size, exists: false, timeout: 50ms}\n",
			"s.yaml:4: step one: waiting for Widget w: not within 50ms: spec.size is set, and should not be",
		},
		"Count": {
			"it is the wrong one", head + "  apply: sample.yaml\n  wait: {kind: Widget, count: 2, timeout: 50ms}\n",
			"s.yaml:4: step one: waiting for Widget: not within 50ms: there are 1, and should be 2",
		},
		"Reason": {
			"the condition has another one", head + "  patch: {apiVersion: example.com/v1, kind: Widget, name: w, " +
				"subresource: status, merge: {status: {conditions: [" + ready + "}]}}}\n" +
				"  wait: {condition: Ready, reason: Done, timeout: 50ms}\n",
			"s.yaml:4: step one: waiting for Widget w: not within 50ms: condition Ready has the reason R, and should have Done",
		},
		"Refused": {
			"the server says why", head + "  apply: {apiVersion: v1, kind: Pod, metadata: {name: p}, spec: {x: 1}}\n",
			"s.yaml:2: step one: applying Pod ",
		},
		"Unknown": {
			"there is no such kind", head + "  apply: {apiVersion: example.com/v1, kind: Gadget, metadata: {name: p}}\n",
			`s.yaml:2: step one: applying Gadget p: `,
		},
		"Nothing to patch": {
			"it is not there", head + "  patch: {kind: Pod, name: p, merge: {spec: {}}}\n",
			`s.yaml:2: step one: patching Pod p: pods "p" not found`,
		},
		"Nothing to delete": {
			"it is not there", head + "  delete: {kind: Pod, name: p}\n",
			`s.yaml:2: step one: deleting Pod p: pods "p" not found`,
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := testkit.New(t)
			s := read(t, files{"s.yaml": tt.text})
			if name == "Reason" {
				k.Apply(newWidget(k))
			}
			err := s.Steps[0].Do(t.Context(), k.Client, k.Namespace)
			if err == nil || !strings.HasPrefix(err.Error(), filepath.Dir(s.File)+"/"+tt.want) {
				t.Errorf("got %v, want %q, because %s", err, tt.want, tt.reason)
			}
			if name == "Unknown" && !strings.HasSuffix(err.Error(), "add its CustomResourceDefinition to the scenario's crds") {
				t.Errorf("%v does not explain the correction", err)
			}
		})
	}
}

func TestDoStopsWithContext(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	s := read(t, files{"s.yaml": "steps:\n- name: one\n  apply: sample.yaml\n  wait: {condition: Ready, timeout: 1h}\n"})
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	if err := s.Steps[0].Do(ctx, k.Client, k.Namespace); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v", err)
	}
	if err := s.Steps[0].Do(ctx, k.Client, k.Namespace); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("afterwards: %v", err)
	}
}

func TestSetUpFails(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	s := read(t, files{"s.yaml": "setup: {apiVersion: v1, kind: Pod, metadata: {name: p}}\n" + nothing})
	err := s.SetUp(t.Context(), k.Client, k.Namespace)
	if !apierrors.IsInvalid(err) || !strings.HasPrefix(err.Error(), "setting up "+s.File+": applying Pod ") {
		t.Errorf("%v", err)
	}
	var pods corev1.PodList
	if err := k.Client.List(t.Context(), &pods, client.InNamespace(k.Namespace)); err != nil || len(pods.Items) > 0 {
		t.Errorf("%v, %v", pods.Items, err)
	}
}

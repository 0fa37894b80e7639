package testkit_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/homeostat-dev/homeostat/testkit"
)

// inNamespace shares the namespace of another test.
func inNamespace(k *testkit.K, obj client.Object) client.Object {
	obj.SetNamespace(k.Namespace)
	return obj
}

func TestFailureMessages(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	quick := func(fake testing.TB) *testkit.K {
		q := testkit.New(fake)
		q.Timeout = 2 * time.Second
		return q
	}
	k.Apply(newWidget("w"))
	held := newConfigMap("held")
	held.Finalizers = []string{"testkit.homeostat.dev/hold"}
	k.Apply(held)
	k.Delete(held)
	tests := map[string]struct {
		reason string
		run    func(q *testkit.K)
		want   []string
	}{
		"NotReady": {
			reason: "the unmet condition, and the whole object",
			run:    func(q *testkit.K) { q.Eventually(inNamespace(k, newWidget("w")), testkit.Ready()) },
			want: []string{
				"waiting for Widget " + k.Namespace + "/w: not within 2s", "ready: it has no condition Ready",
				"last seen:", "kind: Widget", "name: w",
			},
		},
		"NeverThere": {
			reason: "a wrong name should be recognized",
			run:    func(q *testkit.K) { q.Eventually(newWidget("wrong"), testkit.Ready()) },
			want:   []string{"ready: the object does not exist", "there was never such an object"},
		},
		"Held": {
			reason: "what holds an object that should be gone",
			run:    func(q *testkit.K) { q.Eventually(inNamespace(k, newConfigMap("held")), testkit.Gone()) },
			want:   []string{`gone: it is being deleted, held by the finalizers ["testkit.homeostat.dev/hold"]`},
		},
		"NotDeleted": {
			reason: "the object has not been deleted",
			run:    func(q *testkit.K) { q.Eventually(inNamespace(k, newWidget("w")), testkit.Gone()) },
			want:   []string{"gone: it exists and is not being deleted"},
		},
		"UnknownKind": {
			reason: "waiting would not help",
			run: func(q *testkit.K) {
				u := newWidget("w")
				u.SetKind("Gadget")
				q.Eventually(u, testkit.Ready())
			},
			want: []string{"Gadget", "no matches for kind"},
		},
		"WrongType": {
			reason: "a check for another type is a mistake of the test",
			run: func(q *testkit.K) {
				anything := testkit.Match("anything", func(*corev1.Pod) bool { return true })
				q.Eventually(inNamespace(k, newConfigMap("held")), anything)
			},
			want: []string{"anything: it is a *v1.ConfigMap, and the check is for a *v1.Pod"},
		},
		"Wait": {
			reason: "the last reason counts",
			run: func(q *testkit.K) {
				q.Wait("pigs fly", func(context.Context) error { return errors.New("they have no wings") })
			},
			want: []string{"waiting until pigs fly: not within 2s: they have no wings"},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			contains(t, failing(t, func(fake testing.TB) { tt.run(quick(fake)) }), tt.want...)
		})
	}
}

// Eventually must see short-lived states.
func TestEventuallySeesEachState(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	cm := newConfigMap("x")
	k.Apply(cm)
	patch := func() {
		for i := range 50 {
			value := map[bool]string{true: "now", false: "not"}[i == 25]
			patch := client.RawPatch("application/merge-patch+json", []byte(`{"data":{"k":"`+value+`"}}`))
			_ = k.Client.Patch(k.Context(), cm.DeepCopy(), patch)
		}
	}
	var begin sync.Once // with the first state: a later begin of the watch would miss the short-lived one
	k.Eventually(cm.DeepCopy(), testkit.Match("now", func(cm *corev1.ConfigMap) bool {
		begin.Do(func() { go patch() })
		return cm.Data["k"] == "now"
	}))
}

func TestGoneByReplacement(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	cm := newConfigMap("x")
	k.Apply(cm)
	former := cm.DeepCopy()
	k.Delete(cm)
	k.Eventually(cm, testkit.Gone())
	k.Apply(newConfigMap("x"))
	k.Eventually(former, testkit.Gone()) // the original object is gone
	k.Eventually(newConfigMap("x"), testkit.Exists())
}

func TestConsistently(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	k.Apply(newConfigMap("x"))
	k.Consistently(newConfigMap("x"), 100*time.Millisecond, testkit.Exists())
	output := failing(t, func(fake testing.TB) {
		q := testkit.New(fake)
		var once sync.Once
		seen := testkit.Match("seen", func(cm *corev1.ConfigMap) bool {
			once.Do(func() { _ = k.Client.Delete(k.Context(), inNamespace(k, newConfigMap("x"))) })
			return cm != nil
		})
		q.Consistently(inNamespace(k, newConfigMap("x")), 10*time.Second, testkit.Exists(), seen)
	})
	contains(t, output, "watching ConfigMap", "it changed", "exists: the object does not exist", "before that it was:")
}

func TestConditions(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	w := newWidget("w")
	k.Apply(w)
	k.UpdateStatus(w, func() {
		if err := setReady(w); err != nil {
			t.Error(err)
		}
	})
	k.Eventually(w, testkit.Ready(), testkit.Condition("Ready", "True"), testkit.Reason("Ready", "True", "Made"))
	w.Object["spec"] = map[string]any{"size": int64(2)}
	k.Apply(w)
	tests := map[string]struct {
		reason string
		check  testkit.Check
		want   string
	}{
		"Stale":   {"it is about an older generation", testkit.Ready(), "but for generation 1, and the spec is at 2"},
		"Status":  {"the status is the opposite", testkit.Condition("Ready", "False"), "Ready is True (Made: )"},
		"Unknown": {"there is none", testkit.Condition("Fit", "True"), "it has no condition Fit"},
	}
	for name, tt := range tests {
		if got := tt.check.Missing(w); !strings.Contains(got, tt.want) {
			t.Errorf("%s: %q, want %q, because %s", name, got, tt.want, tt.reason)
		}
	}
}

func TestReadyOfBuiltinKinds(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "p"},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}},
	}
	k.Apply(pod)
	if got := testkit.Ready().Missing(pod); got == "" {
		t.Error("a pod that nothing runs is ready")
	}
	k.UpdateStatus(pod, func() {
		pod.Status.Phase = corev1.PodRunning
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	})
	k.Eventually(pod, testkit.Ready())
}

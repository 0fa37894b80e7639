package immortalcontainer_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/homeostat-dev/homeostat/operators/immortalcontainer"
	"github.com/homeostat-dev/homeostat/operators/immortalcontainer/api/v1alpha1"
	"github.com/homeostat-dev/homeostat/testkit"
	"github.com/homeostat-dev/homeostat/testkit/kubelet"
	"github.com/homeostat-dev/homeostat/testkit/recorder"
)

func TestMain(m *testing.M) {
	testkit.Main(m, testkit.Env{
		CRDs: "config/crd", RBAC: "config/rbac", AddToScheme: v1alpha1.AddToScheme, Workloads: true, Nodes: 4,
		AdmissionPolicies: "config/access/fence.yaml",
		NoUnusedRules:     true, AllowedUnusedRules: testkit.ProgramUnusedRules("immortalcontainers.immortalcontainer.flugel.it"),
	})
}

// start runs the operator with its own permissions in the test's namespace.
func start(k *testkit.K, opts ...testkit.StartOption) *testkit.Instance {
	return k.Run(immortalcontainer.Operator, opts...)
}

// startAs runs the operator with this configuration, including its user.
func startAs(k *testkit.K, cfg *rest.Config) *testkit.Instance {
	return start(k, testkit.WithConfig(cfg))
}

func newContainer(name string) *v1alpha1.ImmortalContainer {
	return &v1alpha1.ImmortalContainer{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       v1alpha1.ImmortalContainerSpec{Image: "nginx:latest"},
	}
}

// withShortBackoff returns an ImmortalContainer with a backoff of one second.
func withShortBackoff(name string) *v1alpha1.ImmortalContainer {
	ic := newContainer(name)
	ic.Spec.Restart.InitialBackoff = metav1.Duration{Duration: time.Second}
	ic.Spec.Restart.MaxBackoff = metav1.Duration{Duration: time.Second}
	return ic
}

// podOf returns the pod of an ImmortalContainer in the test's namespace, by name.
func podOf(k *testkit.K, name string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: k.Namespace, Name: name + "-immortalpod"}}
}

func starts(n int64) testkit.Check {
	return testkit.Match("startTimes", func(ic *v1alpha1.ImmortalContainer) bool { return ic.Status.StartTimes == n })
}

func phase(want v1alpha1.Phase) testkit.Check {
	return testkit.Match("phase "+string(want), func(ic *v1alpha1.ImmortalContainer) bool {
		return ic.Status.Phase == want
	})
}

func lastTermination(reason string) testkit.Check {
	return testkit.Match("last termination "+reason, func(ic *v1alpha1.ImmortalContainer) bool {
		return ic.Status.LastTermination != nil && ic.Status.LastTermination.Reason == reason
	})
}

// ready applies the object, waits until it is Ready, and returns the pod.
func ready(k *testkit.K, ic *v1alpha1.ImmortalContainer) *corev1.Pod {
	k.Apply(ic)
	k.Eventually(ic, testkit.Ready())
	pod := podOf(k, ic.Name)
	k.Get(pod)
	return pod
}

// counted checks that the operator has stored the start of a pod and removed its finalizer.
func counted() testkit.Check {
	return testkit.Match("counted", func(p *corev1.Pod) bool { return len(p.Finalizers) == 0 })
}

func kubeletOf(t *testing.T, k *testkit.K) *kubelet.Kubelet {
	t.Helper()
	nodes, err := kubelet.New(k.Config)
	if err != nil {
		t.Fatal(err)
	}
	return nodes
}

// writes lists the requests that change something.
func writes(requests []recorder.Request) []recorder.Request {
	var w []recorder.Request
	for _, r := range requests {
		if r.Verb != "get" && r.Verb != "list" {
			w = append(w, r)
		}
	}
	return w
}

// expectNoRequests fails the test if the operator sends any request within that time.
func expectNoRequests(t *testing.T, k *testkit.K, op *testkit.Instance, during time.Duration) {
	t.Helper()
	before := len(op.Requests())
	select {
	case <-k.Context().Done():
	case <-time.After(during):
	}
	for _, r := range op.Requests()[before:] {
		t.Errorf("request at steady state: %s", r)
	}
}

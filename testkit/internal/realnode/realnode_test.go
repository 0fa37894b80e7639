//go:build linux

package realnode_test

import (
	"errors"
	"os/exec"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/homeostat-dev/homeostat/testkit"
)

func TestMain(m *testing.M) {
	testkit.Main(m, testkit.Env{Real: &testkit.RealNodes{
		Lease: 4 * time.Second, RestartBackoff: time.Second, Ingress: true, Metrics: true,
	}})
}

// start returns a test with real nodes that have the image example/web.
func start(t *testing.T, opts ...testkit.Option) *testkit.K {
	t.Helper()
	k := testkit.New(t, opts...)
	k.Timeout = 2 * time.Minute
	k.LoadPackage("example/web:1", "github.com/homeostat-dev/homeostat/testkit/cmd/web")
	return k
}

// pod has a web server.
func pod(name string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PodSpec{
		TerminationGracePeriodSeconds: new(int64(1)),
		Containers: []corev1.Container{{
			Name: "main", Image: "example/web:1",
			ReadinessProbe: &corev1.Probe{PeriodSeconds: 1, FailureThreshold: 1, ProbeHandler: corev1.ProbeHandler{
				HTTPGet: &corev1.HTTPGetAction{Path: "/", Port: intstr.FromInt32(8080)},
			}},
		}},
	}}
}

func restarts(p *corev1.Pod) int32 {
	if len(p.Status.ContainerStatuses) == 0 {
		return -1
	}
	return p.Status.ContainerStatuses[0].RestartCount
}

// Requests reach the server in a pod, and the status of a response decides.
func TestFetch(t *testing.T) {
	t.Parallel()
	k := start(t)
	p := pod("fetched")
	k.Apply(p)
	k.Eventually(p, testkit.Ready())
	if text, err := k.Fetch(p, 8080, "/"); err != nil || text != p.Name {
		t.Errorf("the response is %q, %v; want the name of the pod", text, err)
	}
	if _, err := k.Fetch(p, 8080, "/write/dev/shm/a?text=b+c"); err != nil {
		t.Error(err)
	}
	if text, err := k.Fetch(p, 8080, "/file/dev/shm/a"); err != nil || text != "b c" {
		t.Errorf("the file has %q, %v; want the parameter of the request", text, err)
	}
	if _, err := k.Fetch(p, 8080, "/file/dev/shm/b"); err == nil || !strings.Contains(err.Error(), "no such file") {
		t.Errorf("the error is %v, want that of the file system", err)
	}
}

// An evicted pod ends.
func TestEvict(t *testing.T) {
	t.Parallel()
	k := start(t)
	p := pod("evicted")
	k.Apply(p)
	k.Eventually(p, testkit.Ready())
	k.Evict(p)
	k.Eventually(p, testkit.Gone())
}

// A killed container is started again by the kubelet, and counted. The time that it waits does not grow: without
// RestartBackoff the last of these starts would be more than a minute after the first.
func TestKill(t *testing.T) {
	t.Parallel()
	k := start(t)
	p := pod("killed")
	k.Apply(p)
	k.Eventually(p, testkit.Ready())
	const kills = 5
	began := time.Now()
	for n := range int32(kills) {
		k.Container(p, "main").Kill()
		k.Eventually(p, testkit.Ready(), testkit.Match("restarted", func(p *corev1.Pod) bool { return restarts(p) == n+1 }))
	}
	if took := time.Since(began); took > time.Minute {
		t.Errorf("%d restarts took %v", kills, took)
	}
}

// A command in a container has its network, and the output is that of the command alone.
func TestExec(t *testing.T) {
	t.Parallel()
	k := start(t)
	p := pod("entered")
	k.Apply(p)
	k.Eventually(p, testkit.Ready())
	if out, err := k.Exec(p.Name, "main", "/program", "-get", "http://127.0.0.1:8080"); err != nil || out != p.Name {
		t.Errorf("the output is %q, %v", out, err)
	}
	out, err := k.Exec(p.Name, "main", "/missing")
	if code := new(exec.ExitError); !errors.As(err, &code) || !strings.Contains(err.Error(), "no such file") {
		t.Errorf("a program that does not exist: %q, %v", out, err)
	}
}

// A container that exceeds its memory limit is killed by the kernel, for this reason, and restarted without the limit.
func TestExhaustMemory(t *testing.T) {
	t.Parallel()
	k := start(t)
	p := pod("exhausted")
	k.Apply(p)
	k.Eventually(p, testkit.Ready())
	for n := range int32(2) {
		k.Container(p, "main").ExhaustMemory()
		k.Eventually(p, testkit.Match("restarted", func(p *corev1.Pod) bool { return restarts(p) == n+1 }), testkit.Ready())
		if last := p.Status.ContainerStatuses[0].LastTerminationState.Terminated; last == nil || last.Reason != "OOMKilled" {
			t.Errorf("the container ended with %+v, want reason OOMKilled", last)
		}
	}
}

// A paused container answers no probe, and goes on later.
func TestPause(t *testing.T) {
	t.Parallel()
	k := start(t)
	p := pod("paused")
	k.Apply(p)
	k.Eventually(p, testkit.Ready())
	c := k.Container(p, "main")
	c.Pause()
	k.Eventually(p, testkit.Condition("Ready", metav1.ConditionFalse))
	c.Continue()
	k.Eventually(p, testkit.Ready())
	if restarts(p) != 0 {
		t.Errorf("the container was restarted %d times", restarts(p))
	}
}

// The pods on a node without power stay, with the last state that the node has told, and run again with the node, also one
// whose container was paused.
func TestPowerLoss(t *testing.T) {
	t.Parallel()
	k := start(t, testkit.Private())
	pods := []*corev1.Pod{pod("lost"), pod("lost-while-paused")}
	for _, p := range pods {
		p.Spec.NodeName = "node-1"
		k.Apply(p)
		k.Eventually(p, testkit.Ready())
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-1"}}
	k.Container(pods[1], "main").Pause()
	k.Node("node-1").Stop()
	k.Eventually(node, testkit.Condition("Ready", metav1.ConditionStatus(corev1.ConditionUnknown)))
	k.Node("node-1").Start()
	k.Eventually(node, testkit.Condition("Ready", metav1.ConditionTrue))
	for _, p := range pods {
		k.Eventually(p, testkit.Match("running again", func(p *corev1.Pod) bool {
			return p.Status.Phase == corev1.PodRunning && restarts(p) == 1
		}))
	}
}

// The containers of an isolated node go on: they were not restarted when it is connected again.
func TestIsolation(t *testing.T) {
	t.Parallel()
	k := start(t, testkit.Private())
	p := pod("isolated")
	p.Spec.NodeName = "node-0"
	k.Apply(p)
	k.Eventually(p, testkit.Ready())
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-0"}}
	k.Node("node-0").Isolate()
	k.Eventually(node, testkit.Condition("Ready", metav1.ConditionStatus(corev1.ConditionUnknown)))
	k.Node("node-0").Connect()
	k.Eventually(node, testkit.Condition("Ready", metav1.ConditionTrue))
	k.Eventually(p, testkit.Ready())
	if restarts(p) != 0 {
		t.Errorf("the container was restarted %d times", restarts(p))
	}
}

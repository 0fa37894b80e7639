package application_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/homeostat-dev/homeostat/testkit"
)

// A test breaks one container on a simulated node as it does on a real one.
func TestBreakContainer(t *testing.T) {
	t.Parallel()
	if onRealNodes {
		t.Skip("package realnode tests this on real nodes")
	}
	k := testkit.New(t)
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}}
	p.Spec.Containers = []corev1.Container{{Name: "main", Image: "main:1"}}
	k.Apply(p)
	k.Eventually(p, testkit.Ready())
	c := k.Container(p, "main")
	restarted := func(n int32, reason string) testkit.Check {
		return testkit.Match("restarted after "+reason, func(p *corev1.Pod) bool {
			s := p.Status.ContainerStatuses[0]
			return s.Ready && s.RestartCount == n && s.LastTerminationState.Terminated.Reason == reason
		})
	}
	c.Kill()
	k.Eventually(p, restarted(1, "Error"))
	c.ExhaustMemory()
	k.Eventually(p, restarted(2, "OOMKilled"))
	c.Pause()
	k.Eventually(p, testkit.Condition("Ready", metav1.ConditionFalse))
	c.Continue()
	k.Eventually(p, testkit.Ready(), restarted(2, "OOMKilled"))
}

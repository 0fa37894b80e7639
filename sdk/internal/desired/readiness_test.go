package desired

import (
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/homeostat-dev/homeostat/sdk/conditions"
	"github.com/homeostat-dev/homeostat/sdk/internal/retry"
)

// TestReadinessIsCachedByVersion checks that readiness is computed again for a changed child and for a pending pod.
func TestReadinessIsCachedByVersion(t *testing.T) {
	t.Parallel()
	known := ReadinessCache{}
	set := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Name: "a", UID: "s", ResourceVersion: "1"}}
	set.Spec.Replicas = new(int32(1))
	sets := &Child{GVK: appsv1.SchemeGroupVersion.WithKind("StatefulSet"), readinessCache: known}
	if ready, _ := sets.kstatusReadiness(set); ready {
		t.Error("a set without a pod is ready")
	}
	set.Status = appsv1.StatefulSetStatus{Replicas: 1, ReadyReplicas: 1, CurrentReplicas: 1}
	if ready, _ := sets.kstatusReadiness(set); ready {
		t.Error("the readiness of one version of a set was computed twice")
	}
	set.ResourceVersion = "2"
	if ready, message := sets.kstatusReadiness(set); !ready {
		t.Error("the next version of the set is not ready:", message)
	}

	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Name: "b", UID: "p", ResourceVersion: "1", CreationTimestamp: metav1.NewTime(time.Now()),
	}}
	pod.Status = corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{{
		Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable,
	}}}
	pods := &Child{GVK: corev1.SchemeGroupVersion.WithKind("Pod"), readinessCache: known}
	if pods.kstatusReadiness(pod); pods.Failed {
		t.Error("a pod that was just created has failed")
	}
	pod.CreationTimestamp = metav1.NewTime(time.Now().Add(-time.Hour)) // one hour ago
	if pods.kstatusReadiness(pod); !pods.Failed {
		t.Error("a pod that is unschedulable for an hour has not failed")
	}
}

// TestReadinessNamesNoInternals checks the messages for a change that the child's controller has not finished.
func TestReadinessNamesNoInternals(t *testing.T) {
	t.Parallel()
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "a", UID: "d", ResourceVersion: "1", Generation: 2}}
	d.Spec.Replicas = new(int32(1))
	d.Status = appsv1.DeploymentStatus{ObservedGeneration: 1, Replicas: 3, UpdatedReplicas: 1, AvailableReplicas: 1}
	gvk := appsv1.SchemeGroupVersion.WithKind("Deployment")
	if r := readinessOf(d, gvk); r.ready || r.message != "the last change is not processed yet" {
		t.Errorf("ready %t, message %q", r.ready, r.message)
	}
	d.Status.ObservedGeneration = 2
	if r := readinessOf(d, gvk); r.ready || r.message != "pods to be stopped: 2" {
		t.Errorf("ready %t, message %q", r.ready, r.message)
	}
}

// TestMessageOfAChildIsBounded checks that a report holds no more than a condition of what the API server says.
func TestMessageOfAChildIsBounded(t *testing.T) {
	t.Parallel()
	c := &Child{Err: retry.Invalid("ThingRejected", "%s", strings.Repeat("no ", conditions.MaxMessage))}
	if got := c.Status(); len(got.Message) > conditions.MaxMessage || got.Reason != "ThingRejected" {
		t.Errorf("reason %s, and a message of %d bytes", got.Reason, len(got.Message))
	}
}

// BenchmarkReadiness measures the computation of readiness for a new version of a child.
func BenchmarkReadiness(b *testing.B) {
	const owned = `{"f:metadata":{"f:annotations":{"f:homeostat.dev/applied":{}},"f:labels":{"f:app":{}}},` +
		`"f:spec":{"f:replicas":{},"f:selector":{},"f:serviceName":{},"f:template":{"f:spec":{"f:containers":{}}}}}`
	set := &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Name: "a", Generation: 1, ManagedFields: []metav1.ManagedFieldsEntry{{
			Manager: "us", Operation: metav1.ManagedFieldsOperationApply, FieldsV1: metav1.NewFieldsV1(owned),
		}}},
		Spec:   appsv1.StatefulSetSpec{Replicas: new(int32(1)), Selector: &metav1.LabelSelector{}},
		Status: appsv1.StatefulSetStatus{ObservedGeneration: 1, Replicas: 1, ReadyReplicas: 1, CurrentReplicas: 1},
	}
	gvk := appsv1.SchemeGroupVersion.WithKind("StatefulSet")
	b.ReportAllocs()
	for b.Loop() {
		if r := readinessOf(set, gvk); !r.ready {
			b.Fatal(r.message)
		}
	}
	if len(set.ManagedFields) == 0 {
		b.Error("the object, shared with a cache, was changed")
	}
}

package testkit_test

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/homeostat-dev/homeostat/testkit"
)

// database returns a custom resource with a condition that was set for a generation of its spec.
func database(status metav1.ConditionStatus, reason, message string, observed int64) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "shop.example/v1", "kind": "Database",
		"metadata": map[string]any{"name": "orders", "generation": int64(2)},
		"status": map[string]any{"conditions": []any{map[string]any{
			"type": "Ready", "status": string(status), "reason": reason, "message": message, "observedGeneration": observed,
		}}},
	}}
}

// evaluate prints the result of a check. K.Eventually does the same with each version of the object.
func evaluate(obj client.Object, check testkit.Check) {
	if missing := check.Missing(obj); missing != "" {
		fmt.Printf("%s: not yet, %s\n", check.Name, missing)
		return
	}
	fmt.Printf("%s: met\n", check.Name)
}

// Ready has one meaning for a custom resource, its condition Ready, and another one for each kind of Kubernetes.
func ExampleReady() {
	evaluate(database(metav1.ConditionFalse, "Progressing", "1 of 3 members is up", 2), testkit.Ready())
	evaluate(database(metav1.ConditionTrue, "AllUp", "3 of 3 members are up", 2), testkit.Ready())

	web := &appsv1.Deployment{
		TypeMeta: metav1.TypeMeta{APIVersion: "apps/v1", Kind: "Deployment"},
		Spec:     appsv1.DeploymentSpec{Replicas: new(int32(3))},
		Status:   appsv1.DeploymentStatus{Replicas: 3, UpdatedReplicas: 3, ReadyReplicas: 1, AvailableReplicas: 1},
	}
	evaluate(web, testkit.Ready())
	evaluate(nil, testkit.Ready())
	// Output:
	// ready: not yet, Ready is False (Progressing: 1 of 3 members is up)
	// ready: met
	// ready: not yet, it is InProgress: Available: 1/3
	// ready: not yet, the object does not exist
}

// A condition of an earlier generation is not accepted: the operator has not reconciled the new spec yet.
func ExampleCondition() {
	stalled := testkit.Condition("Stalled", metav1.ConditionTrue)
	ready := testkit.Condition("Ready", metav1.ConditionTrue)
	evaluate(database(metav1.ConditionTrue, "AllUp", "3 of 3 members are up", 1), ready)
	evaluate(database(metav1.ConditionTrue, "AllUp", "3 of 3 members are up", 2), ready)
	evaluate(database(metav1.ConditionTrue, "AllUp", "3 of 3 members are up", 2), stalled)
	// Output:
	// Ready=True: not yet, Ready is True, but for generation 1, and the spec is at 2
	// Ready=True: met
	// Stalled=True: not yet, it has no condition Stalled
}

// Reason tells two causes of the same condition status apart. The message is shown, because it usually has the cause.
func ExampleReason() {
	check := testkit.Reason("Ready", metav1.ConditionFalse, "QuotaExceeded")
	evaluate(database(metav1.ConditionFalse, "Progressing", "1 of 3 members is up", 2), check)
	evaluate(database(metav1.ConditionFalse, "QuotaExceeded", "pods: used 10, limited 10", 2), check)
	// Output:
	// Ready=False/QuotaExceeded: not yet, the reason of Ready is Progressing (1 of 3 members is up)
	// Ready=False/QuotaExceeded: met
}

// Match checks a typed object with any function.
func ExampleMatch() {
	scaled := testkit.Match("3 replicas", func(d *appsv1.Deployment) bool {
		return d.Spec.Replicas != nil && *d.Spec.Replicas == 3
	})
	evaluate(&appsv1.Deployment{Spec: appsv1.DeploymentSpec{Replicas: new(int32(1))}}, scaled)
	evaluate(&appsv1.Deployment{Spec: appsv1.DeploymentSpec{Replicas: new(int32(3))}}, scaled)
	evaluate(&corev1.Service{}, scaled)
	// Output:
	// 3 replicas: not yet, it does not match
	// 3 replicas: met
	// 3 replicas: not yet, it is a *v1.Service, and the check is for a *v1.Deployment
}

// Gone explains what keeps an object from being deleted.
func ExampleGone() {
	now := metav1.Now()
	web := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "web"}}
	evaluate(web, testkit.Gone())
	web.DeletionTimestamp = &now
	web.Finalizers = []string{"shop.example/backup"}
	evaluate(web, testkit.Gone())
	evaluate(nil, testkit.Gone())
	evaluate(nil, testkit.Exists())
	// Output:
	// gone: not yet, it exists and is not being deleted
	// gone: not yet, it is being deleted, held by the finalizers ["shop.example/backup"]
	// gone: met
	// exists: not yet, the object does not exist
}

// A check of one's own returns what is missing, so that a failed test explains itself. In a test it is an
// argument of Eventually.
func ExampleCheck() {
	inZone := testkit.Check{Name: "has a zone", Missing: func(obj client.Object) string {
		if obj == nil {
			return "there is no object"
		}
		if zone := obj.GetLabels()[corev1.LabelTopologyZone]; zone == "" {
			return fmt.Sprintf("%s has no label %s", obj.GetName(), corev1.LabelTopologyZone)
		}
		return ""
	}}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-1"}}
	evaluate(node, inZone)
	node.Labels = map[string]string{corev1.LabelTopologyZone: "a"}
	evaluate(node, inZone)
	// Output:
	// has a zone: not yet, node-1 has no label topology.kubernetes.io/zone
	// has a zone: met
}

// The oracles are checked at the end of each test. WithoutOracles disables one, with a reason for the reader:
//
//	k := testkit.New(t, testkit.WithoutOracles("the operator has no role for Secrets on purpose", testkit.Forbidden))
func ExampleOracles() {
	for _, oracle := range testkit.Oracles() {
		fmt.Println(oracle)
	}
	// Output:
	// forbidden
	// refused
	// status
	// spec-written
	// panic
	// goroutine-leak
}

package apply_test

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/homeostat-dev/homeostat/sdk/apply"
)

// Only fields that are set are intended. Zero values without a pointer are left to the server's defaults.
func ExampleNewIntent() {
	deployment := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"},
		Spec: appsv1.DeploymentSpec{
			Replicas: new(int32(0)), // means zero
			Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "web:1"}}}},
		},
	}
	intent, err := apply.NewIntent(deployment, scheme.Scheme, apply.Zero("spec.paused"))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(intent)
	fmt.Println(intent.Fields()["spec"])

	_, err = apply.NewIntent(deployment, scheme.Scheme, apply.Zero("spec.pause"))
	fmt.Println(err)
	// Output:
	// Deployment shop/web
	// map[paused:false replicas:0 template:map[spec:map[containers:[map[image:web:1 name:web]]]]]
	// reading the intent of Deployment "web": zero value of field "spec.pause": *v1.Deployment has no such field
}

// A reconciler of controller-runtime creates or updates its child with one call. It makes no request if nothing differs.
func ExampleFieldManager_Apply() {
	ctx, owner := context.Background(), apply.NewFieldManager("shop-operator")
	c, shop := server()
	for _, image := range []string{"web:1", "web:1", "web:2"} {
		web := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: image}}},
		}
		result, err := owner.Apply(ctx, c, web, apply.ControlledBy(shop))
		fmt.Println(result, err)
	}
	// Output:
	// created <nil>
	// unchanged <nil>
	// updated <nil>
}

// server returns a fake API server with the object of the example.
func server() (client.Client, *corev1.ConfigMap) {
	shop := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "shop", UID: "1d"}}
	shop.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ConfigMap"))
	return fake.NewClientBuilder().WithReturnManagedFields().WithObjects(shop).Build(), shop
}

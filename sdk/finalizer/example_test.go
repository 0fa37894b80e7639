package finalizer_test

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/homeostat-dev/homeostat/sdk/finalizer"
)

// A reconciler stores the finalizer before it creates an external resource, and removes it after the resource was deleted.
func Example() {
	const name = "example.com/bucket"
	ctx := context.Background()
	c := fake.NewClientBuilder().WithObjects(&corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "photos", Finalizers: []string{"example.com/backup"}},
	}).Build()
	reconcile := func() {
		var o corev1.ConfigMap
		if err := c.Get(ctx, client.ObjectKey{Namespace: "shop", Name: "photos"}, &o); err != nil {
			fmt.Println(err)
			return
		}
		if o.DeletionTimestamp.IsZero() {
			added, err := finalizer.Add(ctx, c, &o, name) // on a conflict retry with a newer object
			fmt.Println("added:", added, err)
			return // create the bucket here
		}
		// delete the bucket here
		removed, err := finalizer.Remove(ctx, c, &o, name)
		fmt.Println("removed:", removed, err, "others:", o.Finalizers)
	}
	reconcile()
	reconcile()
	_ = c.Delete(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "photos"}})
	reconcile()
	// Output:
	// added: true <nil>
	// added: false <nil>
	// removed: true <nil> others: [example.com/backup]
}

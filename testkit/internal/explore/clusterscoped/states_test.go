package clusterscoped_test

import (
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/homeostat-dev/homeostat/testkit"
)

func TestStatesOfClusterScopedObject(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	class := func() *storagev1.StorageClass {
		return &storagev1.StorageClass{
			ObjectMeta: metav1.ObjectMeta{Name: k.Namespace + "-fast"}, Provisioner: "example.com/none",
		}
	}
	fast := class()
	k.Apply(fast)
	k.Update(fast, func() { fast.Labels = map[string]string{"size": "2"} })
	k.Delete(fast)
	k.Apply(class())
	var got []string
	for _, s := range k.States(class()) {
		if s == nil {
			got = append(got, "deleted")
			continue
		}
		got = append(got, "size "+s.GetLabels()["size"])
	}
	if diff := cmp.Diff([]string{"size ", "size 2", "deleted", "size "}, got); diff != "" {
		t.Errorf("states (-want +got):\n%s", diff)
	}
	if states := k.States(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: k.Namespace}}); len(states) != 1 {
		t.Errorf("the Namespace of the test has %d states, want 1", len(states))
	}
	former := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "kube-public"}}
	if states := k.States(former); len(states) != 0 {
		t.Errorf("a Namespace that existed before the test and was not changed has the states %v", states)
	}
	k.Get(former)
	for i := range 20 {
		k.Update(former, func() { former.Annotations = map[string]string{"example.com/states": strconv.Itoa(i)} })
		if states := k.States(former); len(states) != i+1 {
			t.Fatalf("a Namespace that existed before the test has %d states after %d changes", len(states), i+1)
		}
	}
}

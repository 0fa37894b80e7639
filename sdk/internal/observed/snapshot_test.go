package observed

import (
	"slices"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/homeostat-dev/homeostat/sdk/internal/object"
)

// TestUnplannedOrder checks the reverse order of creation.
func TestUnplannedOrder(t *testing.T) {
	t.Parallel()
	deployment := appsv1.SchemeGroupVersion.WithKind("Deployment")
	configMap, secret := corev1.SchemeGroupVersion.WithKind("ConfigMap"), corev1.SchemeGroupVersion.WithKind("Secret")
	s := NewSnapshot(&Kinds{Owned: []schema.GroupVersionKind{secret, deployment, configMap}})
	now := time.Now()
	for _, c := range []struct {
		gvk  schema.GroupVersionKind
		name string
		age  time.Duration
	}{
		{secret, "z", time.Hour},
		{configMap, "old", 2 * time.Hour},
		{configMap, "a", time.Hour},
		{secret, "b", time.Hour},
		{deployment, "d", time.Hour},
		{secret, "young", time.Minute},
	} {
		o := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
			Name: c.name, CreationTimestamp: metav1.NewTime(now.Add(-c.age)),
		}}
		id := object.ID{GVK: c.gvk}
		id.Key.Name = c.name
		s.Children[id] = Child{Object: o}
	}
	var got []string
	for _, id := range s.Unplanned(nil) {
		got = append(got, id.Key.Name)
	}
	if want := []string{"young", "a", "d", "z", "b", "old"}; !slices.Equal(got, want) {
		t.Errorf("order %v, want %v", got, want)
	}
}

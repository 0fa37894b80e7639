package policy_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/homeostat-dev/homeostat/operators/myapp/internal/policy"
)

func TestSingleNode(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		modes []corev1.PersistentVolumeAccessMode
		want  bool
	}{
		{[]corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, true},
		{[]corev1.PersistentVolumeAccessMode{corev1.ReadWriteOncePod}, true},
		{[]corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce, corev1.ReadWriteMany}, false},
		{[]corev1.PersistentVolumeAccessMode{corev1.ReadOnlyMany}, false},
	} {
		if got := policy.SingleNode(c.modes); got != c.want {
			t.Errorf("%v: %t, want %t", c.modes, got, c.want)
		}
	}
}

// A granted size stays, and an expansion that was not granted can be undone.
func TestKeepSize(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		want, asked, capacity string
		phase                 corev1.PersistentVolumeClaimPhase
		size                  string
	}{
		"as it is":                     {"1Gi", "1Gi", "1Gi", corev1.ClaimBound, "1Gi"},
		"more":                         {"2Gi", "1Gi", "1Gi", corev1.ClaimBound, "2Gi"},
		"less than was granted":        {"1Gi", "2Gi", "2Gi", corev1.ClaimBound, "2Gi"},
		"less than a volume that fits": {"1Gi", "2Gi", "5Gi", corev1.ClaimBound, "2Gi"},
		"an expansion taken back":      {"2Gi", "9Gi", "1Gi", corev1.ClaimBound, "2Gi"},
		"taken back too far":           {"1Gi", "9Gi", "1Gi", corev1.ClaimBound, "1Gi"},
		"more before it is bound":      {"2Gi", "1Gi", "0", corev1.ClaimPending, "1Gi"},
		"less before it is bound":      {"1Gi", "2Gi", "0", corev1.ClaimPending, "2Gi"},
		"lost":                         {"1Gi", "2Gi", "2Gi", corev1.ClaimLost, "2Gi"},
	} {
		claim := func(asked, capacity string) *corev1.PersistentVolumeClaim {
			o := &corev1.PersistentVolumeClaim{Status: corev1.PersistentVolumeClaimStatus{
				Phase: c.phase, Capacity: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(capacity)},
			}}
			o.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(asked)}
			return o
		}
		want := claim(c.want, "0")
		policy.KeepSize(want, claim(c.asked, c.capacity))
		if got := want.Spec.Resources.Requests.Storage().String(); got != c.size {
			t.Errorf("%s: %s, want %s", name, got, c.size)
		}
	}
}

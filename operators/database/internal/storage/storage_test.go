package storage_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/homeostat-dev/homeostat/operators/database/internal/storage"
)

func claim(name, asked, has string) *corev1.PersistentVolumeClaim {
	c := &corev1.PersistentVolumeClaim{}
	c.Name = name
	c.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(asked)}
	if has != "" {
		c.Status.Phase = corev1.ClaimBound
		c.Status.Capacity = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(has)}
	}
	return c
}

func TestRequest(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		asked, has, size string
		expandable       bool
		want, reason     string
	}{
		"as it is":                   {"10Gi", "10Gi", "10Gi", true, "10Gi", "nothing changed"},
		"more":                       {"10Gi", "10Gi", "20Gi", true, "20Gi", "its class can"},
		"more of a class that can't": {"10Gi", "10Gi", "20Gi", false, "10Gi", "the API server would refuse it"},
		"more without a volume":      {"10Gi", "", "20Gi", true, "10Gi", "only a bound claim can change"},
		"less than it has":           {"20Gi", "20Gi", "10Gi", true, "20Gi", "no claim becomes smaller"},
		"less, rounded up":           {"20Gi", "21Gi", "10Gi", true, "20Gi", "it was granted more than it asked for"},
		"a failed expansion lowered": {"10Ti", "10Gi", "15Gi", true, "15Gi", "it was never granted"},
		"lowered in a stopped class": {"10Ti", "10Gi", "15Gi", false, "15Gi", "less is no expansion"},
		"a failed one taken back":    {"10Ti", "10Gi", "10Gi", true, "10Ti", "the API server accepts only more than it has"},
		"more in the middle of one":  {"20Gi", "10Gi", "30Gi", true, "30Gi", "the user asks for more"},
	} {
		size := resource.MustParse(c.size)
		if got := storage.Request(claim("a", c.asked, c.has), size, c.expandable); got.String() != c.want {
			t.Errorf("%s: %s, want %s, because %s", name, got.String(), c.want, c.reason)
		}
	}
}

func TestAssess(t *testing.T) {
	t.Parallel()
	failed := claim("c", "20Gi", "10Gi")
	failed.Status.Conditions = []corev1.PersistentVolumeClaimCondition{{
		Type: corev1.PersistentVolumeClaimControllerResizeError, Status: corev1.ConditionTrue, Message: "no room",
	}}
	infeasible := claim("c", "20Gi", "10Gi")
	infeasible.Status.AllocatedResourceStatuses = map[corev1.ResourceName]corev1.ClaimResourceStatus{
		corev1.ResourceStorage: corev1.PersistentVolumeClaimControllerResizeInfeasible,
	}
	waiting := claim("c", "20Gi", "10Gi")
	waiting.Status.Conditions = []corev1.PersistentVolumeClaimCondition{{
		Type: corev1.PersistentVolumeClaimFileSystemResizePending, Status: corev1.ConditionTrue,
	}}
	grown, small := claim("a", "20Gi", "20Gi"), claim("b", "20Gi", "10Gi")
	for name, c := range map[string]struct {
		claims  []*corev1.PersistentVolumeClaim
		members int
		able    bool
		reason  string
		message string
		byHand  bool
	}{
		"all have it": {[]*corev1.PersistentVolumeClaim{grown}, 1, true, storage.Satisfied, "has 20Gi", false},
		"larger than that": {
			[]*corev1.PersistentVolumeClaim{claim("a", "30Gi", "32Gi")}, 1, false, storage.Satisfied, "has 20Gi", false,
		},
		"none yet": {nil, 2, true, storage.Provisioning, "0 of 2 claims", false},
		"one is unbound": {
			[]*corev1.PersistentVolumeClaim{grown, claim("b", "20Gi", "")}, 2, true, storage.Provisioning, "b has no volume", false,
		},
		"one is growing": {[]*corev1.PersistentVolumeClaim{grown, small}, 2, true, storage.Resizing, "b has 10Gi", false},
		"one waits": {
			[]*corev1.PersistentVolumeClaim{waiting}, 1, true, storage.Resizing, "has yet to grow the file system", false,
		},
		"the driver fails": {
			[]*corev1.PersistentVolumeClaim{grown, small, failed}, 3, true, storage.ResizeFailed, "no room", false,
		},
		"it cannot":        {[]*corev1.PersistentVolumeClaim{infeasible}, 1, true, storage.ResizeFailed, "Infeasible", false},
		"the class cannot": {[]*corev1.PersistentVolumeClaim{grown, small}, 2, false, storage.NotSupported, "of b does not", true},
	} {
		got := storage.Assess(resource.MustParse("20Gi"), c.claims, c.members, func(string) bool { return c.able })
		if got.Reason != c.reason || !strings.Contains(got.Message, c.message) || got.Manual != c.byHand {
			t.Errorf("%s: %+v, want %s, %q, %t", name, got, c.reason, c.message, c.byHand)
		}
		if got.Done() != (c.reason == storage.Satisfied) {
			t.Errorf("%s: done is %t", name, got.Done())
		}
	}
}

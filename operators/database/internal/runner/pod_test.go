//go:build linux

package runner

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/homeostat-dev/homeostat/testkit"
)

// A UID mismatch is distinguished from other validation errors.
func TestUIDMismatch(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web-0"}, Spec: corev1.PodSpec{
		SchedulerName: "none", Containers: []corev1.Container{{Name: "web", Image: "web"}},
	}}
	k.Apply(pod)
	const another = "8cb8e8fc-8c97-4b7a-bd62-c2265bd748c0"
	twice := []corev1.PodIP{{IP: "198.18.0.4"}, {IP: "198.18.0.5"}}
	for name, c := range map[string]struct {
		uid       types.UID
		status    corev1.PodStatus
		isInvalid bool
		isAnother bool
	}{
		"well":                {pod.UID, corev1.PodStatus{Reason: "Well"}, false, false},
		"another":             {another, corev1.PodStatus{Reason: "Well"}, true, true},
		"invalid":             {pod.UID, corev1.PodStatus{PodIP: twice[0].IP, PodIPs: twice}, true, false},
		"another and invalid": {another, corev1.PodStatus{PodIP: twice[0].IP, PodIPs: twice}, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			patch, err := statusPatch(c.uid, &c.status)
			if err != nil {
				t.Fatal(err)
			}
			err = k.Client.Status().Patch(t.Context(), pod.DeepCopy(), client.RawPatch(types.StrategicMergePatchType, patch))
			if apierrors.IsInvalid(err) != c.isInvalid || isUIDMismatch(err) != c.isAnother {
				t.Errorf("%v", err)
			}
		})
	}
}

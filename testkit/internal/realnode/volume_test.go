//go:build linux

package realnode_test

import (
	"context"
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/homeostat-dev/homeostat/testkit"
)

// A volume for one node is not given to a second one before the pod on the first is gone. The second pod then has its
// content.
func TestVolumeIsOnOneNode(t *testing.T) {
	t.Parallel()
	k := start(t)
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: "data"}}
	claim.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	claim.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("512Mi")}
	k.Apply(claim)
	on := func(node string) *corev1.Pod {
		p := pod("on-" + node)
		p.Spec.NodeName = node
		p.Spec.SecurityContext = &corev1.PodSecurityContext{FSGroup: new(int64(65532))}
		p.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "data", MountPath: "/data"}}
		p.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim.Name},
		}}}
		k.Apply(p)
		return p
	}
	first := on("node-0")
	k.Eventually(first, testkit.Ready())
	if _, err := k.Fetch(first, 8080, "/write/data/text?text=stored"); err != nil {
		t.Fatal(err)
	}
	second := on("node-1")
	k.Wait("an event says why the second pod waits", func(ctx context.Context) error {
		events := &corev1.EventList{}
		err := k.Client.List(ctx, events, client.InNamespace(k.Namespace), client.MatchingFields{
			"involvedObject.name": second.Name, "reason": "FailedAttachVolume",
		})
		if err == nil && len(events.Items) == 0 {
			err = errors.New("no event")
		}
		return err
	})
	k.Eventually(second, testkit.Match("reported by kubelet", func(p *corev1.Pod) bool { // the event may be earlier
		return len(p.Status.ContainerStatuses) > 0
	}))
	if restarts(second) != 0 || second.Status.ContainerStatuses[0].State.Waiting == nil {
		t.Errorf("the second pod runs: %+v", second.Status)
	}
	k.Delete(first)
	k.Eventually(second, testkit.Ready())
	if out, err := k.Fetch(second, 8080, "/file/data/text"); err != nil || out != "stored" {
		t.Errorf("the second pod serves %q, %v", out, err)
	}
}

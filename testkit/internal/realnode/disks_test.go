//go:build linux

package realnode_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/homeostat-dev/homeostat/testkit"
)

// withClaim adds a volume to a pod, at /data, and returns its claim.
func withClaim(k *testkit.K, p *corev1.Pod) *corev1.PersistentVolumeClaim {
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: p.Name}}
	claim.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	claim.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("512Mi")}
	k.Apply(claim)
	p.Spec.SecurityContext = &corev1.PodSecurityContext{FSGroup: new(int64(65532))}
	p.Spec.Containers[0].VolumeMounts = append(p.Spec.Containers[0].VolumeMounts,
		corev1.VolumeMount{Name: "data", MountPath: "/data"})
	p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: "data", VolumeSource: corev1.VolumeSource{
		PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim.Name},
	}})
	return claim
}

// mustBeFull fails unless the server of a pod cannot write, because there is no space.
func mustBeFull(k *testkit.K, p *corev1.Pod, dir string) error {
	_, err := k.Fetch(p, 8080, "/write/"+dir+"/more?text=more")
	if err == nil {
		return errors.New("the server writes to " + dir)
	}
	if !strings.Contains(err.Error(), "no space left on device") {
		return err
	}
	return nil
}

func mustWrite(t *testing.T, k *testkit.K, p *corev1.Pod, dir string) {
	t.Helper()
	if _, err := k.Fetch(p, 8080, "/write/"+dir+"/text?text=stored"); err != nil {
		t.Fatal(err)
	}
}

// A full volume stays full in the next pod, and has space again when it has grown, or when it is freed.
func TestFillVolume(t *testing.T) {
	t.Parallel()
	k := start(t)
	p := pod("filled")
	claim := withClaim(k, p)
	next := p.DeepCopy()
	k.Apply(p)
	k.Eventually(p, testkit.Ready())
	mustWrite(t, k, p, "data")
	k.Volume(claim).Fill()
	if err := mustBeFull(k, p, "data"); err != nil {
		t.Error(err)
	}
	if text, err := k.Fetch(p, 8080, "/file/data/text"); err != nil || text != "stored" {
		t.Errorf("the full volume has %q, %v", text, err)
	}
	k.Delete(p)
	k.Eventually(p, testkit.Gone())
	k.Apply(next)
	k.Eventually(next, testkit.Ready())
	if err := mustBeFull(k, next, "data"); err != nil {
		t.Errorf("after the volume was mounted again: %v", err)
	}
	k.Update(claim, func() {
		claim.Spec.Resources.Requests[corev1.ResourceStorage] = resource.MustParse("1Gi")
	})
	k.Eventually(claim, testkit.Match("has grown", func(c *corev1.PersistentVolumeClaim) bool {
		return c.Status.Capacity.Storage().Value() == 1<<30
	}))
	mustWrite(t, k, next, "data")
	k.Volume(claim).Fill()
	if err := mustBeFull(k, next, "data"); err != nil {
		t.Errorf("after the volume was filled again: %v", err)
	}
	k.Volume(claim).Free()
	mustWrite(t, k, next, "data")
}

// Containers get no space on the full disk of their node, and kubelet evicts them, which ends when it can write again. The
// node recovers.
func TestFillDisk(t *testing.T) {
	t.Parallel()
	k := start(t, testkit.Private())
	p := pod("filled")
	p.Spec.NodeName = "node-0"
	p.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "scratch", MountPath: "/scratch"}}
	p.Spec.Volumes = []corev1.Volume{{Name: "scratch", VolumeSource: corev1.VolumeSource{
		EmptyDir: &corev1.EmptyDirVolumeSource{},
	}}}
	other := p.DeepCopy()
	other.Name = "other"
	other.Spec.NodeName = "node-1"
	for _, p := range []*corev1.Pod{p, other} {
		k.Apply(p)
		k.Eventually(p, testkit.Ready())
		mustWrite(t, k, p, "scratch")
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-0"}}
	k.Node("node-0").FillDisk()
	if err := mustBeFull(k, p, "scratch"); err != nil {
		t.Error(err)
	}
	k.Eventually(node, testkit.Condition("DiskPressure", metav1.ConditionTrue))
	k.Wait("kubelet evicts the pod", func(ctx context.Context) error {
		events := &corev1.EventList{}
		err := k.Client.List(ctx, events, client.InNamespace(k.Namespace), client.MatchingFields{
			"involvedObject.name": p.Name, "reason": "Evicted",
		})
		if err == nil && len(events.Items) == 0 {
			err = errors.New("no event")
		}
		return err
	})
	mustWrite(t, k, other, "scratch")
	k.Node("node-0").RestoreDisk()
	k.Eventually(p, testkit.Match("ended by kubelet", func(p *corev1.Pod) bool {
		return p.Status.Phase != corev1.PodRunning && slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
			return c.Type == corev1.DisruptionTarget && c.Reason == corev1.PodReasonTerminationByKubelet
		})
	}))
	k.Eventually(node, testkit.Condition("DiskPressure", metav1.ConditionFalse))
	next := pod("next")
	next.Spec.NodeName = "node-0"
	next.Spec.Containers[0].VolumeMounts = p.Spec.Containers[0].VolumeMounts
	next.Spec.Volumes = p.Spec.Volumes
	k.Apply(next)
	k.Eventually(next, testkit.Ready())
	mustWrite(t, k, next, "scratch")
}

// Synchronized writes of containers take longer on slow disks: on those of the node, and on volumes, also of containers that
// start later.
func TestSlowDisk(t *testing.T) {
	t.Parallel()
	k := start(t, testkit.Private())
	const operations, writes = 5, 10
	started := func(name string) *corev1.Pod {
		p := pod(name)
		p.Spec.NodeName = "node-0"
		withClaim(k, p)
		p.Spec.Containers[0].VolumeMounts = append(p.Spec.Containers[0].VolumeMounts,
			corev1.VolumeMount{Name: "scratch", MountPath: "/scratch"})
		p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: "scratch", VolumeSource: corev1.VolumeSource{
			EmptyDir: &corev1.EmptyDirVolumeSource{},
		}})
		k.Apply(p)
		k.Eventually(p, testkit.Ready())
		return p
	}
	took := func(p *corev1.Pod, dir string) time.Duration {
		mustWrite(t, k, p, dir)
		began := time.Now()
		for range writes {
			mustWrite(t, k, p, dir)
		}
		return time.Since(began)
	}
	dirs := []string{"scratch", "data"}
	before := started("before")
	k.Node("node-0").SlowDisk(operations)
	for _, p := range []*corev1.Pod{before, started("after")} {
		for _, dir := range dirs {
			if d := took(p, dir); d < writes/operations*time.Second/2 {
				t.Errorf("%d writes of pod %s to %s took %v with %d operations per second", writes, p.Name, dir, d, operations)
			}
		}
	}
	k.Node("node-0").RestoreDisk()
	for _, dir := range dirs {
		k.Wait("writes to "+dir+" are fast again", func(context.Context) error {
			if d := took(before, dir); d > writes/operations*time.Second/2 {
				return errors.New("they take " + d.String())
			}
			return nil
		})
	}
}

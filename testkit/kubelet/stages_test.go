package kubelet_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/homeostat-dev/homeostat/testkit/assets"
	"github.com/homeostat-dev/homeostat/testkit/kubelet"
)

func TestNodeStatus(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	node := w.waitNode(w.node, "it is there", func(*corev1.Node) bool { return true })
	want := map[corev1.NodeConditionType]corev1.ConditionStatus{
		corev1.NodeReady: "True", corev1.NodeMemoryPressure: "False", corev1.NodeDiskPressure: "False",
		corev1.NodePIDPressure: "False", corev1.NodeNetworkUnavailable: "False",
	}
	got := map[corev1.NodeConditionType]corev1.ConditionStatus{}
	for _, c := range node.Status.Conditions {
		got[c.Type] = c.Status
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("conditions (-want +got):\n%s", diff)
	}
	wantAddresses := []corev1.NodeAddress{
		{Type: corev1.NodeInternalIP, Address: "198.19.0.1"}, {Type: corev1.NodeHostName, Address: w.node},
	}
	if diff := cmp.Diff(wantAddresses, node.Status.Addresses); diff != "" {
		t.Errorf("addresses (-want +got):\n%s", diff)
	}
	if version := node.Status.NodeInfo.KubeletVersion; version != assets.KubernetesVersion {
		t.Errorf("its kubelet has version %s, want %s", version, assets.KubernetesVersion)
	}
	if pods := node.Status.Allocatable.Pods().Value(); pods != 10000 {
		t.Errorf("the node has room for %d pods, want 10000", pods)
	}
}

func TestNodeKeepsCreatorsFields(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	node := kubelet.NewNode(w.node + "-small")
	node.Spec.Taints = []corev1.Taint{{Key: "gpu", Effect: corev1.TaintEffectNoSchedule}}
	node.Status.Capacity = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2")}
	w.createNode(node)
	got := w.waitNode(node.Name, "it is there", func(*corev1.Node) bool { return true })
	if diff := cmp.Diff(node.Spec.Taints, got.Spec.Taints); diff != "" {
		t.Errorf("taints (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(node.Status.Capacity, got.Status.Capacity); diff != "" {
		t.Errorf("capacity (-want +got):\n%s", diff)
	}
}

func TestNodeRenewsItsLease(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	leases := client.CoordinationV1().Leases(corev1.NamespaceNodeLease)
	var first time.Time
	renewals := 0
	// A kubelet renews every 10 s. Two renewals prove that one leads to the next.
	err := wait.PollUntilContextTimeout(t.Context(), 100*time.Millisecond, time.Minute, true,
		func(ctx context.Context) (bool, error) {
			lease, err := leases.Get(ctx, w.node, metav1.GetOptions{})
			if apierrors.IsNotFound(err) { // it appears a moment after Ready
				return false, nil
			}
			if err != nil {
				return false, err
			}
			if now := lease.Spec.RenewTime.Time; !now.Equal(first) {
				if !first.IsZero() {
					renewals++
					if age := now.Sub(first); age < 9*time.Second {
						t.Errorf("the lease was renewed after %v: that is wasteful", age)
					}
				}
				first = now
			}
			return renewals == 1, nil
		})
	w.check(err)
}

func TestPodRuns(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	always := corev1.ContainerRestartPolicyAlways
	pod := w.runningPod("p", "web:1", func(p *corev1.Pod) {
		p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: "metrics", Image: "metrics:1"})
		p.Spec.InitContainers = []corev1.Container{
			{Name: "migrate", Image: "migrate:1"},
			{Name: "proxy", Image: "proxy:1", RestartPolicy: &always},
		}
	})
	container := func(name, image string) corev1.ContainerStatus {
		return corev1.ContainerStatus{
			Name: name, Image: image, Ready: true, Started: new(true),
			State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}},
		}
	}
	migrate := container("migrate", "migrate:1")
	migrate.Started = new(false)
	migrate.State = corev1.ContainerState{
		Terminated: &corev1.ContainerStateTerminated{ExitCode: 0, Reason: "Completed"},
	}
	condition := func(conditionType corev1.PodConditionType) corev1.PodCondition {
		return corev1.PodCondition{Type: conditionType, Status: "True"}
	}
	want := corev1.PodStatus{
		ObservedGeneration: 1,
		Phase:              corev1.PodRunning,
		QOSClass:           corev1.PodQOSBestEffort,
		HostIP:             "198.19.0.1",
		HostIPs:            []corev1.HostIP{{IP: "198.19.0.1"}},
		Conditions: []corev1.PodCondition{
			condition(corev1.PodScheduled), condition(corev1.PodReadyToStartContainers),
			condition(corev1.PodInitialized), condition(corev1.ContainersReady), condition(corev1.PodReady),
		},
		InitContainerStatuses: []corev1.ContainerStatus{migrate, container("proxy", "proxy:1")},
		ContainerStatuses:     []corev1.ContainerStatus{container("app", "web:1"), container("metrics", "metrics:1")},
	}
	if diff := cmp.Diff(want, pod.Status, cmpopts.EquateEmpty(),
		cmpopts.IgnoreTypes(metav1.Time{}, &metav1.Time{}),
		cmpopts.IgnoreFields(corev1.ContainerStatus{}, "ContainerID", "ImageID"),
		cmpopts.IgnoreFields(corev1.ContainerStateTerminated{}, "ContainerID"),
		cmpopts.IgnoreFields(corev1.PodStatus{}, "PodIP", "PodIPs"),
	); diff != "" {
		t.Errorf("status (-want +got):\n%s", diff)
	}
	ids := map[string]bool{}
	for _, s := range pod.Status.ContainerStatuses {
		ids[s.ContainerID] = true
		if s.ContainerID == "" || s.ImageID == "" || s.State.Running.StartedAt.IsZero() {
			t.Errorf("container %s lacks an ID, the ID of its image or a start time: %s", s.Name, show(s))
		}
	}
	if len(ids) != len(pod.Status.ContainerStatuses) {
		t.Errorf("containers share their ID: %v", ids)
	}
	if pod.Status.StartTime.IsZero() || len(pod.Status.PodIPs) != 1 || pod.Status.PodIPs[0].IP != pod.Status.PodIP {
		t.Errorf("start time %v, addresses %v and %q", pod.Status.StartTime, pod.Status.PodIPs, pod.Status.PodIP)
	}
}

func TestPodAddressesAreUnique(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a, b := w.runningPod("a", "web:1"), w.runningPod("b", "web:1")
	if a.Status.PodIP == b.Status.PodIP {
		t.Errorf("both pods have address %s", a.Status.PodIP)
	}
}

func TestReadinessGates(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.pod("p", "web:1", func(p *corev1.Pod) {
		p.Spec.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: "example.com/in-service"}}
	})
	pod := w.waitPod("p", "its containers are ready", func(p *corev1.Pod) bool {
		return podCondition(p, corev1.ContainersReady).Status == corev1.ConditionTrue
	})
	if c := podCondition(pod, corev1.PodReady); c.Status != "False" || c.Reason != "ReadinessGatesNotReady" {
		t.Errorf("Ready is %s, reason %q, want False because of the gate", c.Status, c.Reason)
	}
	pod.Status.Conditions = append(pod.Status.Conditions,
		corev1.PodCondition{Type: "example.com/in-service", Status: corev1.ConditionTrue})
	_, err := client.CoreV1().Pods(w.namespace).UpdateStatus(t.Context(), pod, metav1.UpdateOptions{})
	w.check(err)
	w.waitReady("p")
}

func TestImageChangesInPlace(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	before := w.runningPod("p", "web:1", func(p *corev1.Pod) {
		p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: "metrics", Image: "metrics:1"})
	})
	w.setImage("web:2")
	after := w.waitPod("p", "the new image is Ready", func(p *corev1.Pod) bool {
		return p.Status.ContainerStatuses[0].Image == "web:2" && ready(p) == corev1.ConditionTrue
	})
	old, current := before.Status.ContainerStatuses[0], after.Status.ContainerStatuses[0]
	if current.RestartCount != 1 {
		t.Errorf("restart count is %d, want 1", current.RestartCount)
	}
	if current.ContainerID == old.ContainerID || current.ImageID == old.ImageID {
		t.Errorf("container and image have the IDs they had before: %s", show(current))
	}
	ended := current.LastTerminationState.Terminated
	if ended == nil || ended.ContainerID != old.ContainerID || !ended.StartedAt.Equal(&old.State.Running.StartedAt) {
		t.Errorf("last state is %s, want the end of container %s", show(ended), old.ContainerID)
	}
	if diff := cmp.Diff(before.Status.ContainerStatuses[1], after.Status.ContainerStatuses[1]); diff != "" {
		t.Errorf("the other container changed (-before +after):\n%s", diff)
	}
	if after.Status.ObservedGeneration != after.Generation {
		t.Errorf("observed generation is %d of %d", after.Status.ObservedGeneration, after.Generation)
	}
}

func TestImageCannotBePulled(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		reason string
		image  string
	}{
		"name":     {reason: "an image whose name says that it does not exist", image: "registry/does-not-exist:1"},
		"registry": {reason: "a registry that cannot exist (RFC 2606)", image: "invalid.example/web:1"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			created := w.pod("p", tc.image)
			w.sawPod(created, "the pull has failed", func(p *corev1.Pod) bool { return waiting(p) == "ErrImagePull" })
			pod := w.waitPod("p", "it backs off", func(p *corev1.Pod) bool { return waiting(p) == "ImagePullBackOff" })
			if pod.Status.Phase != corev1.PodPending || ready(pod) != corev1.ConditionFalse {
				t.Errorf("%s: phase %s, Ready %s, want Pending and False", tc.reason, pod.Status.Phase, ready(pod))
			}
			w.setImage("web:1")
			pod = w.waitReady("p")
			if n := pod.Status.ContainerStatuses[0].RestartCount; n != 0 || pod.Status.Phase != corev1.PodRunning {
				t.Errorf("%s: %d restarts and phase %s, want 0 and Running", tc.reason, n, pod.Status.Phase)
			}
		})
	}
}

func TestImageOfRunningPodCannotBePulled(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.runningPod("p", "web:1")
	w.setImage("web:does-not-exist")
	pod := w.waitPod("p", "it backs off", func(p *corev1.Pod) bool { return waiting(p) == "ImagePullBackOff" })
	if pod.Status.Phase != corev1.PodRunning || ready(pod) != corev1.ConditionFalse {
		t.Errorf("phase %s, Ready %s, want Running (it did run) and False", pod.Status.Phase, ready(pod))
	}
	w.setImage("web:2")
	if n := w.waitReady("p").Status.ContainerStatuses[0].RestartCount; n != 1 {
		t.Errorf("%d restarts, want 1", n)
	}
}

// ofJob makes a pod the child of a Job, which must exist: a child with an absent owner is garbage.
func ofJob(w world) func(*corev1.Pod) {
	template := corev1.PodTemplateSpec{Spec: corev1.PodSpec{
		RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: "app", Image: "work:1"}},
	}}
	job, err := client.BatchV1().Jobs(w.namespace).Create(w.Context(), &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Name: "job"}, Spec: batchv1.JobSpec{Template: template},
	}, metav1.CreateOptions{})
	w.check(err)
	return func(p *corev1.Pod) {
		p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "batch/v1", Kind: "Job", Name: job.Name, UID: job.UID}}
		p.Spec.RestartPolicy = corev1.RestartPolicyNever
	}
}

func TestPodOfJobCompletes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.pod("p", "work:1", ofJob(w))
	pod := w.waitPod("p", "it has succeeded", func(p *corev1.Pod) bool { return p.Status.Phase == corev1.PodSucceeded })
	ended := pod.Status.ContainerStatuses[0].State.Terminated
	if ended == nil || ended.ExitCode != 0 || ended.Reason != "Completed" {
		t.Errorf("the container ended as %s, want exit code 0", show(ended))
	}
	if c := podCondition(pod, corev1.PodReady); c.Status != corev1.ConditionFalse || c.Reason != "PodCompleted" {
		t.Errorf("Ready is %s, reason %q, want False and PodCompleted", c.Status, c.Reason)
	}
}

func TestDeletion(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.runningPod("p", "web:1", func(p *corev1.Pod) { p.Finalizers = []string{"example.com/wait"} })
	w.delete("p")
	pod := w.waitPod("p", "it has ended", func(p *corev1.Pod) bool { return p.Status.Phase == corev1.PodFailed })
	if ended := pod.Status.ContainerStatuses[0].State.Terminated; ended == nil || ended.ExitCode != 143 {
		t.Errorf("the container ended as %s, want exit code 143, as SIGTERM has it", show(ended))
	}
	if ready(pod) != corev1.ConditionFalse {
		t.Errorf("Ready is %s, want False", ready(pod))
	}
	w.patch("p", map[string]any{"metadata": map[string]any{"finalizers": nil}})
	w.waitGone("p", pod.UID)
}

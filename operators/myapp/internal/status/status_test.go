package status_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/homeostat-dev/homeostat/operators/myapp/api/v1"
	"github.com/homeostat-dev/homeostat/operators/myapp/internal/status"
	"github.com/homeostat-dev/homeostat/sdk/conditions"
)

func app() *v1.MyApp { return &v1.MyApp{ObjectMeta: metav1.ObjectMeta{Name: "a", Generation: 1}} }

func pod(name string, change func(*corev1.PodStatus)) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}}
	change(&p.Status)
	return p
}

func waiting(reason string) func(*corev1.PodStatus) {
	return func(s *corev1.PodStatus) {
		s.ContainerStatuses = []corev1.ContainerStatus{{Name: "app-container", Image: "a:1", State: corev1.ContainerState{
			Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: "back-off 20s, for the 4th time"},
		}}}
	}
}

func TestPodFailure(t *testing.T) {
	t.Parallel()
	terminating := pod("going", waiting("ErrImagePull"))
	terminating.DeletionTimestamp = new(metav1.Now())
	for name, c := range map[string]struct {
		why             string
		pods            []*corev1.Pod
		reason, message string
	}{
		"none":     {"there are no pods", nil, "", ""},
		"starting": {"every pod starts like that", []*corev1.Pod{pod("p", waiting("ContainerCreating"))}, "", ""},
		"going":    {"it is terminating", []*corev1.Pod{terminating}, "", ""},
		"image": {
			"counters are left out",
			[]*corev1.Pod{pod("p", waiting("ImagePullBackOff")), pod("q", waiting("Other"))},
			"ImagePullBackOff", "pod p: container app-container with image a:1: ImagePullBackOff",
		},
		"unschedulable": {
			"no node has room",
			[]*corev1.Pod{pod("p", func(s *corev1.PodStatus) {
				s.Conditions = []corev1.PodCondition{{
					Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable,
					Message: "0/3 nodes are available",
				}}
			})},
			"Unschedulable", "pod p: 0/3 nodes are available",
		},
	} {
		if reason, message := status.PodFailure(&appsv1.Deployment{}, c.pods); reason != c.reason || message != c.message {
			t.Errorf("%s: %q %q, want %q %q, because %s", name, reason, message, c.reason, c.message, c.why)
		}
	}
}

// A Deployment that cannot create pods reports the reason. Each attempt has another pod name.
func TestPodFailureWithoutPods(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"a-78cf4f5647-4xvh8", "a-78cf4f5647-zzzzz"} {
		set := &appsv1.Deployment{Status: appsv1.DeploymentStatus{Conditions: []appsv1.DeploymentCondition{{
			Type: appsv1.DeploymentReplicaFailure, Status: corev1.ConditionTrue, Reason: "FailedCreate",
			Message: `pods "` + name + `" is forbidden: exceeded quota: q`,
		}}}}
		const want = "no pod can be made: it is forbidden: exceeded quota: q"
		if reason, message := status.PodFailure(set, nil); reason != "FailedCreate" || message != want {
			t.Errorf("%q %q", reason, message)
		}
	}
}

// The image is that of the newest ready pod, also during a rollout.
func TestRunningImage(t *testing.T) {
	t.Parallel()
	running := func(name, id string, age time.Duration, ready corev1.ConditionStatus) *corev1.Pod {
		p := pod(name, func(s *corev1.PodStatus) {
			s.ContainerStatuses = []corev1.ContainerStatus{
				{Name: "sidecar", Image: "s"}, {Name: "app-container", Image: "image", ImageID: id},
			}
			s.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: ready}}
		})
		p.CreationTimestamp = metav1.NewTime(time.Unix(1e9, 0).Add(-age))
		return p
	}
	o := app()
	status.Pods(o, &appsv1.Deployment{}, []*corev1.Pod{
		running("old", "1", time.Hour, corev1.ConditionTrue), running("new", "2", time.Minute, corev1.ConditionTrue),
		running("newest", "3", time.Second, corev1.ConditionFalse),
	})
	if o.Status.ImageID != "2" || o.Status.Image != "image" || o.Status.Selector != "app=a" {
		t.Errorf("%+v", o.Status)
	}
	if c := conditions.Get(o, status.Available); c == nil || c.Status != metav1.ConditionFalse || c.Reason != "NoDeployment" {
		t.Errorf("available without a Deployment: %v", c)
	}
	status.Pods(o, &appsv1.Deployment{}, nil)
	if o.Status.Image != "" {
		t.Error("the status has an image without a running pod")
	}
}

// Requested is a granted size, so that a failed expansion can be undone.
func TestVolume(t *testing.T) {
	t.Parallel()
	o := app()
	volume := func(asked, has string) *v1.VolumeStatus {
		c := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: "data"}}
		c.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(asked)}
		if has != "" {
			c.Status.Phase = corev1.ClaimBound
			c.Status.Capacity = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(has)}
		}
		status.Volume(o, c)
		return o.Status.Volume
	}
	for _, step := range []struct {
		why, asked, has string
		want            v1.VolumeStatus
		reason          string
	}{
		{"it waits for its first pod", "1Gi", "", v1.VolumeStatus{Phase: corev1.ClaimPending}, "Pending"},
		{
			"a driver may round up", "1Gi", "4Gi",
			v1.VolumeStatus{Phase: corev1.ClaimBound, Capacity: "4Gi", Requested: "1Gi"},
			"Bound",
		},
		{
			"it is under way", "9Gi", "4Gi", v1.VolumeStatus{Phase: corev1.ClaimBound, Capacity: "4Gi", Requested: "1Gi"}, "Resizing",
		},
		{
			"it was undone", "4Gi", "4Gi", v1.VolumeStatus{Phase: corev1.ClaimBound, Capacity: "4Gi", Requested: "4Gi"}, "Bound",
		},
	} {
		step.want.Name = "data"
		if diff := cmp.Diff(&step.want, volume(step.asked, step.has)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", step.why, diff)
		}
		if c := conditions.Get(o, status.VolumeBound); c.Reason != step.reason {
			t.Errorf("%s: reason %s, want %s", step.why, c.Reason, step.reason)
		}
	}
	status.Volume(o, nil)
	if c := conditions.Get(o, status.VolumeBound); o.Status.Volume != nil || c.Reason != "NoVolume" {
		t.Errorf("without a volume: %+v, %v", o.Status.Volume, c)
	}
}

func TestPhase(t *testing.T) {
	t.Parallel()
	withRollout := func(status corev1.ConditionStatus, reason string) *appsv1.Deployment {
		return &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{UID: "d"}, Status: appsv1.DeploymentStatus{
			Conditions: []appsv1.DeploymentCondition{{Type: appsv1.DeploymentProgressing, Status: status, Reason: reason}},
		}}
	}
	ready := conditions.Child{Kind: "Service", Name: "a", Ready: true, Reason: "Ready"}
	progressing := conditions.Child{Kind: "Deployment", Name: "a", Reason: "Progressing", Message: "Replicas: 0/1"}
	predecessor := conditions.Child{Kind: "Deployment", Name: "a", Reason: "WaitingForFormer", Message: "Deployment a goes"}
	conflict := conditions.Child{Kind: "Ingress", Name: "a", Reason: "ResourceConflict", Message: "it is theirs"}
	for name, c := range map[string]struct {
		set        *appsv1.Deployment
		children   []conditions.Child
		podFailure string
		want       v1.Phase
		message    string
	}{
		"ready": {
			withRollout("True", "NewReplicaSetAvailable"),
			[]conditions.Child{ready},
			"", v1.PhaseReady, "App a resources created successfully.",
		},
		"nothing yet": {
			&appsv1.Deployment{}, []conditions.Child{progressing}, "", v1.PhasePending, "Deployment a: Replicas: 0/1",
		},
		"a rollout": {
			withRollout("True", "ReplicaSetUpdated"),
			[]conditions.Child{ready, progressing},
			"", v1.PhaseProgressing, "Deployment a: Replicas: 0/1",
		},
		"too late": {
			withRollout("False", "ProgressDeadlineExceeded"),
			[]conditions.Child{progressing},
			"",
			v1.PhaseDegraded, "Deployment a: Replicas: 0/1",
		},
		"a pod was lost": {
			withRollout("True", "NewReplicaSetAvailable"),
			[]conditions.Child{progressing},
			"",
			v1.PhaseDegraded, "Deployment a: Replicas: 0/1",
		},
		"a pod cannot run": {
			withRollout("True", "ReplicaSetUpdated"),
			[]conditions.Child{progressing},
			"pod p: no image",
			v1.PhaseProgressing, "pod p: no image",
		},
		"a predecessor terminates": {
			&appsv1.Deployment{}, []conditions.Child{predecessor}, "", v1.PhasePending, "Deployment a goes",
		},
		"a name conflict": {
			withRollout("True", "ReplicaSetUpdated"), []conditions.Child{progressing, conflict}, "", v1.PhaseFailed, "it is theirs",
		},
	} {
		o := app()
		status.Children(o, c.set, c.children, c.podFailure)
		if o.Status.Phase != c.want || o.Status.Message != c.message {
			t.Errorf("%s: %s %q, want %s %q", name, o.Status.Phase, o.Status.Message, c.want, c.message)
		}
	}
}

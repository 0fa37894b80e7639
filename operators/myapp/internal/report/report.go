package report

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/homeostat-dev/homeostat/operators/myapp/api/v1"
	"github.com/homeostat-dev/homeostat/operators/myapp/internal/desired"
	"github.com/homeostat-dev/homeostat/sdk/conditions"
)

// The conditions beside those that every object has.
const (
	Available        = "Available"        // the app serves
	Progressing      = "Progressing"      // the pods are on their way to what the specification says
	VolumeBound      = "VolumeBound"      // the volume is there
	ResourcesApplied = "ResourcesApplied" // all objects are as the specification says
)

// Pods fills in what the Deployment and its pods tell.
func Pods(app *v1.MyApp, set *appsv1.Deployment, pods []*corev1.Pod) {
	s := &app.Status
	s.Replicas, s.ReadyReplicas = set.Status.Replicas, set.Status.ReadyReplicas
	s.UpdatedReplicas, s.Selector = set.Status.UpdatedReplicas, desired.Selector(app)
	s.Image, s.ImageID = "", ""
	if newest := newestReady(pods); newest != nil {
		for _, c := range newest.Status.ContainerStatuses {
			if c.Name == desired.Container {
				s.Image, s.ImageID = c.Image, c.ImageID
			}
		}
	}
	condition(app, Available, of(set, appsv1.DeploymentAvailable), "NoDeployment", "no pod can serve yet")
	condition(app, Progressing, of(set, appsv1.DeploymentProgressing), "NoDeployment", "no pod is being made yet")
}

// condition takes over one of the Deployment's.
func condition(app *v1.MyApp, name string, c *appsv1.DeploymentCondition, reason, message string) {
	if c == nil {
		conditions.Set(app, name, metav1.ConditionFalse, reason, message)
		return
	}
	conditions.Set(app, name, metav1.ConditionStatus(c.Status), cmp.Or(c.Reason, "Unknown"), c.Message)
}

func of(set *appsv1.Deployment, which appsv1.DeploymentConditionType) *appsv1.DeploymentCondition {
	for i, c := range set.Status.Conditions {
		if c.Type == which {
			return &set.Status.Conditions[i]
		}
	}
	return nil
}

func newestReady(pods []*corev1.Pod) *corev1.Pod {
	var newest *corev1.Pod
	for _, pod := range pods {
		ready := slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
			return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
		})
		if ready && pod.DeletionTimestamp == nil &&
			(newest == nil || newest.CreationTimestamp.Before(&pod.CreationTimestamp)) {
			newest = pod
		}
	}
	return newest
}

// Trouble returns why the first of the pods that cannot run does not, or why there can be none, as a reason and a sentence;
// "" if all can. What counts up from one attempt to the next, or has another name in each, is left out, or the status would
// be written for each.
func Trouble(set *appsv1.Deployment, pods []*corev1.Pod) (reason, message string) {
	for _, pod := range pods {
		if reason, message := ail(pod); reason != "" {
			return reason, message
		}
	}
	if c := of(set, appsv1.DeploymentReplicaFailure); c != nil && c.Status == corev1.ConditionTrue {
		return cmp.Or(c.Reason, "ReplicaFailure"), "no pod can be made: " + someName.ReplaceAllString(c.Message, "it ")
	}
	return "", ""
}

// someName is how the API server begins the refusal of a pod.
var someName = regexp.MustCompile(`^(?i:pods?) "[^"]*" `)

// ail returns why the pod cannot run; "" if it can, or is on its way out.
func ail(pod *corev1.Pod) (reason, message string) {
	if pod.DeletionTimestamp != nil {
		return "", ""
	}
	for _, c := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		if w := c.State.Waiting; w != nil && !slices.Contains([]string{"", "ContainerCreating", "PodInitializing"}, w.Reason) {
			return w.Reason, fmt.Sprintf("pod %s: container %s with image %s: %s", pod.Name, c.Name, c.Image, w.Reason)
		}
	}
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse && c.Reason == corev1.PodReasonUnschedulable {
			return c.Reason, fmt.Sprintf("pod %s: %s", pod.Name, c.Message)
		}
	}
	return "", ""
}

// Volume fills in what the claim tells, which is nil if there is none. Requested only ever takes over what was granted:
// an expansion that failed may be taken back.
func Volume(app *v1.MyApp, claim *corev1.PersistentVolumeClaim) {
	if claim == nil {
		app.Status.Volume = nil
		conditions.Set(app, VolumeBound, metav1.ConditionTrue, "NoVolume", "the app has no volume")
		return
	}
	was := app.Status.Volume
	now := &v1.VolumeStatus{Name: claim.Name, Phase: cmp.Or(claim.Status.Phase, corev1.ClaimPending)}
	capacity, bound := claim.Status.Capacity[corev1.ResourceStorage]
	asked := claim.Spec.Resources.Requests[corev1.ResourceStorage]
	if bound {
		now.Capacity = capacity.String()
	}
	switch {
	case bound && capacity.Cmp(asked) >= 0:
		now.Requested = asked.String()
	case was != nil && was.Name == claim.Name:
		now.Requested = was.Requested
	}
	app.Status.Volume = now
	switch {
	case now.Phase == corev1.ClaimBound && now.Requested != "" && less(capacity, asked):
		conditions.Set(app, VolumeBound, metav1.ConditionTrue, "Resizing",
			fmt.Sprintf("the volume has %s and is to have %s", capacity.String(), asked.String()))
	case now.Phase == corev1.ClaimBound:
		conditions.Set(app, VolumeBound, metav1.ConditionTrue, "Bound", "")
	default:
		conditions.Set(app, VolumeBound, metav1.ConditionFalse, string(now.Phase),
			fmt.Sprintf("claim %s is not bound to a volume", claim.Name))
	}
}

func less(a, b resource.Quantity) bool { return a.Cmp(b) < 0 }

// Held fills in that nothing could be planned, and why. Of the objects it tells what was known before.
func Held(app *v1.MyApp, set *appsv1.Deployment, reason, message string) {
	s := &app.Status
	conditions.Set(app, ResourcesApplied, metav1.ConditionFalse, reason, message)
	s.Phase, s.Message = v1.PhaseFailed, message
	if reason != notFound {
		return
	}
	conditions.Set(app, VolumeBound, metav1.ConditionFalse, reason, message)
	s.Volume = &v1.VolumeStatus{Name: app.Spec.Storage.ExistingClaim, Phase: corev1.ClaimPending}
	if s.Phase = v1.PhasePending; set.UID != "" {
		s.Phase = v1.PhaseDegraded
	}
}

// notFound is the reason for which a claim of somebody else is not there.
const notFound = "ReferenceNotFound"

// Children fills in what became of the objects of the MyApp, and sums it up. Trouble is what [Trouble] says.
func Children(app *v1.MyApp, set *appsv1.Deployment, children []conditions.Child, trouble string) {
	s := &app.Status
	s.Resources = children
	refused, waiting := sort(children)
	if len(refused) > 0 {
		conditions.Set(app, ResourcesApplied, metav1.ConditionFalse, "Refused", strings.Join(refused, "; "))
	} else {
		conditions.Set(app, ResourcesApplied, metav1.ConditionTrue, "Applied", "")
	}
	if trouble != "" { // which is why they wait
		waiting = []string{trouble}
	}
	late := of(set, appsv1.DeploymentProgressing)
	switch {
	case len(refused) > 0:
		s.Phase, s.Message = v1.PhaseFailed, strings.Join(refused, "; ")
	case len(waiting) == 0:
		s.Phase, s.Message = v1.PhaseReady, fmt.Sprintf("App %s resources created successfully.", app.Name)
	case set.UID == "":
		s.Phase, s.Message = v1.PhasePending, strings.Join(waiting, "; ")
	case late != nil && (late.Status == corev1.ConditionFalse || late.Reason == "NewReplicaSetAvailable"):
		s.Phase, s.Message = v1.PhaseDegraded, strings.Join(waiting, "; ")
	default:
		s.Phase, s.Message = v1.PhaseProgressing, strings.Join(waiting, "; ")
	}
}

// sort tells what somebody has to do something about from what will be by itself.
func sort(children []conditions.Child) (refused, waiting []string) {
	for _, c := range children {
		switch c.Reason {
		case conditions.Ready:
		case "Progressing", "Failed", "WaitingForFormer", "NamespaceTerminating":
			who := c.Kind + " " + c.Name
			if strings.HasPrefix(c.Message, who) {
				waiting = append(waiting, c.Message)
			} else {
				waiting = append(waiting, who+": "+c.Message)
			}
		default:
			refused = append(refused, c.Message)
		}
	}
	return refused, waiting
}

package status

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

// The conditions of a MyApp, beside those that every object has.
const (
	Available        = "Available"        // the app can serve
	Progressing      = "Progressing"      // the rollout of the pods makes progress
	VolumeBound      = "VolumeBound"      // the volume is bound
	ResourcesApplied = "ResourcesApplied" // all children are as specified
)

// Pods copies the state of the Deployment and its pods to the status.
func Pods(app *v1.MyApp, set *appsv1.Deployment, pods []*corev1.Pod) {
	s := &app.Status
	s.Replicas = set.Status.Replicas
	s.ReadyReplicas = set.Status.ReadyReplicas
	s.UpdatedReplicas = set.Status.UpdatedReplicas
	s.Selector = desired.Selector(app)
	s.Image = ""
	s.ImageID = ""
	if newest := newestReady(pods); newest != nil {
		for _, c := range newest.Status.ContainerStatuses {
			if c.Name == desired.Container {
				s.Image = c.Image
				s.ImageID = c.ImageID
			}
		}
	}
	copyCondition(app, Available, deploymentCondition(set, appsv1.DeploymentAvailable), "NoDeployment", "no pod can serve yet")
	progressing := deploymentCondition(set, appsv1.DeploymentProgressing)
	copyCondition(app, Progressing, progressing, "NoDeployment", "no pod is being made yet")
}

// copyCondition copies a condition of the Deployment.
func copyCondition(app *v1.MyApp, name string, c *appsv1.DeploymentCondition, reason, message string) {
	if c == nil {
		conditions.Set(app, name, metav1.ConditionFalse, reason, message)
		return
	}
	conditions.Set(app, name, metav1.ConditionStatus(c.Status), cmp.Or(c.Reason, "Unknown"), c.Message)
}

func deploymentCondition(set *appsv1.Deployment, which appsv1.DeploymentConditionType) *appsv1.DeploymentCondition {
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

// PodFailure returns the reason and the message of the first pod that cannot run, or of a Deployment that cannot create or
// replace pods; both are "" if there is none. Counters and generated names are left out, because the status would change
// with every attempt.
func PodFailure(set *appsv1.Deployment, pods []*corev1.Pod) (reason, message string) {
	if set.Spec.Paused && set.Spec.Replicas != nil && set.Status.UpdatedReplicas < *set.Spec.Replicas {
		return "DeploymentPaused", fmt.Sprintf("Deployment %s is paused by another client, so that no change of its pods is "+
			"rolled out: run kubectl rollout resume deployment %s", set.Name, set.Name)
	}
	for _, pod := range pods {
		if reason, message := podProblem(pod); reason != "" {
			return reason, message
		}
	}
	if c := deploymentCondition(set, appsv1.DeploymentReplicaFailure); c != nil && c.Status == corev1.ConditionTrue {
		return cmp.Or(c.Reason, "ReplicaFailure"), "no pod can be made: " + rejectedPodName.ReplaceAllString(c.Message, "it ")
	}
	return "", ""
}

// ContendedReplicas returns the reason and the message of an app with spec.replicas whose Deployment an autoscaler of
// another client scales.
func ContendedReplicas(app *v1.MyApp, scaler string) (reason, message string) {
	return "ReplicasContended", fmt.Sprintf("HorizontalPodAutoscaler %s scales Deployment %s, so that spec.replicas (%d) "+
		"has no effect: remove spec.replicas, or the HorizontalPodAutoscaler", scaler, app.Name, *app.Spec.Replicas)
}

// rejectedPodName matches the pod name in a rejection by the API server.
var rejectedPodName = regexp.MustCompile(`^(?i:pods?) "[^"]*" `)

// podProblem returns the reason why the pod cannot run, or "" if it can or is terminating.
func podProblem(pod *corev1.Pod) (reason, message string) {
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

// Volume copies the state of the claim to the status; claim is nil if there is none. Requested is a granted size, because
// a failed expansion can be undone.
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

// ReportBlocked reports an error that prevents a plan. The status of the children stays as it was.
func ReportBlocked(app *v1.MyApp, set *appsv1.Deployment, reason, message string) {
	s := &app.Status
	conditions.Set(app, ResourcesApplied, metav1.ConditionFalse, reason, message)
	s.Phase = v1.PhaseFailed
	s.Message = message
	if reason != notFound {
		return
	}
	conditions.Set(app, VolumeBound, metav1.ConditionFalse, reason, message)
	s.Volume = &v1.VolumeStatus{Name: app.Spec.Storage.ExistingClaim, Phase: corev1.ClaimPending}
	if s.Phase = v1.PhasePending; set.UID != "" {
		s.Phase = v1.PhaseDegraded
	}
}

// notFound is the reason of a missing existing claim.
const notFound = "ReferenceNotFound"

// Children copies the result of applying the children to the status, and summarizes it. podFailure is the message of
// [PodFailure].
func Children(app *v1.MyApp, set *appsv1.Deployment, children []conditions.Child, podFailure string) {
	s := &app.Status
	s.Resources = children
	refused, waiting := classify(children)
	if len(refused) > 0 {
		conditions.Set(app, ResourcesApplied, metav1.ConditionFalse, "Refused", strings.Join(refused, "; "))
	} else {
		conditions.Set(app, ResourcesApplied, metav1.ConditionTrue, "Applied", "")
	}
	if podFailure != "" { // the cause of the wait
		waiting = []string{podFailure}
	}
	rollout := deploymentCondition(set, appsv1.DeploymentProgressing)
	switch {
	case len(refused) > 0:
		s.Phase = v1.PhaseFailed
		s.Message = strings.Join(refused, "; ")
	case len(waiting) == 0:
		s.Phase = v1.PhaseReady
		s.Message = fmt.Sprintf("App %s resources created successfully.", app.Name)
	case set.UID == "":
		s.Phase = v1.PhasePending
		s.Message = strings.Join(waiting, "; ")
	case rollout != nil && (rollout.Status == corev1.ConditionFalse || rollout.Reason == "NewReplicaSetAvailable"):
		s.Phase = v1.PhaseDegraded
		s.Message = strings.Join(waiting, "; ")
	default:
		s.Phase = v1.PhaseProgressing
		s.Message = strings.Join(waiting, "; ")
	}
}

// claimRejected is the reason of a claim that the API server rejects.
const claimRejected = "PersistentVolumeClaimRejected"

// ExplainRejectedClaim adds the remedy to the message of a claim that cannot grow. granted is its present size, "" if no
// larger one is requested.
func ExplainRejectedClaim(children []conditions.Child, granted string) {
	for i, c := range children {
		if c.Reason == claimRejected && granted != "" {
			children[i].Message = fmt.Sprintf("%s: set spec.storage.size back to %s, or make the larger size possible",
				c.Message, granted)
		}
	}
}

// Summarize gives the conditions the explained message of a claim that cannot grow.
func Summarize(app *v1.MyApp) {
	i := slices.IndexFunc(app.Status.Resources, func(c conditions.Child) bool { return c.Reason == claimRejected })
	if i < 0 {
		return
	}
	for _, name := range []string{conditions.Ready, conditions.Stalled} {
		if c := conditions.Get(app, name); c != nil && c.Reason == claimRejected {
			conditions.Set(app, name, c.Status, c.Reason, app.Status.Resources[i].Message)
		}
	}
}

// classify separates failures that need a change from children that are still in progress.
func classify(children []conditions.Child) (refused, waiting []string) {
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

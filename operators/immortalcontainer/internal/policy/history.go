package policy

import (
	"slices"
	"strings"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/homeostat-dev/homeostat/operators/immortalcontainer/api/v1alpha1"
	"github.com/homeostat-dev/homeostat/operators/immortalcontainer/internal/desired"
)

const (
	maxHistory = 10
	maxMessage = 256
)

// recorded reports whether the history has the termination of the pod with that UID.
func recorded(s *v1alpha1.ImmortalContainerStatus, uid types.UID) bool {
	return slices.ContainsFunc(s.History, func(t v1alpha1.Termination) bool { return t.PodUID == uid })
}

// countPod counts a pod that is not in the status yet. A predecessor without a recorded termination must have ended
// before.
func (ev *evaluation) countPod() {
	s := ev.status
	if ev.pod.UID == s.PodUID {
		return
	}
	if s.PodUID != "" && !recorded(s, s.PodUID) {
		ev.record(termination{
			uid: s.PodUID, reason: ev.deletionReason(), at: ev.pod.CreationTimestamp.Time,
			message: "The pod was gone before the operator saw it end.",
		})
	}
	s.StartTimes++
	s.PodUID = ev.pod.UID
	created := ev.pod.CreationTimestamp
	s.LastStartTime = &created
	s.NextStartTime = nil
	s.PodRevision = ev.pod.Annotations[desired.AnnotationRevision]
	s.PodImage = ev.pod.Annotations[desired.AnnotationImage]
	ev.decision.Started = true
}

// deletionReason returns the reason for the deletion of a pod: SpecChanged if the SDK replaced it, otherwise Deleted.
func (ev *evaluation) deletionReason() string {
	if was := ev.status.PodRevision; was != "" && was != desired.Revision(ev.ic) {
		return ReasonSpecChanged
	}
	return ReasonDeleted
}

// describePod copies the observed pod to the status.
func (ev *evaluation) describePod() {
	s := ev.status
	s.CurrentPod = ev.pod.Name
	s.NodeName = ev.pod.Spec.NodeName
	s.ContainerRestarts = 0
	if c := containerStatus(ev.pod); c != nil {
		s.ContainerRestarts = c.RestartCount
	}
}

// record adds a termination to the status.
func (ev *evaluation) record(e termination) {
	s := ev.status
	last := v1alpha1.LastTermination{
		Termination: v1alpha1.Termination{
			PodUID: e.uid, Reason: e.reason, ExitCode: e.exitCode,
			FinishedAt: metav1.NewTime(e.at).Rfc3339Copy(), // as the API server returns it
		},
		Message: truncate(e.message),
	}
	s.LastTermination = &last
	s.History = slices.Insert(s.History, 0, last.Termination)
	s.History = s.History[:min(len(s.History), maxHistory)]
	ev.decision.Ended = last.DeepCopy()
}

func containerStatus(pod *corev1.Pod) *corev1.ContainerStatus {
	for i := range pod.Status.ContainerStatuses {
		if pod.Status.ContainerStatuses[i].Name == desired.ContainerName {
			return &pod.Status.ContainerStatuses[i]
		}
	}
	return nil
}

// truncate cuts a message to maxMessage bytes at a rune boundary.
func truncate(message string) string {
	message = strings.ToValidUTF8(strings.TrimSpace(message), "?")
	if len(message) <= maxMessage {
		return message
	}
	const ellipsis = "..."
	cut := maxMessage - len(ellipsis)
	for !utf8.RuneStart(message[cut]) {
		cut--
	}
	return message[:cut] + ellipsis
}

package life

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

// recorded reports whether the end of the pod with that UID is in the account.
func recorded(s *v1alpha1.ImmortalContainerStatus, uid types.UID) bool {
	return slices.ContainsFunc(s.History, func(t v1alpha1.Termination) bool { return t.PodUID == uid })
}

// count enters a pod that was not seen before. Its predecessor, if nobody saw that end, must have ended before it.
func (l *look) count() {
	s := l.status
	if l.pod.UID == s.PodUID {
		return
	}
	if s.PodUID != "" && !recorded(s, s.PodUID) {
		l.record(ending{
			uid: s.PodUID, reason: l.whyDeleted(), at: l.pod.CreationTimestamp.Time,
			message: "The pod was gone before the operator saw it end.",
		})
	}
	s.StartTimes++
	s.PodUID = l.pod.UID
	created := l.pod.CreationTimestamp
	s.LastStartTime = &created
	s.NextStartTime = nil
	s.PodRevision = l.pod.Annotations[desired.AnnotationRevision]
	s.PodImage = l.pod.Annotations[desired.AnnotationImage]
	l.step.Started = true
}

// whyDeleted tells a pod that was replaced for the sake of the specification from one that somebody deleted.
func (l *look) whyDeleted() string {
	if was := l.status.PodRevision; was != "" && was != desired.Revision(l.ic) {
		return ReasonSpecChanged
	}
	return ReasonDeleted
}

// describe copies what the status tells about the pod that exists.
func (l *look) describe() {
	s := l.status
	s.CurrentPod, s.NodeName, s.ContainerRestarts = l.pod.Name, l.pod.Spec.NodeName, 0
	if c := containerStatus(l.pod); c != nil {
		s.ContainerRestarts = c.RestartCount
	}
}

// record enters the end of a pod.
func (l *look) record(e ending) {
	s := l.status
	last := v1alpha1.LastTermination{
		Termination: v1alpha1.Termination{
			PodUID: e.uid, Reason: e.reason, ExitCode: e.exitCode,
			FinishedAt: metav1.NewTime(e.at).Rfc3339Copy(), // what the API server would return
		},
		Message: bound(e.message),
	}
	s.LastTermination = &last
	s.History = slices.Insert(s.History, 0, last.Termination)
	s.History = s.History[:min(len(s.History), maxHistory)]
	l.step.Ended = last.DeepCopy()
}

func containerStatus(pod *corev1.Pod) *corev1.ContainerStatus {
	for i := range pod.Status.ContainerStatuses {
		if pod.Status.ContainerStatuses[i].Name == desired.ContainerName {
			return &pod.Status.ContainerStatuses[i]
		}
	}
	return nil
}

// bound cuts a message to maxMessage bytes at a rune boundary.
func bound(message string) string {
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

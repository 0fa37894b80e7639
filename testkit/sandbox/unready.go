package sandbox

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// UnreadyPods describes the pods on real nodes that are not ready, with their last event and the end of the log of the
// container that they wait for. It returns "" if there are none, and without real nodes: then, operators have logs of
// their own. It needs at most 30 s: a kubelet may not answer.
func (s *Sandbox) UnreadyPods(ctx context.Context) string {
	if s.opts.Real == nil {
		return ""
	}
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	clients, err := kubernetes.NewForConfig(s.config)
	if err != nil {
		return fmt.Sprintf("reading pods: %v", err)
	}
	return unreadyPods(ctx, clients)
}

func unreadyPods(ctx context.Context, clients kubernetes.Interface) string {
	pods, err := clients.CoreV1().Pods("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Sprintf("reading pods: %v", err)
	}
	var b strings.Builder
	for i := range pods.Items {
		p := &pods.Items[i]
		if isReadyOrSucceeded(p) {
			continue
		}
		fmt.Fprintf(&b, "pod %s/%s on node %s: %s", p.Namespace, p.Name, cmp.Or(p.Spec.NodeName, "-"), p.Status.Phase)
		waits := awaited(p)
		if waits != nil {
			fmt.Fprintf(&b, "; container %s: %s", waits.Name, containerState(waits))
		}
		if event := lastEvent(ctx, clients, p); event != "" {
			fmt.Fprintf(&b, "; last event: %s", event)
		}
		b.WriteByte('\n')
		if waits != nil {
			b.WriteString(logTail(ctx, clients, p, waits))
		}
	}
	return b.String()
}

func isReadyOrSucceeded(p *corev1.Pod) bool {
	return p.Status.Phase == corev1.PodSucceeded || slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// awaited returns the first container that a pod waits for: an init container that has not succeeded, or a container that is
// not ready. It returns nil if kubelet has reported none.
func awaited(p *corev1.Pod) *corev1.ContainerStatus {
	for i := range p.Status.InitContainerStatuses {
		c := &p.Status.InitContainerStatuses[i]
		if end := c.State.Terminated; (end == nil || end.ExitCode != 0) && !c.Ready {
			return c
		}
	}
	for i := range p.Status.ContainerStatuses {
		if c := &p.Status.ContainerStatuses[i]; !c.Ready {
			return c
		}
	}
	return nil
}

func containerState(c *corev1.ContainerStatus) string {
	text := "no state"
	switch state := c.State; {
	case state.Waiting != nil:
		text = strings.TrimSuffix("waiting, "+state.Waiting.Reason+": "+state.Waiting.Message, ": ")
	case state.Terminated != nil:
		end := state.Terminated
		text = fmt.Sprintf("ended with status %d, %s %s", end.ExitCode, end.Reason, end.Message)
	case state.Running != nil:
		text = fmt.Sprintf("running for %v", time.Since(state.Running.StartedAt.Time).Round(time.Second))
	}
	if c.RestartCount > 0 {
		text += fmt.Sprintf(", restarted %d times", c.RestartCount)
	}
	return strings.TrimSpace(text)
}

// lastEvent returns the last event about a pod.
func lastEvent(ctx context.Context, clients kubernetes.Interface, p *corev1.Pod) string {
	events, err := clients.CoreV1().Events(p.Namespace).List(ctx, metav1.ListOptions{
		FieldSelector: "involvedObject.uid=" + string(p.UID),
	})
	if err != nil || len(events.Items) == 0 {
		return ""
	}
	at := func(e corev1.Event) time.Time {
		if e.Series != nil {
			return e.Series.LastObservedTime.Time
		}
		return slices.MaxFunc([]time.Time{e.EventTime.Time, e.LastTimestamp.Time, e.CreationTimestamp.Time}, time.Time.Compare)
	}
	last := slices.MaxFunc(events.Items, func(a, b corev1.Event) int { return at(a).Compare(at(b)) })
	return fmt.Sprintf("%s %s: %s", at(last).UTC().Format(time.TimeOnly), last.Reason, last.Message)
}

// logTail returns the end of the log of a container, indented, or "" if there is none.
func logTail(ctx context.Context, clients kubernetes.Interface, p *corev1.Pod, c *corev1.ContainerStatus) string {
	const lines, most = 10, 4 << 10
	options := &corev1.PodLogOptions{Container: c.Name, TailLines: new(int64(lines)), LimitBytes: new(int64(most))}
	stream, err := clients.CoreV1().Pods(p.Namespace).GetLogs(p.Name, options).Stream(ctx)
	if err != nil {
		return ""
	}
	defer func() { _ = stream.Close() }()
	text, err := io.ReadAll(stream)
	if err != nil {
		return ""
	}
	var b strings.Builder
	for line := range strings.Lines(string(text)) {
		b.WriteString("    " + strings.TrimSuffix(line, "\n") + "\n")
	}
	return b.String()
}

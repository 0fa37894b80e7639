package snapshot

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// State is how far something is that makes a copy.
type State int

// The states.
const (
	Missing State = iota
	Running
	Succeeded
	Failed
	Lost // it succeeded, and what it said is gone
)

// Attempt is what became of something that makes a copy.
type Attempt struct {
	State State
	// Message says why it failed or, while it runs, what it waits for.
	Message string
	// Result is that of one that succeeded.
	Result Result
	// Vague says that the message is not that of who failed.
	Vague bool
	// Unbounded says that nothing else ends it when it takes too long.
	Unbounded bool
	// Ended is when it succeeded, if that is known.
	Ended time.Time
	// Again is when to look again although nothing happens; zero if something will happen.
	Again time.Duration
}

// Result is what is known of a copy.
type Result struct {
	Location      string
	SizeBytes     int64
	SHA256        string
	ServerVersion string
	Verified      string
	Duration      time.Duration
}

// told is what dump.sh says.
type told struct {
	Name          string  `json:"name"`
	Location      string  `json:"location"`
	SizeBytes     int64   `json:"sizeBytes"`
	SHA256        string  `json:"sha256"`
	Seconds       float64 `json:"seconds"`
	ServerVersion string  `json:"serverVersion"`
	Verified      string  `json:"verified"`
}

// grace is how long a pod's last words may come after the end of its Job, which is when they are old already.
const grace = 30 * time.Second

// OfDump reads what became of a Job that makes a dump, nil if there is none, from it and its pods. A dump counts if the Job
// succeeded and what it said is all there: an exit code alone is no proof of a file.
func OfDump(job *batchv1.Job, pods []*corev1.Pod, now time.Time) Attempt {
	a := follow(job, pods, now)
	if a.State != Succeeded {
		return a
	}
	r, err := parse(a.Message, job.Name, variable(job, "VERIFY"))
	if err != nil {
		return Attempt{State: Failed, Message: err.Error()}
	}
	return Attempt{State: Succeeded, Result: r, Ended: a.Ended}
}

// follow reads what became of a Job; the message of one that succeeded is what its pod said.
func follow(job *batchv1.Job, pods []*corev1.Pod, now time.Time) Attempt {
	if job == nil {
		return Attempt{State: Missing}
	}
	var own []*corev1.Pod
	for _, p := range pods {
		if metav1.IsControlledBy(p, job) {
			own = append(own, p)
		}
	}
	slices.SortFunc(own, func(a, b *corev1.Pod) int { // the newest first
		return cmp.Or(b.CreationTimestamp.Compare(a.CreationTimestamp.Time), strings.Compare(a.Name, b.Name))
	})
	for _, c := range job.Status.Conditions {
		switch {
		case c.Status != corev1.ConditionTrue:
		case c.Type == batchv1.JobFailed:
			if words := lastWords(own, corev1.PodFailed); words != "" {
				return Attempt{State: Failed, Message: words}
			}
			return Attempt{State: Failed, Message: c.Reason + ": " + c.Message, Vague: true}
		case c.Type == batchv1.JobComplete:
			return completed(own, c.LastTransitionTime.Time, now)
		}
	}
	return Attempt{State: Running, Message: obstacle(own)}
}

// completed reads what the pod of a Job said that is complete. It may come into sight a moment after the Job's end.
func completed(pods []*corev1.Pod, at, now time.Time) Attempt {
	if message := lastWords(pods, corev1.PodSucceeded); message != "" {
		return Attempt{State: Succeeded, Message: message, Ended: at}
	}
	if left := at.Add(grace).Sub(now); left > 0 {
		return Attempt{State: Running, Message: "the Job is complete, and what its pod said is not there yet", Again: left}
	}
	if !slices.ContainsFunc(pods, func(p *corev1.Pod) bool { return p.Status.Phase == corev1.PodSucceeded }) {
		return Attempt{
			State: Lost, Message: "the Job is complete, and its pod is gone with what it said: another one says it again",
		}
	}
	return Attempt{State: Failed, Message: "the Job is complete, and its pod did not say what it made"}
}

// lastWords is the termination message of the newest pod that ended in this way. What failed without one is told by whoever
// ended it.
func lastWords(pods []*corev1.Pod, phase corev1.PodPhase) string {
	for _, p := range pods {
		if p.Status.Phase != phase {
			continue
		}
		for _, c := range p.Status.ContainerStatuses {
			if t := c.State.Terminated; t != nil && strings.TrimSpace(t.Message) != "" {
				return strings.TrimSpace(t.Message)
			}
		}
		if phase == corev1.PodFailed {
			return end(p)
		}
	}
	return ""
}

// end says how a pod ended that left no message.
func end(p *corev1.Pod) string {
	if p.Status.Reason != "" || p.Status.Message != "" {
		return strings.TrimSpace(strings.Trim(p.Status.Reason+": "+p.Status.Message, ": "))
	}
	for _, c := range p.Status.ContainerStatuses {
		if t := c.State.Terminated; t != nil {
			return fmt.Sprintf("its pod ended with exit code %d (%s) and said nothing", t.ExitCode, cmp.Or(t.Reason, "no reason"))
		}
	}
	return ""
}

// obstacle says why the newest pod does not run.
func obstacle(pods []*corev1.Pod) string {
	if len(pods) == 0 {
		return ""
	}
	p := pods[0]
	for _, c := range p.Status.ContainerStatuses {
		if w := c.State.Waiting; w != nil && w.Message != "" {
			return w.Reason + ": " + w.Message
		}
	}
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			return c.Reason + ": " + c.Message
		}
	}
	return ""
}

var sha256Digits = regexp.MustCompile(`^[0-9a-f]{64}$`)

// parse reads what dump.sh said.
func parse(message, name, verify string) (Result, error) {
	var t told
	if err := json.Unmarshal([]byte(message), &t); err != nil {
		return Result{}, fmt.Errorf("what it said is no result: %q", message)
	}
	switch {
	case t.Name != name:
		return Result{}, fmt.Errorf("it made the copy %q, and was to make %s", t.Name, name)
	case t.Location == "" || t.SizeBytes <= 0:
		return Result{}, errors.New("it made nothing: the dump is empty")
	case !sha256Digits.MatchString(t.SHA256):
		return Result{}, fmt.Errorf("%q is no checksum", t.SHA256)
	case verified(t.Verified) < verified(verify):
		return Result{}, fmt.Errorf("it was to be verified by %s, and was by %q", verify, t.Verified)
	}
	return Result{
		Location: t.Location, SizeBytes: t.SizeBytes, SHA256: t.SHA256, ServerVersion: t.ServerVersion, Verified: t.Verified,
		Duration: time.Duration(t.Seconds * float64(time.Second)),
	}, nil
}

// verified orders the ways of verification.
func verified(how string) int { return slices.Index([]string{"none", "list", "restore"}, how) }

// variable returns what a Job's container is told.
func variable(job *batchv1.Job, name string) string {
	for _, c := range job.Spec.Template.Spec.Containers {
		for _, e := range c.Env {
			if e.Name == name {
				return e.Value
			}
		}
	}
	return ""
}

// OfVolumeSnapshot reads what became of a VolumeSnapshot, nil if there is none. Its errors are the driver's, who tries
// again:
// which of them are for good nobody can tell.
func OfVolumeSnapshot(u *unstructured.Unstructured) Attempt {
	if u == nil {
		return Attempt{State: Missing}
	}
	message, _, _ := unstructured.NestedString(u.Object, "status", "error", "message")
	ready, _, _ := unstructured.NestedBool(u.Object, "status", "readyToUse")
	if !ready || u.GetDeletionTimestamp() != nil {
		return Attempt{State: Running, Message: message, Unbounded: true}
	}
	r := Result{Location: u.GetName(), Verified: "none"}
	text, _, _ := unstructured.NestedString(u.Object, "status", "restoreSize")
	if size, err := resource.ParseQuantity(text); err == nil {
		r.SizeBytes = size.Value()
	}
	return Attempt{State: Succeeded, Result: r}
}

// Pruned is what became of the dumps that were to go.
type Pruned struct {
	Attempt

	// Asked are the names of those.
	Asked []string
	// Left are the dumps that there are, the newest first; More is how many others there are.
	Left []string
	More int
}

// OfPrune reads what became of a Job that lets dumps go, nil if there is none.
func OfPrune(job *batchv1.Job, pods []*corev1.Pod, now time.Time) Pruned {
	a := follow(job, pods, now)
	if a.State == Lost {
		a.State = Failed
	}
	if a.State != Succeeded {
		return Pruned{Attempt: a}
	}
	var said struct {
		Left []string `json:"left"`
		More int      `json:"more"`
	}
	if err := json.Unmarshal([]byte(a.Message), &said); err != nil {
		return Pruned{Attempt: Attempt{State: Failed, Message: fmt.Sprintf("what it said is no list: %q", a.Message)}}
	}
	return Pruned{Attempt: a, Asked: strings.Fields(variable(job, "NAMES")), Left: said.Left, More: said.More}
}

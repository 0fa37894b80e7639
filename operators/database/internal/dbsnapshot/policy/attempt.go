package policy

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

// State is the progress of a Job or VolumeSnapshot.
type State int

// Values of State.
const (
	Missing State = iota
	Running
	Succeeded
	Failed
	ResultLost // the Job succeeded, but its result is lost
)

// Attempt is the observed state of a Job or VolumeSnapshot that makes a copy.
type Attempt struct {
	State State
	// Message is the cause of a failure or, while it runs, the reason for waiting.
	Message string
	// Result is set if it succeeded.
	Result Result
	// IndirectMessage is true if the message comes from Kubernetes and not from the failed container.
	IndirectMessage bool
	// NoDeadline is true if nothing else limits its duration.
	NoDeadline bool
	// CompletedAt is the time of the success, or zero if it is unknown.
	CompletedAt time.Time
	// RequeueAfter is the time until the next reconcile without an event; zero if an event will follow.
	RequeueAfter time.Duration
}

// Result describes a copy.
type Result struct {
	Location      string
	SizeBytes     int64
	SHA256        string
	ServerVersion string
	Verified      string
	Duration      time.Duration
}

// dumpReport is the termination message of dump.sh.
type dumpReport struct {
	Name          string  `json:"name"`
	Location      string  `json:"location"`
	SizeBytes     int64   `json:"sizeBytes"`
	SHA256        string  `json:"sha256"`
	Seconds       float64 `json:"seconds"`
	ServerVersion string  `json:"serverVersion"`
	Verified      string  `json:"verified"`
}

// messageGrace is the time after the end of a Job until a missing termination message counts as lost. The cache of pods may
// lag behind that of Jobs.
const messageGrace = 30 * time.Second

// ReadDump evaluates a dump Job and its pods. The Job may be nil. A dump counts only if the Job succeeded and its report is
// complete: an exit code alone does not prove that the file exists.
func ReadDump(job *batchv1.Job, pods []*corev1.Pod, now time.Time) Attempt {
	a := readJob(job, pods, now)
	if a.State != Succeeded {
		return a
	}
	r, err := parseReport(a.Message, job.Name, envValue(job, "VERIFY"))
	if err != nil {
		return Attempt{State: Failed, Message: err.Error()}
	}
	return Attempt{State: Succeeded, Result: r, CompletedAt: a.CompletedAt}
}

// readJob evaluates a Job. The message of a successful one is the termination message of its pod.
func readJob(job *batchv1.Job, pods []*corev1.Pod, now time.Time) Attempt {
	if job == nil {
		return Attempt{State: Missing}
	}
	var own []*corev1.Pod
	for _, p := range pods {
		if metav1.IsControlledBy(p, job) {
			own = append(own, p)
		}
	}
	slices.SortFunc(own, func(a, b *corev1.Pod) int { // newest first
		return cmp.Or(b.CreationTimestamp.Compare(a.CreationTimestamp.Time), strings.Compare(a.Name, b.Name))
	})
	for _, c := range job.Status.Conditions {
		switch {
		case c.Status != corev1.ConditionTrue:
		case c.Type == batchv1.JobFailed:
			if words := terminationMessage(own, corev1.PodFailed); words != "" {
				return Attempt{State: Failed, Message: words}
			}
			if c.Reason == batchv1.JobReasonBackoffLimitExceeded && slices.ContainsFunc(own, isActive) {
				return Attempt{State: Running, Message: pendingReason(own)}
			}
			return Attempt{State: Failed, Message: c.Reason + ": " + c.Message, IndirectMessage: true}
		case c.Type == batchv1.JobComplete:
			return readCompleted(own, c.LastTransitionTime.Time, now)
		}
	}
	return Attempt{State: Running, Message: pendingReason(own)}
}

// isActive reports whether the pod has neither ended nor been deleted. A Job fails after all its pods: an active one comes
// from a stale cache, and its next event follows.
func isActive(p *corev1.Pod) bool {
	ended := p.Status.Phase == corev1.PodFailed || p.Status.Phase == corev1.PodSucceeded
	return !ended && p.DeletionTimestamp == nil
}

// readCompleted reads the termination message of a completed Job. The pod's status may arrive shortly after the Job's.
func readCompleted(pods []*corev1.Pod, at, now time.Time) Attempt {
	if message := terminationMessage(pods, corev1.PodSucceeded); message != "" {
		return Attempt{State: Succeeded, Message: message, CompletedAt: at}
	}
	if left := at.Add(messageGrace).Sub(now); left > 0 {
		return Attempt{State: Running, Message: "the Job is complete, and what its pod said is not there yet", RequeueAfter: left}
	}
	if !slices.ContainsFunc(pods, func(p *corev1.Pod) bool { return p.Status.Phase == corev1.PodSucceeded }) {
		return Attempt{
			State: ResultLost, Message: "the Job is complete, and its pod is gone with what it said: another one says it again",
		}
	}
	return Attempt{State: Failed, Message: "the Job is complete, and its pod did not say what it made"}
}

// terminationMessage returns the termination message of the newest pod in this phase. A failed pod without a message is
// described by its status.
func terminationMessage(pods []*corev1.Pod, phase corev1.PodPhase) string {
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
			return exitDescription(p)
		}
	}
	return ""
}

// exitDescription describes the end of a pod without a termination message.
func exitDescription(p *corev1.Pod) string {
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

// pendingReason returns the reason that prevents the newest pod from running.
func pendingReason(pods []*corev1.Pod) string {
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

// parseReport parses and validates the report of dump.sh.
func parseReport(message, name, verify string) (Result, error) {
	var t dumpReport
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
	case verificationLevel(t.Verified) < verificationLevel(verify):
		return Result{}, fmt.Errorf("it was to be verified by %s, and was by %q", verify, t.Verified)
	}
	return Result{
		Location: t.Location, SizeBytes: t.SizeBytes, SHA256: t.SHA256, ServerVersion: t.ServerVersion, Verified: t.Verified,
		Duration: time.Duration(t.Seconds * float64(time.Second)),
	}, nil
}

// verificationLevel orders the methods of verification.
func verificationLevel(how string) int { return slices.Index([]string{"none", "list", "restore"}, how) }

// envValue returns the value of an environment variable of a Job's container.
func envValue(job *batchv1.Job, name string) string {
	for _, c := range job.Spec.Template.Spec.Containers {
		for _, e := range c.Env {
			if e.Name == name {
				return e.Value
			}
		}
	}
	return ""
}

// ReadVolumeSnapshot evaluates a VolumeSnapshot, which may be nil. An error in its status is not final, because the driver
// retries and permanent errors are not marked as such.
func ReadVolumeSnapshot(u *unstructured.Unstructured) Attempt {
	if u == nil {
		return Attempt{State: Missing}
	}
	message, _, _ := unstructured.NestedString(u.Object, "status", "error", "message")
	ready, _, _ := unstructured.NestedBool(u.Object, "status", "readyToUse")
	if !ready || u.GetDeletionTimestamp() != nil {
		return Attempt{State: Running, Message: message, NoDeadline: true}
	}
	r := Result{Location: u.GetName(), Verified: "none"}
	text, _, _ := unstructured.NestedString(u.Object, "status", "restoreSize")
	if size, err := resource.ParseQuantity(text); err == nil {
		r.SizeBytes = size.Value()
	}
	return Attempt{State: Succeeded, Result: r}
}

// PruneResult is the observed state of a prune Job.
type PruneResult struct {
	Attempt

	// Requested has the names of the dumps to delete.
	Requested []string
	// Left has the remaining dumps, newest first. More is the number of dumps that did not fit into the message.
	Left []string
	More int
}

// ReadPruneJob evaluates a prune Job, which may be nil.
func ReadPruneJob(job *batchv1.Job, pods []*corev1.Pod, now time.Time) PruneResult {
	a := readJob(job, pods, now)
	if a.State == ResultLost {
		a.State = Failed
	}
	if a.State != Succeeded {
		return PruneResult{Attempt: a}
	}
	var said struct {
		Left []string `json:"left"`
		More int      `json:"more"`
	}
	if err := json.Unmarshal([]byte(a.Message), &said); err != nil {
		return PruneResult{Attempt: Attempt{State: Failed, Message: fmt.Sprintf("what it said is no list: %q", a.Message)}}
	}
	return PruneResult{Attempt: a, Requested: strings.Fields(envValue(job, "NAMES")), Left: said.Left, More: said.More}
}

// JobEnded reports whether a Job has succeeded or failed.
func JobEnded(job *batchv1.Job) bool {
	for _, c := range job.Status.Conditions {
		if c.Status == corev1.ConditionTrue && (c.Type == batchv1.JobComplete || c.Type == batchv1.JobFailed) {
			return true
		}
	}
	return false
}

// JobSucceeded is the readiness of a Job: true if it succeeded, otherwise with a message.
func JobSucceeded(job *batchv1.Job) (bool, string) {
	for _, c := range job.Status.Conditions {
		if c.Status == corev1.ConditionTrue && c.Type == batchv1.JobComplete {
			return true, ""
		}
		if c.Status == corev1.ConditionTrue && c.Type == batchv1.JobFailed {
			return false, "it failed: " + c.Message
		}
	}
	return false, "it is not complete"
}

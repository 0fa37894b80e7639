package policy_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	v1 "github.com/homeostat-dev/homeostat/operators/database/api/v1"
	"github.com/homeostat-dev/homeostat/operators/database/internal/dbsnapshot/desired"
	"github.com/homeostat-dev/homeostat/operators/database/internal/dbsnapshot/policy"
)

// said returns a report of dump.sh with one replacement.
func said(old, with string) string {
	text := fmt.Sprintf(`{"name":"a-1","location":"a-1/app.dump","sizeBytes":10,"sha256":"%s",`+
		`"seconds":2,"serverVersion":"16.4","verified":"list"}`, strings.Repeat("a", 64))
	return strings.Replace(text, old, with, 1)
}

func dumpJob(condition batchv1.JobConditionType) *batchv1.Job {
	o := &v1.DBSnapshot{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Spec: v1.DBSnapshotSpec{Verify: "list"}}
	job := desired.DumpJob(o, &desired.Source{}, "scripts", "a-1")
	job.UID = "job"
	if condition != "" {
		job.Status.Conditions = []batchv1.JobCondition{
			{Type: batchv1.JobSuspended, Status: corev1.ConditionFalse},
			{
				Type: condition, Status: corev1.ConditionTrue, Reason: "DeadlineExceeded", Message: "Job was active too long",
				LastTransitionTime: metav1.NewTime(made),
			},
		}
	}
	return job
}

// failedPods returns a Job whose pods have failed.
func failedPods() *batchv1.Job {
	job := dumpJob("Failed")
	job.Status.Conditions[1].Reason = batchv1.JobReasonBackoffLimitExceeded
	return job
}

func pod(phase corev1.PodPhase, message string, change func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: "p", CreationTimestamp: metav1.NewTime(made),
			OwnerReferences: []metav1.OwnerReference{{UID: "job", Controller: new(true)}},
		},
		Status: corev1.PodStatus{Phase: phase},
	}
	if phase == corev1.PodSucceeded || phase == corev1.PodFailed {
		p.Status.ContainerStatuses = []corev1.ContainerStatus{{State: corev1.ContainerState{
			Terminated: &corev1.ContainerStateTerminated{Message: message, ExitCode: 137, Reason: "OOMKilled"},
		}}}
	}
	if change != nil {
		change(p)
	}
	return p
}

// A dump counts only with a complete report; otherwise the message has the cause.
func TestReadDump(t *testing.T) {
	t.Parallel()
	older := func(p *corev1.Pod) {
		p.Name = "o"
		p.CreationTimestamp.Time = made.Add(-time.Hour)
	}
	for reason, c := range map[string]struct {
		job   *batchv1.Job
		pods  []*corev1.Pod
		after time.Duration
		state policy.State
		want  string
	}{
		"there is no Job": {nil, nil, 0, policy.Missing, ""},
		"it begins":       {dumpJob(""), nil, 0, policy.Running, ""},
		"a pod has ended": {dumpJob(""), []*corev1.Pod{pod("Succeeded", said("", ""), nil)}, 0, policy.Running, ""},
		"another one's pod": {
			dumpJob("Complete"),
			[]*corev1.Pod{pod("Succeeded", said("", ""), func(p *corev1.Pod) { p.OwnerReferences[0].UID = "x" })},
			time.Minute,
			policy.ResultLost, "is gone",
		},
		"it cannot be pulled": {dumpJob(""), []*corev1.Pod{pod("Pending", "", func(p *corev1.Pod) {
			p.Status.ContainerStatuses = []corev1.ContainerStatus{{State: corev1.ContainerState{
				Waiting: &corev1.ContainerStateWaiting{Reason: "ErrImagePull", Message: "not found"},
			}}}
		})}, 0, policy.Running, "ErrImagePull: not found"},
		"it has no place": {dumpJob(""), []*corev1.Pod{pod("Pending", "", func(p *corev1.Pod) {
			p.Status.Conditions = []corev1.PodCondition{
				{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable", Message: "no nodes"},
			}
		})}, 0, policy.Running, "Unschedulable: no nodes"},
		"it is complete": {
			dumpJob("Complete"), []*corev1.Pod{pod("Succeeded", said("", ""), nil)}, 0, policy.Succeeded, "",
		},
		"the second try": {
			dumpJob("Complete"),
			[]*corev1.Pod{pod("Failed", "no", older), pod("Succeeded", said("", ""), nil)},
			0,
			policy.Succeeded, "",
		},
		"its failed pod is still active in the cache": {
			failedPods(), []*corev1.Pod{pod("Running", "", nil)}, 0, policy.Running, "",
		},
		"its failed pod is deleted": {
			failedPods(),
			[]*corev1.Pod{pod("Running", "", func(p *corev1.Pod) { p.DeletionTimestamp = new(metav1.NewTime(made)) })},
			0,
			policy.Failed, "BackoffLimitExceeded",
		},
		"its pod is not in sight yet": {dumpJob("Complete"), nil, 29 * time.Second, policy.Running, "not there yet"},
		"its pod is gone": {
			dumpJob("Complete"), nil, 31 * time.Second, policy.ResultLost, "another one says it again",
		},
		"it said nothing": {
			dumpJob("Complete"), []*corev1.Pod{pod("Succeeded", " ", nil)}, time.Hour, policy.Failed, "did not say what it made",
		},
		"no JSON": {
			dumpJob("Complete"), []*corev1.Pod{pod("Succeeded", "done", nil)}, 0, policy.Failed, `no result: "done"`,
		},
		"half of it": {
			dumpJob("Complete"), []*corev1.Pod{pod("Succeeded", said("", "")[:40], nil)}, 0, policy.Failed, "no result",
		},
		"another name": {
			dumpJob("Complete"), []*corev1.Pod{pod("Succeeded", said("a-1", "a-2"), nil)}, 0, policy.Failed, `copy "a-2"`,
		},
		"empty": {
			dumpJob("Complete"), []*corev1.Pod{pod("Succeeded", said(":10", ":0"), nil)}, 0, policy.Failed, "the dump is empty",
		},
		"nowhere": {
			dumpJob("Complete"), []*corev1.Pod{pod("Succeeded", said("a-1/app.dump", ""), nil)}, 0, policy.Failed, "is empty",
		},
		"no checksum": {
			dumpJob("Complete"), []*corev1.Pod{pod("Succeeded", said("aaaa", "zz"), nil)}, 0, policy.Failed, "no checksum",
		},
		"not verified": {
			dumpJob("Complete"), []*corev1.Pod{pod("Succeeded", said("list", "none"), nil)}, 0, policy.Failed, "verified by list",
		},
		"verified more": {
			dumpJob("Complete"), []*corev1.Pod{pod("Succeeded", said("list", "restore"), nil)}, 0, policy.Succeeded, "",
		},
		"it failed": {
			dumpJob("Failed"),
			[]*corev1.Pod{pod("Failed", "no", older), pod("Failed", "disk full", nil)},
			0,
			policy.Failed, "disk full",
		},
		"it was killed": {
			dumpJob("Failed"), []*corev1.Pod{pod("Failed", "", nil)}, 0, policy.Failed, "exit code 137 (OOMKilled)",
		},
		"it was evicted": {dumpJob("Failed"), []*corev1.Pod{pod("Failed", "", func(p *corev1.Pod) {
			p.Status.Reason = "Evicted"
			p.Status.Message = "The node was low on resource"
		})}, 0, policy.Failed, "Evicted: The node was low"},
		"it took too long": {dumpJob("Failed"), nil, 0, policy.Failed, "DeadlineExceeded: Job was active too long"},
	} {
		t.Run(reason, func(t *testing.T) {
			t.Parallel()
			a := policy.ReadDump(c.job, c.pods, made.Add(c.after))
			if a.State != c.state || !strings.Contains(a.Message, c.want) {
				t.Errorf("state %d, message %q; want %d and %q", a.State, a.Message, c.state, c.want)
			}
			if a.State == policy.Succeeded && (a.Result.SizeBytes != 10 || a.Result.Duration != 2*time.Second) {
				t.Errorf("the result is %+v", a.Result)
			}
			if waits := strings.Contains(c.want, "not there yet"); waits != (a.RequeueAfter > 0) {
				t.Errorf("it is looked at again after %s", a.RequeueAfter)
			}
		})
	}
}

func TestReadPrune(t *testing.T) {
	t.Parallel()
	job := func() *batchv1.Job {
		job := desired.PruneJob(&v1.DBSnapshot{}, &desired.Source{}, "scripts", "a-1-prune", []string{"x", "y"})
		job.UID = "job"
		job.Status = dumpJob("Complete").Status
		return job
	}
	p := policy.ReadPruneJob(job(), []*corev1.Pod{pod("Succeeded", `{"left":["z","y"],"held":["y"],"more":1}`, nil)}, made)
	diff := cmp.Diff([]string{"x", "y"}, p.Requested)
	if diff != "" || p.State != policy.Succeeded || p.More != 1 || len(p.Left) != 2 {
		t.Errorf("it is read as %+v\n%s", p, diff)
	}
	if p := policy.ReadPruneJob(job(), []*corev1.Pod{pod("Succeeded", "x is gone", nil)}, made); p.State != policy.Failed {
		t.Errorf("what is no list is read as %+v", p)
	}
	if p := policy.ReadPruneJob(nil, nil, made); p.State != policy.Missing {
		t.Errorf("no Job is read as %+v", p)
	}
}

func TestReadVolumeSnapshot(t *testing.T) {
	t.Parallel()
	for reason, c := range map[string]struct {
		status map[string]any
		state  policy.State
		want   string
	}{
		"it begins":        {nil, policy.Running, ""},
		"it is being made": {map[string]any{"readyToUse": false}, policy.Running, ""},
		"the driver has failed": {
			map[string]any{"readyToUse": false, "error": map[string]any{"message": "full"}}, policy.Running, "full",
		},
		"it is ready": {map[string]any{"readyToUse": true, "restoreSize": "1Gi"}, policy.Succeeded, ""},
		"an error of before": {
			map[string]any{"readyToUse": true, "restoreSize": "1Gi", "error": map[string]any{"message": "x"}}, policy.Succeeded, "",
		},
	} {
		t.Run(reason, func(t *testing.T) {
			t.Parallel()
			u := desired.VolumeSnapshotNamed("a-1")
			if c.status != nil {
				u.Object["status"] = c.status
			}
			a := policy.ReadVolumeSnapshot(u)
			if a.State != c.state || a.Message != c.want {
				t.Errorf("it is read as %+v", a)
			}
			if a.State == policy.Succeeded && a.Result.SizeBytes != 1<<30 {
				t.Errorf("the result is %+v", a.Result)
			}
		})
	}
	var gone *unstructured.Unstructured
	if a := policy.ReadVolumeSnapshot(gone); a.State != policy.Missing {
		t.Errorf("none is read as %+v", a)
	}
}

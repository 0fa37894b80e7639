package status_test

import (
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	v1 "github.com/homeostat-dev/homeostat/operators/database/api/v1"
	"github.com/homeostat-dev/homeostat/operators/database/internal/database/desired"
	"github.com/homeostat-dev/homeostat/operators/database/internal/database/status"
	"github.com/homeostat-dev/homeostat/sdk/conditions"
)

func terminated(name, container, message string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Status: corev1.PodStatus{InitContainerStatuses: []corev1.ContainerStatus{{
			Name:                 container,
			State:                corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}},
			LastTerminationState: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 1, Message: message}},
		}}},
	}
}

// The termination message of a script has precedence over the kubelet's reason.
func TestFirstProblem(t *testing.T) {
	t.Parallel()
	pulling := terminated("a-0", "init", "")
	pulling.Status.InitContainerStatuses[0].State.Waiting.Reason = "ErrImagePull"
	going := terminated("a-0", "init", "sentence")
	going.DeletionTimestamp = new(metav1.Now())
	config := terminated("a-0", "init", "")
	config.Status.InitContainerStatuses[0].State.Waiting = &corev1.ContainerStateWaiting{
		Reason: "CreateContainerConfigError", Message: "couldn't find key password in Secret shop/theirs",
	}
	for name, c := range map[string]struct {
		pod  *corev1.Pod
		want string
	}{
		"no key": {config, "CreateContainerConfigError: couldn't find key password in Secret shop/theirs"},
		"a script gave up": {
			terminated("a-1", "init", "the data are of PostgreSQL 15\n"), "pod a-1: container init: the data are of PostgreSQL 15",
		},
		"no message":  {terminated("a-1", "init", ""), "CrashLoopBackOff"},
		"no image":    {pulling, "ErrImagePull"},
		"terminating": {going, ""},
		"well":        {&corev1.Pod{}, ""},
		"no node": {&corev1.Pod{Status: corev1.PodStatus{Conditions: []corev1.PodCondition{{
			Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable, Message: "no node fits",
		}}}}, "no node fits"},
	} {
		got := status.FirstProblem([]*corev1.Pod{c.pod})
		if (c.want == "") != (got == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// The state follows from the conditions and from whether the database was ready before. A transient error does not change
// it.
func TestState(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		mark   func(*v1.Database)
		worked bool
		want   v1.State
		reason string
		err    string
	}{
		"at first": {
			func(db *v1.Database) { conditions.MarkReconciling(db, status.ReasonProvisioning, "soon") }, false, v1.Provisioning,
			"Provisioning", "",
		},
		"works": {func(db *v1.Database) { conditions.MarkReady(db, "") }, true, v1.Ready, "DatabaseReady", ""},
		"a passing fault": {func(db *v1.Database) {
			conditions.MarkReady(db, "")
			conditions.MarkRetrying(db, "Retrying", "timeout")
		}, true, v1.Ready, "DatabaseReady", ""},
		"a fault that lasts, at first": {
			func(db *v1.Database) { conditions.MarkReconciling(db, "Retrying", "timeout") }, false, v1.Provisioning, "Retrying", "",
		},
		"a fault that lasts": {
			func(db *v1.Database) { conditions.MarkReconciling(db, "Retrying", "timeout") }, true, v1.Degraded, "Retrying", "",
		},
		"refused at first": {
			func(db *v1.Database) { conditions.MarkStalled(db, "Refused", "why") }, false, v1.Failed, "ProvisionFailed", "why",
		},
		"refused": {
			func(db *v1.Database) { conditions.MarkStalled(db, "Refused", "why") }, true, v1.Failed, "Refused", "why",
		},
		"no restore": {
			func(db *v1.Database) { conditions.MarkReconciling(db, status.ReasonRestoreFailed, "why") }, false, v1.Failed,
			"RestoreFailed", "why",
		},
		"hibernates": {func(db *v1.Database) {
			db.Spec.Hibernate = true
			conditions.MarkSuspended(db, "Hibernated", "stopped")
		}, true, v1.Hibernated, "Hibernated", ""},
	} {
		db := &v1.Database{}
		db.Status.Error = "of before"
		if c.worked {
			db.Status.CurrentVersion = "16"
		}
		c.mark(db)
		status.State(db)
		is := conditions.Get(db, conditions.Ready)
		if db.Status.State != c.want || is.Reason != c.reason || db.Status.Error != c.err {
			t.Errorf("%s: %s, Ready %s, error %q; want %s, %s, %q",
				name, db.Status.State, is.Reason, db.Status.Error, c.want, c.reason, c.err)
		}
	}
}

func failed(at time.Time, message string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{desired.ComponentLabel: desired.BackupComponent}},
		Status: corev1.PodStatus{Phase: corev1.PodFailed, ContainerStatuses: []corev1.ContainerStatus{{
			State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
				ExitCode: 1, Message: message, FinishedAt: metav1.NewTime(at),
			}},
		}}},
	}
}

// The last failure is reported with its cause until a later dump succeeds, even if the failed pod still exists.
func TestBackups(t *testing.T) {
	t.Parallel()
	db := &v1.Database{}
	monday := time.Date(2026, 11, 23, 2, 0, 0, 0, time.UTC)
	cron := &batchv1.CronJob{}
	status.Backups(db, status.Dumps{Schedule: cron})
	if db.Status.Backup != nil || conditions.Get(db, status.LastBackupSucceeded) != nil {
		t.Errorf("there was no dump: %+v", db.Status)
	}
	status.Backups(db, status.Dumps{Schedule: cron, Pods: []*corev1.Pod{
		failed(monday, "older"), failed(monday.Add(time.Hour), "disk full"),
	}})
	c := conditions.Get(db, status.LastBackupSucceeded)
	if c.Status != metav1.ConditionFalse || c.Message != "disk full" ||
		!db.Status.Backup.LastFailureTime.Time.Equal(monday.Add(time.Hour)) {
		t.Errorf("%+v, %+v", c, db.Status.Backup)
	}
	status.Backups(db, status.Dumps{Schedule: cron}) // the pods were deleted
	c = conditions.Get(db, status.LastBackupSucceeded)
	if c.Status != metav1.ConditionFalse || db.Status.Backup.LastFailureTime == nil {
		t.Errorf("the failure is forgotten with its pod: %+v", c)
	}
	cron.Status.LastSuccessfulTime = new(metav1.NewTime(monday.Add(2 * time.Hour)))
	status.Backups(db, status.Dumps{Schedule: cron, Pods: []*corev1.Pod{failed(monday, "older")}})
	if c := conditions.Get(db, status.LastBackupSucceeded); c.Status != metav1.ConditionTrue {
		t.Errorf("%+v", c)
	}
	status.Backups(db, status.Dumps{
		Schedule: cron, Next: monday.Add(time.Hour), Applied: conditions.Child{Ready: true},
	})
	if next := db.Status.Backup.NextScheduleTime; next == nil || !next.Time.Equal(monday.Add(time.Hour)) {
		t.Errorf("the next one is due at %s", next)
	}
	status.Backups(db, status.Dumps{})
	if b := db.Status.Backup; b.LastSuccessfulTime == nil || b.NextScheduleTime != nil ||
		conditions.IsTrue(db, status.BackupScheduled) {
		t.Errorf("%+v", db.Status)
	}
}

// Pods of other controllers or of a previous StatefulSet are not members.
func TestMembers(t *testing.T) {
	t.Parallel()
	db := &v1.Database{ObjectMeta: metav1.ObjectMeta{Name: "a"}}
	set := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Name: "a-db", UID: "now"}}
	pod := func(owner types.UID) *corev1.Pod {
		return &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{
				Name: "a-db-0", Labels: map[string]string{desired.ComponentLabel: desired.ServerComponent, "app": "a-db"},
				OwnerReferences: []metav1.OwnerReference{{UID: owner, Controller: new(true)}},
			},
			Status: corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}},
		}
	}
	if s := status.Members(db, set, []*corev1.Pod{pod("former")}); s.PrimaryReady() || len(s.Pods) > 0 {
		t.Error("a foreign pod is the primary")
	}
	if s := status.Members(db, set, []*corev1.Pod{pod("now")}); !s.PrimaryReady() {
		t.Error("the primary is not seen")
	}
	if s := status.Members(db, &appsv1.StatefulSet{}, []*corev1.Pod{pod("now")}); !s.PrimaryReady() {
		t.Error("the primary is not seen while its StatefulSet is made anew")
	}
	for name, forge := range map[string]func(*corev1.Pod){
		"another name":    func(pod *corev1.Pod) { pod.Name = "other" },
		"a higher number": func(pod *corev1.Pod) { pod.Name = "a-db-5" },
		"another app":     func(pod *corev1.Pod) { pod.Labels["app"] = "b-db" },
	} {
		forged := pod("now")
		forged.OwnerReferences = nil
		if forge(forged); len(status.Members(db, set, []*corev1.Pod{forged}).Pods) > 0 {
			t.Errorf("a pod with %s is a member", name)
		}
	}
}

// Missing dumps are reported after two scheduled times, even without a failure.
func TestOverdueBackups(t *testing.T) {
	t.Parallel()
	monday := time.Date(2026, 11, 23, 2, 0, 0, 0, time.UTC)
	daily := func(t time.Time) time.Time { return t.Add(24 * time.Hour) }
	never := &batchv1.CronJob{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(monday)}}
	once := never.DeepCopy()
	once.Status.LastSuccessfulTime = new(metav1.NewTime(monday.Add(2 * time.Hour)))
	for name, c := range map[string]struct {
		cron  *batchv1.CronJob
		after time.Duration
		want  string
	}{
		"none yet":         {never, 47 * time.Hour, ""},
		"none ever":        {never, 49 * time.Hour, "Overdue"},
		"one":              {once, 49 * time.Hour, "Verified"},
		"one, and no more": {once, 51 * time.Hour, "Overdue"},
	} {
		db := &v1.Database{}
		status.Backups(db, status.Dumps{Schedule: c.cron, After: daily, Now: monday.Add(c.after)})
		got := ""
		if condition := conditions.Get(db, status.LastBackupSucceeded); condition != nil {
			got = condition.Reason
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

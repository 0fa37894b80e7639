package status

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/homeostat-dev/homeostat/operators/database/api/v1"
	"github.com/homeostat-dev/homeostat/operators/database/internal/database/desired"
	"github.com/homeostat-dev/homeostat/sdk/conditions"
)

// Dumps is the observed state of the dumps of a Database.
type Dumps struct {
	Schedule *batchv1.CronJob // its status has the last success; nil if backups are disabled
	// Applied is the result of the CronJob, or of the claim that it waits for. It is not ready if the CronJob is missing or
	// outdated.
	Applied conditions.Child

	Pods     []*corev1.Pod             // includes the pods of the last attempts
	SizeNote string                    // explains why their claim is smaller than requested
	Next     time.Time                 // next scheduled time; zero if there is none
	After    func(time.Time) time.Time // returns the first scheduled time after a time; nil if there is none
	Now      time.Time
}

// overdue reports whether two scheduled times have passed since the last success, or since the creation of the CronJob.
func (d *Dumps) overdue(last *metav1.Time) bool {
	if d.After == nil || d.Schedule == nil || d.Schedule.CreationTimestamp.IsZero() {
		return false
	}
	since := d.Schedule.CreationTimestamp.Time
	if last != nil && last.After(since) {
		since = last.Time
	}
	return d.Now.After(d.After(d.After(since)))
}

// Backups sets the status fields and conditions of the dumps.
func Backups(db *v1.Database, dumps Dumps) {
	scheduled(db, dumps)
	at, why := lastFailure(dumps.Pods)
	b := cmp.Or(db.Status.Backup, &v1.BackupStatus{})
	if cron := dumps.Schedule; cron != nil {
		b.LastSuccessfulTime = later(b.LastSuccessfulTime, cron.Status.LastSuccessfulTime)
	}
	b.NextScheduleTime = nil
	if !dumps.Next.IsZero() && conditions.IsTrue(db, BackupScheduled) {
		b.NextScheduleTime = new(metav1.NewTime(dumps.Next))
	}
	b.LastFailureTime = later(b.LastFailureTime, at)
	if db.Status.Backup = b; *b == (v1.BackupStatus{}) {
		db.Status.Backup = nil
	}
	lastBackup(db, b, dumps, why)
}

// lastBackup sets the condition LastBackupSucceeded, with the cause of a failure if it is known.
func lastBackup(db *v1.Database, b *v1.BackupStatus, dumps Dumps, why string) {
	succeeded := b.LastSuccessfulTime
	failed := b.LastFailureTime != nil && (succeeded == nil || !b.LastFailureTime.Before(succeeded))
	switch was := conditions.Get(db, LastBackupSucceeded); {
	case failed && why == "" && was != nil && was.Reason == "Failed": // the pod was deleted meanwhile
		set(db, LastBackupSucceeded, false, "Failed", was.Message)
	case failed:
		set(db, LastBackupSucceeded, false, "Failed", cmp.Or(why, "the last attempt at a dump failed; older dumps are kept"))
	case dumps.overdue(succeeded):
		set(db, LastBackupSucceeded, false, "Overdue",
			"no dump has succeeded for two times of the schedule, and none failed: look at CronJob "+desired.BackupName(db))
	case succeeded != nil:
		set(db, LastBackupSucceeded, true, "Verified", "the last dump was read back to its end")
	}
}

func scheduled(db *v1.Database, dumps Dumps) {
	switch applied := dumps.Applied; {
	case dumps.Schedule == nil:
		set(db, BackupScheduled, false, "Disabled", "spec.backupEnabled is false: no dumps are made")
	case !applied.Ready:
		message := cmp.Or(applied.Message, "CronJob "+desired.BackupName(db)+" does not exist yet")
		if applied.UID != "" {
			message += "; CronJob " + desired.BackupName(db) + " stays as it was"
		}
		set(db, BackupScheduled, false, cmp.Or(applied.Reason, "NotScheduled"), message)
	case db.Spec.Backup.Suspend || db.Spec.Hibernate:
		set(db, BackupScheduled, false, "Suspended", "no dumps are made")
	default:
		message := fmt.Sprintf("dumps are made at %q, %s", db.Spec.Backup.Schedule, db.Spec.Backup.TimeZone)
		if dumps.SizeNote != "" {
			message += "; " + dumps.SizeNote
		}
		set(db, BackupScheduled, true, "Scheduled", message)
	}
}

// lastFailure returns the time and the cause of the last failed attempt. Both are zero if no failed pod exists.
func lastFailure(pods []*corev1.Pod) (last *metav1.Time, why string) {
	for _, pod := range pods {
		if pod.Labels[desired.ComponentLabel] != desired.BackupComponent || pod.Status.Phase != corev1.PodFailed {
			continue
		}
		if at, message := terminationOf(pod); at != nil && (last == nil || last.Before(at)) {
			last, why = at, message
		}
	}
	return last, why
}

func later(a, b *metav1.Time) *metav1.Time {
	if a == nil || b != nil && a.Before(b) {
		return b
	}
	return a
}

// terminationOf returns the end of the pod and the termination message of its container.
func terminationOf(pod *corev1.Pod) (at *metav1.Time, message string) {
	for _, c := range pod.Status.ContainerStatuses {
		if t := c.State.Terminated; t != nil {
			return t.FinishedAt.DeepCopy(), cmp.Or(strings.TrimSpace(t.Message), pod.Status.Message, t.Reason)
		}
	}
	for _, c := range pod.Status.Conditions { // evicted before its container started
		if c.Type == corev1.PodReady || c.Type == corev1.DisruptionTarget {
			return c.LastTransitionTime.DeepCopy(), cmp.Or(pod.Status.Message, pod.Status.Reason)
		}
	}
	return nil, ""
}

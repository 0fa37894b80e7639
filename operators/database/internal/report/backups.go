package report

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/homeostat-dev/homeostat/operators/database/api/v1"
	"github.com/homeostat-dev/homeostat/operators/database/internal/desired"
	"github.com/homeostat-dev/homeostat/sdk/conditions"
)

// Dumps is what is known of the dumps of a Database.
type Dumps struct {
	Schedule *batchv1.CronJob          // which tells of those that succeeded; nil if none are to be made
	Pods     []*corev1.Pod             // of the last attempts, among others
	Small    string                    // why their claim is smaller than it should be, if it is
	Next     time.Time                 // when one is due; zero if none is
	After    func(time.Time) time.Time // when the first one is due after a time; nil if none is
	Now      time.Time
}

// overdue reports whether the times of two dumps have passed since the last one that succeeded, or since any are to be made.
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

// Backups fills in what became of the dumps.
func Backups(db *v1.Database, dumps Dumps) {
	scheduled(db, dumps)
	at, why := lastFailure(dumps.Pods)
	b := cmp.Or(db.Status.Backup, &v1.BackupStatus{})
	if cron := dumps.Schedule; cron != nil {
		b.LastSuccessfulTime = later(b.LastSuccessfulTime, cron.Status.LastSuccessfulTime)
	}
	b.NextScheduleTime = nil
	if !dumps.Next.IsZero() {
		b.NextScheduleTime = new(metav1.NewTime(dumps.Next))
	}
	b.LastFailureTime = later(b.LastFailureTime, at)
	if db.Status.Backup = b; *b == (v1.BackupStatus{}) {
		db.Status.Backup = nil
	}
	lastBackup(db, b, dumps, why)
}

// lastBackup says whether the last dump that was due is there, and if not why, if that is known.
func lastBackup(db *v1.Database, b *v1.BackupStatus, dumps Dumps, why string) {
	succeeded := b.LastSuccessfulTime
	failed := b.LastFailureTime != nil && (succeeded == nil || !b.LastFailureTime.Before(succeeded))
	switch was := conditions.Get(db, LastBackupSucceeded); {
	case failed && why == "" && was != nil && was.Reason == "Failed": // the pod was cleaned up
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
	switch {
	case dumps.Schedule == nil:
		set(db, BackupScheduled, false, "Disabled", "spec.backupEnabled is false: no dumps are made")
	case db.Spec.Backup.Suspend || db.Spec.Hibernate:
		set(db, BackupScheduled, false, "Suspended", "no dumps are made")
	default:
		message := fmt.Sprintf("dumps are made at %q, %s", db.Spec.Backup.Schedule, db.Spec.Backup.TimeZone)
		if dumps.Small != "" {
			message += "; " + dumps.Small
		}
		set(db, BackupScheduled, true, "Scheduled", message)
	}
}

// lastFailure returns when an attempt at a dump failed for the last time, and why, as far as there are pods of it.
func lastFailure(pods []*corev1.Pod) (last *metav1.Time, why string) {
	for _, pod := range pods {
		if pod.Labels[desired.ComponentLabel] != desired.BackupComponent || pod.Status.Phase != corev1.PodFailed {
			continue
		}
		if at, message := ended(pod); at != nil && (last == nil || last.Before(at)) {
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

// ended returns when the pod ended, and what its container said.
func ended(pod *corev1.Pod) (at *metav1.Time, message string) {
	for _, c := range pod.Status.ContainerStatuses {
		if t := c.State.Terminated; t != nil {
			return t.FinishedAt.DeepCopy(), cmp.Or(strings.TrimSpace(t.Message), pod.Status.Message, t.Reason)
		}
	}
	for _, c := range pod.Status.Conditions { // evicted before it began
		if c.Type == corev1.PodReady || c.Type == corev1.DisruptionTarget {
			return c.LastTransitionTime.DeepCopy(), cmp.Or(pod.Status.Message, pod.Status.Reason)
		}
	}
	return nil, ""
}

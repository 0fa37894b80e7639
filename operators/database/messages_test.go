package database_test

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/homeostat-dev/homeostat/operators/database/api/v1"
	"github.com/homeostat-dev/homeostat/operators/database/internal/database/desired"
	"github.com/homeostat-dev/homeostat/operators/database/internal/database/status"
	"github.com/homeostat-dev/homeostat/sdk/conditions"
	"github.com/homeostat-dev/homeostat/testkit"
)

// BackupScheduled follows from the CronJob that exists. A Database that serves is not Failed because of its dumps.
func TestDumpsCannotBeScheduled(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	start(k)
	foreign := cron("b-db-backup")
	foreign.Spec = desired.BackupCronJob(newDatabase("b"), "image", "scripts", "").Spec
	foreign.Spec.TimeZone = nil
	k.Apply(foreign)
	a, b := newDatabase("a"), newDatabase("b")
	a.Spec.Backup.TimeZone = "Mars/Olympus"
	for _, db := range []*v1.Database{a, b} {
		db.Spec.Replicas = nil
		k.Apply(db)
	}
	unscheduled := func(reason string) []testkit.Check {
		return []testkit.Check{
			state(v1.Degraded), testkit.Condition(status.Available, metav1.ConditionTrue),
			testkit.Reason(status.BackupScheduled, metav1.ConditionFalse, reason),
			testkit.Reason("Ready", metav1.ConditionFalse, reason),
			testkit.Match("no next time", func(db *v1.Database) bool {
				return db.Status.Backup == nil || db.Status.Backup.NextScheduleTime == nil
			}),
		}
	}
	k.Eventually(b, unscheduled("ResourceConflict")...)
	k.Eventually(a, unscheduled("InvalidSchedule")...)
	k.Eventually(cron("a-db-backup"), testkit.Gone())
	got := conditions.Get(a, status.BackupScheduled).Message
	if !strings.HasPrefix(got, `spec.backup.timeZone "Mars/Olympus"`) {
		t.Errorf("the message is %s", got)
	}
	scheduled := []testkit.Check{
		testkit.Ready(), state(v1.Ready), testkit.Reason(status.BackupScheduled, metav1.ConditionTrue, "Scheduled"),
	}
	k.Update(a, func() { a.Spec.Backup.TimeZone = "Europe/Madrid" })
	k.Eventually(a, scheduled...)
	k.Delete(foreign)
	k.Eventually(b, scheduled...)

	k.Update(a, func() { a.Spec.Backup.Schedule = "0 0 L * *" }) // the CronJob stays
	k.Eventually(a, unscheduled("InvalidSchedule")...)
	want := `spec.backup.schedule "0 0 L * *": "L" is not valid as day of month: use 1 to 31, *, or lists, ranges and steps ` +
		"of them; CronJob a-db-backup stays as it was"
	if got := conditions.Get(a, status.BackupScheduled).Message; got != want {
		t.Errorf("the message is %s", got)
	}
	k.Update(a, func() { a.Spec.Backup.Suspend = true })
	k.Eventually(a, testkit.Ready(), testkit.Reason(status.BackupScheduled, metav1.ConditionFalse, "Suspended"))
}

// The data of another engine are neither used nor called foreign.
func TestDataOfOtherEngine(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	start(k)
	db := newDatabase("a")
	db.Spec.Replicas = nil
	k.Apply(db)
	k.Eventually(db, testkit.Ready())
	k.Delete(db)
	k.Eventually(db, testkit.Gone())
	k.Eventually(set("a-db"), testkit.Gone())
	db = newDatabase("a")
	db.Spec.Replicas = nil
	db.Spec.Engine = v1.MariaDB
	db.Spec.Version = "11.4"
	k.Apply(db)
	k.Eventually(db, testkit.Reason("Stalled", metav1.ConditionTrue, "DataOfOtherVersion"), state(v1.Failed))
	want := "claim data-a-db-0 has the data of a former Database a of postgresql 16, which mariadb 11 cannot read: make the " +
		"Database with spec.engine postgresql and a spec.version of 16, or under another name, or delete the claim if its data " +
		"are not needed"
	if db.Status.Error != want {
		t.Errorf("the error is %s", db.Status.Error)
	}
	k.Delete(claim("data-a-db-0"))
	k.Eventually(db, testkit.Ready())
}

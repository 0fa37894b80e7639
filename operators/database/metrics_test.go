package database_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/homeostat-dev/homeostat/operators/database"
	v1 "github.com/homeostat-dev/homeostat/operators/database/api/v1"
	databasemetrics "github.com/homeostat-dev/homeostat/operators/database/internal/metrics"
	"github.com/homeostat-dev/homeostat/testkit"
)

// gatherMetrics returns the metrics of a namespace with this prefix, keyed by name, object and labels.
func gatherMetrics(t *testing.T, namespace, prefix string) map[string]float64 {
	t.Helper()
	families, err := metrics.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]float64{}
	for _, family := range families {
		if !strings.HasPrefix(family.GetName(), prefix) {
			continue
		}
		for _, m := range family.GetMetric() {
			labels := map[string]string{}
			for _, label := range m.GetLabel() {
				labels[label.GetName()] = label.GetValue()
			}
			if labels["namespace"] == namespace {
				key := []string{family.GetName(), labels["name"]}
				for _, label := range []string{"kind", "state", "engine", "version"} {
					if v := labels[label]; v != "" {
						key = append(key, v)
					}
				}
				all[strings.Join(key, " ")] = m.GetGauge().GetValue() + m.GetCounter().GetValue()
			}
		}
	}
	return all
}

// Metrics and events report success, failure and missed times. The metrics are deleted with the object.
func TestSnapshotMetricsAndEvents(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	k.Kubelet.DelayReadiness(dumpPods)
	c := newYear()
	startSnapshots(k, c)
	k.Run(database.NewMetrics())
	k.Run(database.NewMetrics()) // two instances in one process count once
	o := yearly("a")
	k.Apply(o)
	endJob(k, "a-203201010000", dumpResult("a-203201010000"), 0)
	k.Eventually(o, lastCopy("a-203201010000"))
	succeeded := c.Now()
	c.NextYear(k, o)
	endJob(k, "a-203301010000", "the server does not answer", 1)
	k.Eventually(o, failures(1))
	missed := float64(2032 - o.CreationTimestamp.UTC().Year() - 1)
	want := map[string]float64{
		"dbsnapshot_info a":                            1,
		"dbsnapshot_last_success_timestamp_seconds a":  float64(succeeded.Unix()),
		"dbsnapshot_last_failure_timestamp_seconds a":  float64(c.Now().Unix()),
		"dbsnapshot_next_schedule_timestamp_seconds a": float64(time.Date(2034, time.January, 1, 0, 0, 0, 0, time.UTC).Unix()),
		"dbsnapshot_consecutive_failures a":            1,
		"dbsnapshot_duration_seconds a":                1.5,
		"dbsnapshot_size_bytes a":                      4096,
		"dbsnapshot_overdue a":                         0,
		"dbsnapshot_artifacts a":                       1,
		"dbsnapshot_missed_total a":                    missed,
	}
	k.Wait("the metrics", func(context.Context) error {
		if diff := cmp.Diff(want, gatherMetrics(t, k.Namespace, "dbsnapshot_")); diff != "" {
			return errors.New("-want +got:\n" + diff)
		}
		return nil
	})
	c.Move(k, o, 2*time.Hour)
	k.Eventually(o, snapshotPhase(v1.SnapshotOverdue))
	expectEvents(k, []string{
		"Normal SnapshotStarted: Copy a-203201010000 is being made",
		"Normal SnapshotStarted: Copy a-203301010000 is being made",
		"Normal SnapshotSucceeded: Copy a-203201010000 is finished: 4096 bytes at a-203201010000/shop.dump",
		"Warning Failed: the last attempt failed: the server does not answer",
		"Warning SnapshotFailed: Copy a-203301010000 failed: the server does not answer",
		fmt.Sprintf("Warning Missed: %v times of the schedule passed without a copy: "+
			"the operator did not reconcile the DBSnapshot in time", missed),
		"Warning Overdue: no copy has succeeded since 2032-01-01T00:00:30Z",
		"Warning Overdue: no copy has succeeded yet",
	})
	k.Delete(o)
	k.Wait("the metrics are gone", func(context.Context) error {
		if got := gatherMetrics(t, k.Namespace, "dbsnapshot_"); len(got) != 0 {
			return fmt.Errorf("there are %v", got)
		}
		return nil
	})
}

// The metrics describe a Database and are deleted with it.
func TestMetrics(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	k.Run(database.New(database.Options{Now: fixedClock}))
	k.Run(database.NewMetrics())
	db := newDatabase("a")
	db.Spec.Replicas = new(int32(2))
	db.Spec.StorageClassName = new(volumesOf(k, false, "1Gi", "data-a-db-0", "data-a-db-1", "a-db-backup"))
	k.Apply(db)
	k.Eventually(db, testkit.Ready())
	k.Update(db, func() { db.Spec.Storage = "2Gi" })
	k.Eventually(db, pending("Resize storage to 2Gi"))
	succeeded := metav1.NewTime(fixedClock().Add(-time.Hour))
	dumps := cron("a-db-backup")
	k.UpdateStatus(dumps, func() { dumps.Status.LastSuccessfulTime = &succeeded })
	leapDay := time.Date(2028, time.February, 29, 0, 0, 0, 0, time.UTC) // see rareSchedule
	want := map[string]float64{
		"database_info a postgresql 16":                     1,
		"database_state a Provisioning":                     0,
		"database_state a Ready":                            0,
		"database_state a Degraded":                         0,
		"database_state a Failed":                           0,
		"database_state a Hibernated":                       0,
		"database_replicas a":                               2,
		"database_ready_replicas a":                         2,
		"database_storage_bytes a requested":                2 << 30,
		"database_storage_bytes a satisfied":                1 << 30,
		"database_pending_action a":                         1,
		"database_backup_last_success_timestamp_seconds a":  float64(succeeded.Unix()),
		"database_backup_last_failure_timestamp_seconds a":  0,
		"database_backup_succeeded a":                       1,
		"database_backup_next_schedule_timestamp_seconds a": float64(leapDay.Unix()),
	}
	k.Get(db)
	want["database_state a "+string(db.Status.State)] = 1
	k.Wait("the metrics", func(context.Context) error {
		if diff := cmp.Diff(want, gatherMetrics(t, k.Namespace, "database_")); diff != "" {
			return errors.New("-want +got:\n" + diff)
		}
		return nil
	})
	k.Delete(db)
	k.Eventually(db, testkit.Gone())
	k.Wait("the metrics are gone", func(context.Context) error {
		if got := gatherMetrics(t, k.Namespace, "database_"); len(got) != 0 {
			return fmt.Errorf("there are %v", got)
		}
		return nil
	})
}

// expectEvents waits for these events about DBSnapshots, without those about Ready.
func expectEvents(k *testkit.K, want []string) {
	slices.Sort(want)
	k.Wait("the events", func(ctx context.Context) error {
		var list corev1.EventList
		if err := k.Client.List(ctx, &list, client.InNamespace(k.Namespace)); err != nil {
			return err
		}
		var got []string
		for _, e := range list.Items {
			if e.InvolvedObject.Kind == "DBSnapshot" && e.Reason != "Ready" {
				got = append(got, fmt.Sprintf("%s %s: %s", e.Type, e.Reason, e.Message))
			}
		}
		slices.Sort(got)
		if diff := cmp.Diff(want, got); diff != "" {
			return errors.New("-want +got:\n" + diff)
		}
		return nil
	})
}

// The alerts use existing metrics only, and one alert is about missing ones.
func TestAlerts(t *testing.T) {
	t.Parallel()
	rules := testkit.Kustomize(t, "config/prometheus")
	if len(rules) != 1 || rules[0].GetKind() != "PrometheusRule" {
		t.Fatalf("the folder has %d objects", len(rules))
	}
	text, err := json.Marshal(rules[0].Object)
	if err != nil {
		t.Fatal(err)
	}
	described := make(chan *prometheus.Desc, 100)
	for _, c := range databasemetrics.Collectors() {
		c.Describe(described)
	}
	close(described)
	named := regexp.MustCompile(`\b(database|dbsnapshot)_\w+`)
	var known []string
	for desc := range described {
		known = append(known, named.FindString(desc.String()))
	}
	for _, name := range named.FindAllString(string(text), -1) {
		if !slices.Contains(known, name) {
			t.Errorf("an alert is about %s, which is none of %s", name, known)
		}
	}
	if !strings.Contains(string(text), "absent(dbsnapshot_info)") {
		t.Error("no alert is about the absence of metrics")
	}
}

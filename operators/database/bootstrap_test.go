package database_test

import (
	"context"
	"errors"
	"maps"
	"slices"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "github.com/homeostat-dev/homeostat/operators/database/api/v1"
	"github.com/homeostat-dev/homeostat/testkit"
	"github.com/homeostat-dev/homeostat/testkit/kubelet"
)

func job(name string) *batchv1.Job { return &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: name}} }

// env returns the value of a variable of the first container.
func env(pod *corev1.PodSpec, name string) string {
	for _, e := range pod.Containers[0].Env {
		if e.Name == name {
			return e.Value
		}
	}
	return ""
}

// primaryReachable checks whether the primary's Service selects a pod.
func primaryReachable(want bool) testkit.Check {
	return testkit.Match("open", func(s *corev1.Service) bool {
		_, held := s.Spec.Selector["techoral.com/restored"]
		return held != want
	})
}

// No client reaches a database before its initial data are restored. The source may be deleted afterwards, and retained data
// are not restored a second time.
func TestBootstrapFromBackup(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	start(k)
	release := k.Kubelet.DelayReadiness("app.kubernetes.io/component=restore")
	db := newDatabase("a")
	db.Spec.BootstrapFrom = &v1.BootstrapFrom{BackupRef: &v1.BackupReference{ClaimName: "former-db-backup", Name: "monday"}}
	k.Apply(claimOf("former-db-backup"))
	k.Apply(db)
	k.Eventually(service("a-db"), primaryReachable(false))
	k.Eventually(service("a-db-ro"), testkit.Exists())
	restore := job("a-db-restore")
	k.Eventually(restore, testkit.Match("running", func(j *batchv1.Job) bool { return j.Status.Active > 0 }))
	k.Eventually(set("a-db"), testkit.Gone()) // no server starts before the data are there
	template := &restore.Spec.Template.Spec
	claims := map[string]bool{}
	for _, v := range template.Volumes {
		if v.PersistentVolumeClaim != nil {
			claims[v.PersistentVolumeClaim.ClaimName] = v.PersistentVolumeClaim.ReadOnly
		}
	}
	if want := map[string]bool{"data-a-db-0": false, "former-db-backup": true}; env(template, "NAME") != "monday" ||
		env(template, "MEMBER") != "0" || !maps.Equal(claims, want) {
		t.Errorf("the Job restores %q with the claims %v", env(template, "NAME"), claims)
	}
	release()
	k.Eventually(db, testkit.Ready(), state(v1.Ready), testkit.Match("restored", func(db *v1.Database) bool {
		return db.Status.Restored != ""
	}))
	k.Eventually(service("a-db"), primaryReachable(true))
	k.Eventually(restore, testkit.Gone())
	k.Delete(claim("former-db-backup"))
	k.Update(db, func() { db.Spec.Storage = "2Gi" })
	k.Eventually(db, testkit.Ready(), granted("2Gi"))

	k.Delete(db)
	k.Eventually(pod("a-db-0"), testkit.Gone())
	again := newDatabase("a")
	again.Spec.BootstrapFrom = db.Spec.BootstrapFrom
	again.Spec.Storage = "2Gi"
	k.Apply(again)
	k.Eventually(again, testkit.Ready(), state(v1.Ready))
	if again.Status.Restored != db.Status.Restored {
		t.Errorf("its data are said to be from %q, and were from %q", again.Status.Restored, db.Status.Restored)
	}
	k.Eventually(service("a-db"), primaryReachable(true))
	k.Eventually(restore, testkit.Gone())

	k.Delete(again)
	k.Eventually(pod("a-db-0"), testkit.Gone())
	other := newDatabase("a")
	other.Spec.BootstrapFrom = &v1.BootstrapFrom{BackupRef: &v1.BackupReference{ClaimName: "former-db-backup", Name: "tuesday"}}
	other.Spec.Storage = "2Gi"
	k.Apply(other)
	k.Eventually(other, testkit.Reason("Stalled", metav1.ConditionTrue, "DataExist"), state(v1.Failed))
	k.Eventually(set("a-db"), testkit.Gone())
}

func claimOf(name string) *corev1.PersistentVolumeClaim {
	c := claim(name)
	c.Spec = corev1.PersistentVolumeClaimSpec{
		AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
		Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: *storageSize("1Gi")}},
	}
	return c
}

// A failed restore reports its cause and keeps the Services closed. It is retried after a user deletes the Job.
func TestFailedBootstrap(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	k.Timeout = 2 * time.Minute // Kubernetes retries twice, after 10 and 20 s
	start(k)
	hold := k.Kubelet.DelayReadiness("app.kubernetes.io/component=restore")
	db := newDatabase("a")
	db.Spec.BootstrapFrom = &v1.BootstrapFrom{BackupRef: &v1.BackupReference{ClaimName: "former-db-backup"}}
	k.Apply(claimOf("former-db-backup"))
	k.Apply(db)
	restore := job("a-db-restore")
	k.Eventually(restore, testkit.Match("running", func(j *batchv1.Job) bool { return j.Status.Active > 0 }))
	k.Eventually(db, testkit.Reason("Ready", metav1.ConditionFalse, "Restoring"), state(v1.Provisioning))
	for range 3 {
		k.Wait("a pod that restores", func(ctx context.Context) error {
			pods := &corev1.PodList{}
			if err := k.Client.List(ctx, pods, client.InNamespace(k.Namespace),
				client.MatchingLabels{"app.kubernetes.io/component": "restore"}); err != nil {
				return err
			}
			if !slices.ContainsFunc(pods.Items, func(p corev1.Pod) bool { return p.Status.Phase == corev1.PodRunning }) {
				return errors.New("none runs")
			}
			return nil
		})
		k.Kubelet.Fail("app.kubernetes.io/component=restore", kubelet.FailedWith(1))
	}
	k.Eventually(db, state(v1.Failed), testkit.Reason("Ready", metav1.ConditionFalse, "RestoreFailed"))
	k.Eventually(service("a-db"), primaryReachable(false))
	hold()
	k.Delete(job("a-db-restore"))
	k.Eventually(db, testkit.Ready(), state(v1.Ready))
	k.Eventually(service("a-db"), primaryReachable(true))
}

// A copy of a DBSnapshot is found with its status: in its claim, or as a VolumeSnapshot.
func TestBootstrapFromSnapshot(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	start(k)
	restored := k.Kubelet.DelayReadiness("app.kubernetes.io/component=restore") // keeps the Jobs for inspection
	dumps := &v1.DBSnapshot{ObjectMeta: metav1.ObjectMeta{Name: "dumps"}, Spec: v1.DBSnapshotSpec{
		Source:  v1.SnapshotSource{DatabaseRef: &v1.DatabaseReference{Name: "former"}},
		Storage: &v1.SnapshotStorage{PersistentVolumeClaim: v1.SnapshotClaim{Template: &v1.ClaimTemplate{Size: "1Gi"}}},
	}}
	volumes := &v1.DBSnapshot{ObjectMeta: metav1.ObjectMeta{Name: "volumes"}, Spec: v1.DBSnapshotSpec{
		Source: v1.SnapshotSource{DatabaseRef: &v1.DatabaseReference{Name: "former"}}, Method: v1.MethodVolumeSnapshot,
	}}
	from := func(name, snapshot string) *v1.Database {
		db := newDatabase(name)
		db.Spec.Replicas = new(int32(1))
		db.Spec.BootstrapFrom = &v1.BootstrapFrom{SnapshotRef: &v1.SnapshotReference{Name: "dumps", Snapshot: snapshot}}
		return db
	}
	a, b, c, d := from("a", ""), from("b", "second"), from("c", "none"), from("d", "")
	d.Spec.BootstrapFrom.SnapshotRef.Name = "volumes"
	k.Apply(a)
	k.Eventually(a, testkit.Reason("Ready", metav1.ConditionFalse, "ReferenceNotFound"))
	k.Apply(dumps)
	k.Eventually(a, testkit.Reason("Ready", metav1.ConditionFalse, "SnapshotNotReady"))
	k.Apply(claimOf("dumps-snapshots"))
	k.UpdateStatus(dumps, func() {
		dumps.Status.LastSnapshot = &v1.LastSnapshot{Name: "third", Location: "third.dump"}
		dumps.Status.History = []v1.SnapshotRecord{
			{Name: "third", Result: "Succeeded", Location: "third.dump", StartedAt: metav1.Now()},
			{Name: "second", Result: "Succeeded", Location: "second.dump", StartedAt: metav1.Now()},
			{Name: "none", Result: "Failed", StartedAt: metav1.Now()},
		}
	})
	k.Apply(b)
	k.Apply(c)
	for name, want := range map[string]string{"a": "third", "b": "second"} {
		restore := job(name + "-db-restore")
		k.Eventually(restore, testkit.Exists())
		if got := env(&restore.Spec.Template.Spec, "NAME"); got != want {
			t.Errorf("%s restores %s, want %s", name, got, want)
		}
	}
	restored()
	k.Eventually(a, testkit.Ready())
	k.Eventually(b, testkit.Ready())
	k.Eventually(c, state(v1.Failed), testkit.Reason("Stalled", metav1.ConditionTrue, "SnapshotNotFound"))

	k.Apply(volumes)
	k.UpdateStatus(volumes, func() { volumes.Status.LastSnapshot = &v1.LastSnapshot{Name: "volumes-x", Location: "volumes-x"} })
	k.Apply(d)
	data := claim("data-d-db-0")
	k.Eventually(data, testkit.Match("from the snapshot", func(c *corev1.PersistentVolumeClaim) bool {
		return c.Spec.DataSource != nil && c.Spec.DataSource.Kind == "VolumeSnapshot" && c.Spec.DataSource.Name == "volumes-x"
	}))
}

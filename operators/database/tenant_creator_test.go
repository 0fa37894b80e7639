package database_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "github.com/homeostat-dev/homeostat/operators/database/api/v1"
	"github.com/homeostat-dev/homeostat/operators/database/internal/adoption"
	"github.com/homeostat-dev/homeostat/sdk"
	"github.com/homeostat-dev/homeostat/testkit"
)

// S3: each object of a release has the name of a child of another Database, so that one conflict does not hide another.
func takenRelease(e *tenancy) {
	budget := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Name: "r1-db"}}
	budget.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"of": "them"}}
	schedule, address, data := cron("r2-db-backup"), service("r3-db"), claimOf("data-r4-db-0")
	schedule.Spec = batchv1.CronJobSpec{Schedule: rareSchedule, JobTemplate: batchv1.JobTemplateSpec{Spec: batchv1.JobSpec{
		Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
			RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: "c", Image: "theirs:1"}},
		}},
	}}}
	address.Spec.Ports = []corev1.ServicePort{{Port: 5432}}
	address.Spec.Selector = map[string]string{"of": "them"}
	theirs := []client.Object{foreignSet("r0-db"), budget, schedule, address, data, claimOf("r5-db-backup")}
	for i, o := range theirs {
		e.mark(o, ownDatabase(fmt.Sprintf("r%d", i)))
		e.Apply(o)
	}
	before := e.contents(theirs...)
	var all []client.Object
	for i := range theirs {
		db := newDatabase(fmt.Sprintf("r%d", i))
		db.Spec.DeletionPolicy = v1.DeletionDelete
		db.Annotations = map[string]string{adoption.Annotation: db.Name}
		e.create(db)
		all = append(all, db)
	}
	for _, db := range all {
		e.Eventually(db, testkit.Condition("Ready", metav1.ConditionFalse), observedSpec(), testkit.Match("no success",
			func(db *v1.Database) bool { return db.Status.State == v1.Failed || db.Status.State == v1.Degraded }))
	}
	e.deleteAll(all...)
	if diff := cmp.Diff(before, e.contents(theirs...)); diff != "" {
		e.t.Errorf("the objects of the release have changed:\n%s", diff)
	}
}

// A claim that a DBSnapshot names is not its own.
func copyIntoData(e *tenancy) {
	for i, name := range []string{"data-victim-db-0", "victim-db-backup"} {
		o := e.snapshot(fmt.Sprintf("a%d", i), name)
		if claims := e.job(o.Name).Spec.Template.Spec.Volumes; claims[1].PersistentVolumeClaim.ClaimName != name {
			e.t.Errorf("the Job mounts %v", claims)
		}
		e.deleteAll(o)
	}
}

// snapshot creates a DBSnapshot of eve that dumps the victim at once into that claim, and deletes its copies with itself.
func (e *tenancy) snapshot(name, claim string) *v1.DBSnapshot {
	e.t.Helper()
	o := ofDatabase(name, "victim")
	o.Spec.Immediate = true
	o.Spec.DeletionPolicy = v1.CopiesDeleted
	o.Spec.Storage.PersistentVolumeClaim = v1.SnapshotClaim{ClaimName: claim}
	e.create(o)
	return o
}

// S17: a DBSnapshot passes the key of a Secret to a server of eve's choice, as any pod of the namespace can. The password is
// in no object that she may read.
func borrowedPassword(e *tenancy) {
	o := yearly("a")
	o.Spec.Immediate = true
	o.Spec.Source.Postgres.Host = "evil.example"
	o.Spec.Source.Postgres.PasswordSecretRef = corev1.SecretKeySelector{
		LocalObjectReference: corev1.LocalObjectReference{Name: "victim-db-credentials"}, Key: "dump-password",
	}
	e.create(o)
	job := e.job("a").Spec.Template.Spec
	if job.AutomountServiceAccountToken == nil || *job.AutomountServiceAccountToken {
		e.t.Error("the pod has the token of a ServiceAccount")
	}
	e.withoutPasswords(o, e.job("a"), e.victim)
	e.deleteAll(o)
}

// withoutPasswords checks that neither the objects nor the events have a password of the victim.
func (e *tenancy) withoutPasswords(objects ...client.Object) {
	e.t.Helper()
	events := &eventsv1.EventList{}
	if err := e.Client.List(e.Context(), events, client.InNamespace(e.Namespace)); err != nil {
		e.t.Fatal(err)
	}
	var texts []string
	for _, o := range objects {
		e.Get(o)
		raw, err := json.Marshal(o)
		if err != nil {
			e.t.Fatal(err)
		}
		texts = append(texts, string(raw))
	}
	for i := range events.Items {
		texts = append(texts, events.Items[i].Note)
	}
	password := secret("victim-db-credentials")
	e.Get(password)
	for _, key := range []string{"password", "dump-password", "replication-password"} {
		if len(password.Data[key]) == 0 || strings.Contains(strings.Join(texts, "\n"), string(password.Data[key])) {
			e.t.Errorf("%s is empty or readable", key)
		}
	}
}

// A restore reads the dumps of another Database and cannot write them.
func borrowedDumps(e *tenancy) {
	db := e.database("a", func(db *v1.Database) {
		db.Spec.BootstrapFrom = &v1.BootstrapFrom{BackupRef: &v1.BackupReference{ClaimName: "victim-db-backup"}}
		db.Spec.DeletionPolicy = v1.DeletionDelete
	})
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "a-db-restore"}}
	e.Eventually(job, testkit.Match("reads only", func(j *batchv1.Job) bool {
		pod := j.Spec.Template.Spec
		for _, v := range pod.Volumes {
			if c := v.PersistentVolumeClaim; c != nil && c.ClaimName != "data-a-db-0" &&
				(c.ClaimName != "victim-db-backup" || !c.ReadOnly) {
				return false
			}
		}
		return true
	}))
	e.deleteAll(db)
}

func brokenImage(e *tenancy) {
	for _, image := range []string{"postgres:16\nevil", "postgres:16 --evil", strings.Repeat("a", 513)} {
		db, o := ownDatabase("a"), yearly("a")
		db.Spec.Image = image
		e.refused(db)
		o.Spec.PgDump = &v1.PgDump{Image: image}
		e.refused(o)
	}
	for _, version := range []string{"16/../evil", "evil", "16@sha256:0", "16 "} {
		db := ownDatabase("a")
		db.Spec.Version = version
		e.refused(db)
	}
}

// A DBSnapshot without a copy gives no data, also if eve writes one into its status.
func unknownCopy(e *tenancy) {
	o := yearly("a")
	o.Status.LastSnapshot = &v1.LastSnapshot{Name: "victim"}
	e.create(o)
	db := e.database("b", func(db *v1.Database) {
		db.Spec.BootstrapFrom = &v1.BootstrapFrom{SnapshotRef: &v1.SnapshotReference{Name: "a"}}
	})
	e.Eventually(db, testkit.Reason("Ready", metav1.ConditionFalse, "SnapshotNotReady"))
	e.deleteAll(db, o)
}

// The copies of a DBSnapshot are not in the series of the dumps of a Database, whose retention would count them.
func copyInSeries(e *tenancy) {
	o := ofDatabase("victim-db-backup", "victim")
	o.Spec.Storage.PersistentVolumeClaim = v1.SnapshotClaim{ClaimName: "victim-db-backup"}
	e.refused(o)
}

// A quota limits eve's Database as it limits her.
func exhaustedQuota(e *tenancy) {
	quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: "none"}}
	none := corev1.ResourceList{"count/persistentvolumeclaims": resource.MustParse("2")} // those of the victim
	quota.Spec.Hard = none
	e.Apply(quota)
	e.Wait("the quota", func(ctx context.Context) error { // its controller may write it, too
		if err := e.Client.Get(ctx, client.ObjectKeyFromObject(quota), quota); err != nil {
			return err
		}
		quota.Status = corev1.ResourceQuotaStatus{Hard: none, Used: none}
		if err := e.Client.Status().Update(ctx, quota); err != nil {
			return err
		}
		probe := inNamespace(e.K, claimOf("probe"))
		if err := e.Client.Create(ctx, probe, client.DryRunAll); !apierrors.IsForbidden(err) {
			return fmt.Errorf("a claim is admitted: %w", err)
		}
		return nil
	})
	db := e.database("a")
	e.Eventually(db, testkit.Condition("Ready", metav1.ConditionFalse), observedSpec(),
		testkit.Match("says why", func(db *v1.Database) bool {
			raw, _ := json.Marshal(db.Status.Conditions)
			return strings.Contains(string(raw), "exceeded quota")
		}))
	e.deleteAll(db)
}

// The roles of the operator give no access to Secrets, and no object of the operator shows one.
func unreadable(e *tenancy) {
	config := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "victim-db-config"}}
	for _, o := range []client.Object{secret("victim-db-credentials"), config} {
		if err := e.eve.Get(e.Context(), client.ObjectKeyFromObject(inNamespace(e.K, o)), o); !apierrors.IsForbidden(err) {
			e.t.Errorf("eve may read %T: %v", o, err)
		}
	}
	e.withoutPasswords(e.victim, set("victim-db"), pod("victim-db-0"), cron("victim-db-backup"))
}

// References are names in the namespace: one with a path is refused, or there is no such object.
func pathReferences(e *tenancy) {
	for i, path := range []string{"default/other", "../other", "other?watch=1"} {
		unknown := ownDatabase("b")
		unknown.Spec.BootstrapFrom = &v1.BootstrapFrom{SnapshotRef: &v1.SnapshotReference{Name: path}}
		e.refused(unknown)
		name := fmt.Sprintf("a%d", i)
		db := e.database(name, func(db *v1.Database) { db.Spec.CredentialsSecretRef = &v1.SecretReference{Name: path} })
		snapshot := ofDatabase(name, path)
		e.create(snapshot)
		into := ofDatabase(name+"-into", "victim")
		into.Spec.Storage.PersistentVolumeClaim = v1.SnapshotClaim{ClaimName: path}
		e.create(into)
		for _, o := range []client.Object{db, snapshot, into} {
			e.Eventually(o, testkit.Reason("Ready", metav1.ConditionFalse, "ReferenceNotFound"))
		}
		e.Eventually(set(name+"-db"), testkit.Gone())
	}
}

// refused checks that the API server refuses an object of eve as invalid.
func (e *tenancy) refused(o client.Object) {
	e.t.Helper()
	if err := e.eve.Create(e.Context(), inNamespace(e.K, o), client.DryRunAll); !apierrors.IsInvalid(err) {
		raw, _ := json.Marshal(o)
		e.t.Errorf("%s is accepted: %v", raw, err)
	}
}

// deleteAll deletes objects as eve and waits until they are gone.
func (e *tenancy) deleteAll(all ...client.Object) {
	e.t.Helper()
	for _, o := range all {
		e.delete(o)
	}
	for _, o := range all {
		e.Eventually(o, testkit.Gone())
	}
}

// job waits for the Job of a DBSnapshot.
func (e *tenancy) job(of string) *batchv1.Job {
	e.t.Helper()
	var job *batchv1.Job
	e.Wait("a Job of "+of, func(ctx context.Context) error {
		jobs := &batchv1.JobList{}
		of := client.MatchingLabels{sdk.InstanceLabel: of}
		if err := e.Client.List(ctx, jobs, client.InNamespace(e.Namespace), of); err != nil {
			return err
		}
		at := slices.IndexFunc(jobs.Items, func(j batchv1.Job) bool { return metav1.GetControllerOf(&j) != nil })
		if at < 0 {
			return fmt.Errorf("there is none among %d", len(jobs.Items))
		}
		job = &jobs.Items[at]
		return nil
	})
	return job
}

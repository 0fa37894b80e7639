package mutants

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/homeostat-dev/homeostat/testkit"
	v1 "github.com/homeostat-dev/homeostat/testkit/mutants/api/v1"
)

// Bugs of an operator that writes at rest, or never becomes idle.
const (
	progressing  bug = "progressing"
	lastSyncTime bug = "last-sync-time"
	mapOrder     bug = "map-order"
)

func hotLoopMutants() class {
	return class{
		name: "hot-loop", setup: setupBackups, account: constantAccount("backup"),
		flaws: []flaw{
			{progressing, "Each reconcile first writes Ready=Unknown. The event of this write starts the next reconcile."},
			{lastSyncTime, "Each reconcile stores its own time in the status. The event of this write starts the next reconcile."},
			{mapOrder, "Lists have the random order of a map. Each reconcile therefore finds a difference and writes it."},
		},
		steps: []Step{
			{"create", func(k *testkit.K) { k.Apply(newBackup("daily", 9, 9)) }},
			{"change", func(k *testkit.K) { k.Apply(newBackup("hourly", 10, 9)) }},
			{"change options", func(k *testkit.K) { k.Apply(newBackup("hourly", 10, 8)) }},
		},
	}
}

// newBackup returns a Backup with the given numbers of variables and options.
func newBackup(schedule string, env, options int) *v1.Backup {
	some := func(n int) map[string]string {
		m := map[string]string{}
		for i := range n {
			m["NAME_"+string(rune('A'+i))] = "value"
		}
		return m
	}
	return &v1.Backup{
		ObjectMeta: metav1.ObjectMeta{Name: "db"},
		Spec:       v1.BackupSpec{Schedule: schedule, Env: some(env), Options: some(options)},
	}
}

func setupBackups(b bug) func(manager.Manager) error {
	return func(mgr manager.Manager) error {
		r := &backups{newOperator(mgr, b)}
		return ctrl.NewControllerManagedBy(mgr).
			For(&v1.Backup{}).Owns(&batchv1.CronJob{}).Owns(&corev1.ConfigMap{}).
			Complete(newReconciler(r.reconcile))
	}
}

type backups struct{ operator }

func (r *backups) reconcile(ctx context.Context, req reconcile.Request) error {
	b := &v1.Backup{}
	if err := r.Get(ctx, req.NamespacedName, b); err != nil || !b.DeletionTimestamp.IsZero() {
		return client.IgnoreNotFound(err)
	}
	if r.bug == progressing {
		working := metav1.Condition{Status: metav1.ConditionUnknown, Reason: "Progressing", Message: "working on it"}
		if err := r.updateStatus(ctx, b.DeepCopy(), b, working); err != nil {
			return err
		}
	}
	before := b.DeepCopy()
	if err := r.applyOptions(ctx, b); err != nil {
		return err
	}
	if err := r.applyCronJob(ctx, b); err != nil {
		return err
	}
	if r.bug == lastSyncTime || b.Status.ObservedGeneration != b.Generation {
		b.Status.LastSyncTime = new(metav1.NowMicro())
	}
	return r.updateStatus(ctx, before, b, readyCondition())
}

func (r *backups) applyOptions(ctx context.Context, b *v1.Backup) error {
	var file strings.Builder
	for _, name := range r.names(b.Spec.Options) {
		fmt.Fprintf(&file, "%s=%s\n", name, b.Spec.Options[name])
	}
	cm := &corev1.ConfigMap{ObjectMeta: childMeta(b, b.Name+"-options")}
	return r.apply(ctx, b, cm, func() { cm.Data = map[string]string{"options": file.String()} })
}

func (r *backups) applyCronJob(ctx context.Context, b *v1.Backup) error {
	var env []corev1.EnvVar
	for _, name := range r.names(b.Spec.Env) {
		env = append(env, corev1.EnvVar{Name: name, Value: b.Spec.Env[name]})
	}
	job := &batchv1.CronJob{ObjectMeta: childMeta(b, b.Name)}
	return r.apply(ctx, b, job, func() {
		job.Spec.Schedule = "@" + b.Spec.Schedule
		job.Spec.Suspend = new(false)
		job.Spec.ConcurrencyPolicy = batchv1.ForbidConcurrent
		job.Spec.SuccessfulJobsHistoryLimit = new(int32(3))
		job.Spec.FailedJobsHistoryLimit = new(int32(1))
		pod := &job.Spec.JobTemplate.Spec.Template.Spec
		pod.RestartPolicy = corev1.RestartPolicyOnFailure
		if len(pod.Containers) != 1 {
			pod.Containers = make([]corev1.Container, 1)
		}
		c := &pod.Containers[0] // defaults of the API server stay
		c.Name = "backup"
		c.Image = "backup:1"
		c.Env = env
	})
}

// names returns the keys of m.
func (r *backups) names(m map[string]string) []string {
	if r.bug == mapOrder {
		return slices.Collect(maps.Keys(m))
	}
	return slices.Sorted(maps.Keys(m))
}

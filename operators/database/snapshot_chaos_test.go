package database_test

import (
	"fmt"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/homeostat-dev/homeostat/operators/database"
	v1 "github.com/homeostat-dev/homeostat/operators/database/api/v1"
	"github.com/homeostat-dev/homeostat/testkit"
	"github.com/homeostat-dev/homeostat/testkit/chaos"
)

// completePods completes the pods of the namespace one after the other, until the test ends.
func completePods(k *testkit.K) {
	k.Kubelet.DelayReadiness(dumpPods)
	w, err := k.Client.Watch(k.Context(), &corev1.PodList{}, client.InNamespace(k.Namespace))
	if err != nil {
		panic(err)
	}
	go func() {
		defer w.Stop()
		for e := range w.ResultChan() {
			pod, ok := e.Object.(*corev1.Pod)
			if !ok || e.Type == watch.Deleted || pod.Status.Phase != corev1.PodRunning || pod.DeletionTimestamp != nil {
				continue
			}
			job := pod.Labels[batchv1.JobNameLabel]
			message := dumpResult(job)
			if after, prunes := strings.CutSuffix(job, "-prune"); prunes {
				message = pruneResult(after)
			}
			terminate(pod, message, 0)
			_ = k.Client.Status().Update(k.Context(), pod) // a conflict is followed by another event
		}
	}()
}

// TestSnapshotFaults injects every fault at every relevant point, the loss of a leader among them. With -short it runs a
// sample.
func TestSnapshotFaults(t *testing.T) {
	t.Parallel()
	c := newYear()
	object := func() *v1.DBSnapshot {
		o := yearly("a")
		o.Spec.DeletionPolicy = v1.CopiesDeleted
		return o
	}
	chaos.Sweep(t, database.NewSnapshots(database.Options{Now: c.Now}), chaos.Scenario{
		{Name: "create", Do: func(k *testkit.K) { k.Apply(object()) }},
		{Name: "change the schedule", Do: func(k *testkit.K) {
			o := object()
			k.Update(o, func() { o.Spec.Schedule = "0 0 1 JAN *" }) // equal times
		}},
		{Name: "suspend", Do: func(k *testkit.K) {
			o := object()
			k.Update(o, func() { o.Spec.Suspend = true })
		}},
		{Name: "resume", Do: func(k *testkit.K) {
			o := object()
			k.Update(o, func() { o.Spec.Suspend = false })
		}},
	}, chaos.All, chaos.BeforeRun(completePods),
		// A finished Job is not recreated after a user deletes it.
		chaos.ExternallyManaged("jobs.batch/a-203201010000"),
		chaos.Invariant("a second Job of one copy", oneJobEach))
}

func oneJobEach(objects []client.Object) string {
	var names []string
	for _, o := range objects {
		if job, ok := o.(*batchv1.Job); ok {
			names = append(names, job.Name)
		}
	}
	if len(names) > 1 {
		return fmt.Sprintf("there are the Jobs %s", names)
	}
	return ""
}

package workload_test

import (
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/homeostat-dev/homeostat/operators/configrollout/internal/annotation"
	"github.com/homeostat-dev/homeostat/operators/configrollout/internal/workload"
)

func deployment(generation int64, status appsv1.DeploymentStatus) *appsv1.Deployment {
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Generation: generation},
		Spec:       appsv1.DeploymentSpec{Replicas: new(int32(2)), ProgressDeadlineSeconds: new(int32(600))}, Status: status,
	}
}

var exceededAt = metav1.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)

func exceeded(generation int64) *appsv1.Deployment {
	return deployment(generation, appsv1.DeploymentStatus{
		ObservedGeneration: 3, UpdatedReplicas: 1, Replicas: 3, AvailableReplicas: 2, Conditions: []appsv1.DeploymentCondition{{
			Type: appsv1.DeploymentProgressing, Status: corev1.ConditionFalse, Reason: "ProgressDeadlineExceeded",
			LastUpdateTime: exceededAt,
		}},
	})
}

func set(status appsv1.StatefulSetStatus, partition int32) *appsv1.StatefulSet {
	return &appsv1.StatefulSet{Spec: appsv1.StatefulSetSpec{
		Replicas: new(int32(3)), UpdateStrategy: appsv1.StatefulSetUpdateStrategy{
			RollingUpdate: &appsv1.RollingUpdateStatefulSetStrategy{Partition: &partition},
		},
	}, Status: status}
}

// changed returns the object with a template that its controller has not observed.
func changed(o client.Object) client.Object {
	o.SetGeneration(o.GetGeneration() + 1)
	return o
}

func TestStatusOf(t *testing.T) {
	t.Parallel()
	paused := deployment(3, appsv1.DeploymentStatus{ObservedGeneration: 3})
	paused.Spec.Paused = true
	paused.Spec.ProgressDeadlineSeconds = new(int32(math.MaxInt32))
	for name, tc := range map[string]struct {
		object client.Object
		want   workload.Status
		reason string
	}{
		"a Deployment": {
			deployment(3, appsv1.DeploymentStatus{ObservedGeneration: 3, UpdatedReplicas: 2, Replicas: 2, AvailableReplicas: 2}),
			workload.Status{Observed: true, Complete: true, Deadline: 10 * time.Minute, Updated: 2},
			"all pods are new and available",
		},
		"a Deployment with an old pod": {
			deployment(3, appsv1.DeploymentStatus{ObservedGeneration: 3, UpdatedReplicas: 2, Replicas: 3, AvailableReplicas: 2}),
			workload.Status{Observed: true, Deadline: 10 * time.Minute, Updated: 2},
			"an old pod must be deleted first",
		},
		"a Deployment that was changed": {
			deployment(4, appsv1.DeploymentStatus{ObservedGeneration: 3, UpdatedReplicas: 2, Replicas: 2, AvailableReplicas: 2}),
			workload.Status{Deadline: 10 * time.Minute},
			"its status concerns the old template",
		},
		"a Deployment that failed": {
			exceeded(3),
			workload.Status{
				Observed: true, DeadlineExceeded: true, ExceededAt: exceededAt.UTC(), Deadline: 10 * time.Minute, Updated: 1,
			},
			"Kubernetes says so",
		},
		"a Deployment that failed and was changed": {
			exceeded(4), workload.Status{ExceededAt: exceededAt.UTC(), Deadline: 10 * time.Minute}, "that was before",
		},
		"a paused Deployment without a deadline": {paused, workload.Status{Observed: true, Paused: true}, "it has no deadline"},
		"a StatefulSet": {
			set(appsv1.StatefulSetStatus{UpdatedReplicas: 3, AvailableReplicas: 3}, 0),
			workload.Status{Observed: true, Complete: true, Updated: 3},
			"all pods are new and available",
		},
		"a StatefulSet on its way": {
			set(appsv1.StatefulSetStatus{UpdatedReplicas: 1, AvailableReplicas: 3}, 0),
			workload.Status{Observed: true, Updated: 1},
			"two pods are old",
		},
		"a StatefulSet that was changed": {
			changed(set(appsv1.StatefulSetStatus{UpdatedReplicas: 3, AvailableReplicas: 3}, 0)),
			workload.Status{},
			"the updated pods are those of the old template",
		},
		"a StatefulSet with a partition": {
			set(appsv1.StatefulSetStatus{UpdatedReplicas: 1, AvailableReplicas: 3}, 2),
			workload.Status{Observed: true, Complete: true, Updated: 1},
			"the user asked for one new pod",
		},
		"a DaemonSet": {
			&appsv1.DaemonSet{Status: appsv1.DaemonSetStatus{
				DesiredNumberScheduled: 2, UpdatedNumberScheduled: 2, NumberAvailable: 2,
			}}, workload.Status{Observed: true, Complete: true, Updated: 2}, "all pods are new and available",
		},
		"a DaemonSet that was changed": {
			changed(&appsv1.DaemonSet{Status: appsv1.DaemonSetStatus{
				DesiredNumberScheduled: 2, UpdatedNumberScheduled: 2, NumberAvailable: 2,
			}}), workload.Status{}, "the updated pods are those of the old template",
		},
		"a DaemonSet on its way": {
			&appsv1.DaemonSet{Status: appsv1.DaemonSetStatus{
				DesiredNumberScheduled: 2, UpdatedNumberScheduled: 2, NumberAvailable: 1,
			}}, workload.Status{Observed: true, Updated: 2}, "one is not available",
		},
	} {
		if diff := cmp.Diff(tc.want, workload.StatusOf(tc.object, nil)); diff != "" {
			t.Errorf("%s: %s\n-want +got:\n%s", name, tc.reason, diff)
		}
	}
}

// The condition of an earlier rollout may stay until the next one makes progress.
func TestEarlierDeadlineExceeded(t *testing.T) {
	t.Parallel()
	last := &annotation.Rollout{To: "d", ExceededBefore: exceededAt.UTC()}
	want := workload.Status{Observed: true, ExceededAt: exceededAt.UTC(), Updated: 1}
	if diff := cmp.Diff(want, workload.StatusOf(exceeded(3), last)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	last.ExceededBefore = last.ExceededBefore.Add(-time.Minute)
	if s := workload.StatusOf(exceeded(3), last); !s.DeadlineExceeded || s.Deadline == 0 {
		t.Errorf("the deadline was exceeded again, and the status is %+v", s)
	}
}

// A report that comes sooner than the deadline after the start of a rollout concerns an earlier one.
func TestDeadlineExceededTooSoon(t *testing.T) {
	t.Parallel()
	for sooner, concerns := range map[time.Duration]bool{
		0: true, time.Second: false, 10 * time.Minute: false, 900 * time.Millisecond: true, -time.Minute: true,
	} {
		last := &annotation.Rollout{To: "d", Time: exceededAt.Add(sooner - 10*time.Minute)}
		s := workload.StatusOf(exceeded(3), last)
		if s.DeadlineExceeded != concerns || s.Deadline != 10*time.Minute {
			t.Errorf("reported %v too soon: the status is %+v", sooner, s)
		}
	}
}

func TestRollingAndFailed(t *testing.T) {
	t.Parallel()
	record := annotation.Record{Observed: "d", Last: &annotation.Rollout{To: "d"}}
	for name, tc := range map[string]struct {
		change          func(*appsv1.Deployment)
		result          annotation.Result
		rolling, failed bool
	}{
		"under way":            {rolling: true},
		"paused":               {change: func(d *appsv1.Deployment) { d.Spec.Paused = true }},
		"by another manager":   {change: func(d *appsv1.Deployment) { d.Spec.Template.Annotations = nil }},
		"failed":               {change: func(d *appsv1.Deployment) { d.Status = exceeded(3).Status }, failed: true},
		"known to have failed": {result: annotation.Failed, failed: true},
		"rolled back":          {result: annotation.RolledBack, failed: true},
		"known to be complete": {
			change: func(d *appsv1.Deployment) { d.Status = exceeded(3).Status }, result: annotation.Completed,
		},
		"superseded": {result: annotation.Superseded},
		"stuck":      {result: annotation.Stuck},
	} {
		d := deployment(3, appsv1.DeploymentStatus{ObservedGeneration: 3})
		d.Spec.Template.Annotations = map[string]string{annotation.Digest: "d"}
		if tc.change != nil {
			tc.change(d)
		}
		record.Last.Result = tc.result
		rolling, failed := workload.Rolling(d, record), workload.Failed(d, record)
		if rolling != tc.rolling || failed != tc.failed {
			t.Errorf("%s: rolling %v, failed %v, want %v, %v", name, rolling, failed, tc.rolling, tc.failed)
		}
	}
}

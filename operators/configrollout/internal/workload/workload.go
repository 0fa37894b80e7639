// Package workload gives uniform access to Deployments, StatefulSets and DaemonSets.
package workload

import (
	"fmt"
	"math"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/homeostat-dev/homeostat/operators/configrollout/internal/annotation"
)

// Kinds returns an empty object of each kind.
func Kinds() []client.Object {
	return []client.Object{&appsv1.Deployment{}, &appsv1.StatefulSet{}, &appsv1.DaemonSet{}}
}

// Lists returns an empty list of each kind, in the order of Kinds.
func Lists() []client.ObjectList {
	return []client.ObjectList{&appsv1.DeploymentList{}, &appsv1.StatefulSetList{}, &appsv1.DaemonSetList{}}
}

// New returns an empty object of that kind.
func New(kind string) (client.Object, error) {
	for _, o := range Kinds() {
		if KindOf(o) == kind {
			return o, nil
		}
	}
	return nil, fmt.Errorf("%q is no kind of workload", kind)
}

// KindOf returns the kind of a workload, or "".
func KindOf(o client.Object) string {
	switch o.(type) {
	case *appsv1.Deployment:
		return "Deployment"
	case *appsv1.StatefulSet:
		return "StatefulSet"
	case *appsv1.DaemonSet:
		return "DaemonSet"
	default:
		return ""
	}
}

// Template returns the pod template.
func Template(o client.Object) *corev1.PodTemplateSpec {
	switch o := o.(type) {
	case *appsv1.Deployment:
		return &o.Spec.Template
	case *appsv1.StatefulSet:
		return &o.Spec.Template
	case *appsv1.DaemonSet:
		return &o.Spec.Template
	default:
		return &corev1.PodTemplateSpec{}
	}
}

// maxDigest is the maximal length of a digest in bytes. The operator writes shorter ones.
const maxDigest = 128

// Digest returns the digest in the pod template.
func Digest(o client.Object) string {
	digest := Template(o).Annotations[annotation.Digest]
	return digest[:min(len(digest), maxDigest)]
}

// Status is the status of the rollout of the present template.
type Status struct {
	// Observed means that the controller has observed the present template.
	Observed bool
	// Complete means that all pods have the present template and are available.
	Complete bool
	// DeadlineExceeded means that Kubernetes reports an exceeded progress deadline. ExceededAt is the time of that report,
	// which may concern an earlier template.
	DeadlineExceeded bool
	ExceededAt       time.Time
	// Deadline is the progress deadline that Kubernetes checks. Zero means that the operator has to check one. Progressed is
	// the time of the last progress that Kubernetes reports.
	Deadline   time.Duration
	Progressed time.Time
	// Paused means that the user paused the rollout.
	Paused bool
	// Manual means that pods are replaced only when they are deleted manually.
	Manual bool
	// Ordered means that a StatefulSet waits for an unready pod and does not replace it.
	Ordered bool
	// Updated is the number of pods with the present template; zero until the controller has observed that.
	Updated int32
}

// StatusOf returns the status with respect to the last rollout, which may be nil. The condition of a Deployment may report
// an exceeded deadline of an earlier rollout until the present one makes progress; such a report is ignored.
func StatusOf(o client.Object, last *annotation.Rollout) Status {
	switch o := o.(type) {
	case *appsv1.Deployment:
		s := deployment(o)
		if last != nil && !s.ExceededAt.IsZero() && s.ExceededAt.Equal(last.ExceededBefore) {
			s.DeadlineExceeded = false
			s.Deadline = 0
		}
		// With Recreate, Kubernetes may measure the time from the last progress of an earlier rollout, until the first pod is
		// deleted. Kubernetes counts whole seconds.
		if last != nil && s.ExceededAt.Before(last.Time.Truncate(time.Second).Add(s.Deadline)) {
			s.DeadlineExceeded = false
		}
		return s
	case *appsv1.StatefulSet:
		return statefulSet(o)
	case *appsv1.DaemonSet:
		return daemonSet(o)
	default:
		return Status{}
	}
}

func deployment(d *appsv1.Deployment) Status {
	want, status := valueOr(d.Spec.Replicas, 1), d.Status
	s := Status{Observed: status.ObservedGeneration >= d.Generation, Paused: d.Spec.Paused}
	s.setUpdated(status.UpdatedReplicas)
	if seconds := d.Spec.ProgressDeadlineSeconds; seconds != nil && *seconds != math.MaxInt32 {
		s.Deadline = time.Duration(*seconds) * time.Second
	}
	s.Complete = s.Observed && status.UpdatedReplicas == want && status.Replicas == want && status.AvailableReplicas == want
	for _, c := range status.Conditions {
		switch {
		case c.Type != appsv1.DeploymentProgressing:
		case c.Status == corev1.ConditionTrue:
			s.Progressed = c.LastUpdateTime.UTC()
		case c.Status == corev1.ConditionFalse && c.Reason == "ProgressDeadlineExceeded":
			s.DeadlineExceeded = s.Observed
			s.ExceededAt = c.LastUpdateTime.UTC()
		}
	}
	return s
}

func statefulSet(set *appsv1.StatefulSet) Status {
	want, status := valueOr(set.Spec.Replicas, 1), set.Status
	s := Status{
		Observed: status.ObservedGeneration >= set.Generation,
		Manual:   set.Spec.UpdateStrategy.Type == appsv1.OnDeleteStatefulSetStrategyType,
		Ordered: set.Spec.UpdateStrategy.Type == appsv1.RollingUpdateStatefulSetStrategyType &&
			set.Spec.PodManagementPolicy != appsv1.ParallelPodManagement,
	}
	s.setUpdated(status.UpdatedReplicas)
	toUpdate := want
	if r := set.Spec.UpdateStrategy.RollingUpdate; r != nil {
		toUpdate = max(0, want-valueOr(r.Partition, 0))
	}
	s.Complete = s.Observed && status.UpdatedReplicas >= toUpdate && status.AvailableReplicas >= want
	return s
}

func daemonSet(set *appsv1.DaemonSet) Status {
	status := set.Status
	s := Status{
		Observed: status.ObservedGeneration >= set.Generation,
		Manual:   set.Spec.UpdateStrategy.Type == appsv1.OnDeleteDaemonSetStrategyType,
	}
	s.setUpdated(status.UpdatedNumberScheduled)
	s.Complete = s.Observed && status.UpdatedNumberScheduled >= status.DesiredNumberScheduled &&
		status.NumberAvailable >= status.DesiredNumberScheduled
	return s
}

// setUpdated sets Updated. A status of an earlier template counts pods of that template.
func (s *Status) setUpdated(n int32) {
	if s.Observed {
		s.Updated = n
	}
}

// Rolling reports whether a rollout by the operator is in progress. A paused one is not, nor is one that cannot start.
func Rolling(o client.Object, r annotation.Record) bool {
	if r.Last == nil || r.Last.Result != "" || Digest(o) != r.Last.To {
		return false
	}
	s := StatusOf(o, r.Last)
	stuck := s.Ordered && r.Last.Unready && s.Updated == 0
	return !s.Complete && !s.DeadlineExceeded && !s.Manual && !s.Paused && !stuck
}

func valueOr(v *int32, otherwise int32) int32 {
	if v == nil {
		return otherwise
	}
	return *v
}

// Failed reports whether the operator's last rollout failed.
func Failed(o client.Object, r annotation.Record) bool {
	if r.Last == nil || r.Last.To != r.Observed {
		return false
	}
	switch r.Last.Result {
	case annotation.Failed, annotation.RolledBack:
		return true
	case annotation.Completed, annotation.Superseded, annotation.Stuck:
		return false
	default:
		return Digest(o) == r.Last.To && StatusOf(o, r.Last).DeadlineExceeded
	}
}

// Items returns the objects of a list of workloads. They are not copied.
func Items(list client.ObjectList) []client.Object {
	var items []client.Object
	switch list := list.(type) {
	case *appsv1.DeploymentList:
		for i := range list.Items {
			items = append(items, &list.Items[i])
		}
	case *appsv1.StatefulSetList:
		for i := range list.Items {
			items = append(items, &list.Items[i])
		}
	case *appsv1.DaemonSetList:
		for i := range list.Items {
			items = append(items, &list.Items[i])
		}
	}
	return items
}

// Package workload looks at Deployments, StatefulSets and DaemonSets in the same way.
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

// Kinds returns an empty object of each kind, and Lists an empty list, in the same order.
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

// KindOf returns the kind of an object that Kinds has, and "" for any other.
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

// Digest returns the digest in the pod template.
func Digest(o client.Object) string { return Template(o).Annotations[annotation.Digest] }

// Status is how the rollout of the present template is doing.
type Status struct {
	// Seen means that Kubernetes has looked at the present template.
	Seen bool
	// Complete means that all pods are of the present template and available.
	Complete bool
	// Exceeded means that Kubernetes gave up waiting for progress, and ExceededAt when it said so, which may have been about
	// another template.
	Exceeded   bool
	ExceededAt time.Time
	// Watched means that Kubernetes says so; otherwise somebody else has to watch the time.
	Watched bool
	// Paused means that the user asked for nothing to be rolled out.
	Paused bool
	// Manual means that pods are replaced when somebody deletes them, and not by a rollout.
	Manual bool
	// Ordered means that a pod that is not ready is waited for, and not replaced: so says a StatefulSet.
	Ordered bool
	// Updated is how many pods are of the present template.
	Updated int32
}

// StatusOf reads the status, as it is for the last rollout; nil if there is none. That of a Deployment whose pods are
// replaced may say for a while, as long as there is no progress, that the deadline is exceeded because it was before.
func StatusOf(o client.Object, last *annotation.Rollout) Status {
	switch o := o.(type) {
	case *appsv1.Deployment:
		s := deployment(o)
		if last != nil && !s.ExceededAt.IsZero() && s.ExceededAt.Equal(last.ExceededBefore) {
			s.Exceeded, s.Watched = false, false
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
	want, is := valueOr(d.Spec.Replicas, 1), d.Status
	s := Status{
		Seen: is.ObservedGeneration >= d.Generation, Paused: d.Spec.Paused, Updated: is.UpdatedReplicas,
		Watched: d.Spec.ProgressDeadlineSeconds != nil && *d.Spec.ProgressDeadlineSeconds != math.MaxInt32,
	}
	s.Complete = s.Seen && is.UpdatedReplicas == want && is.Replicas == want && is.AvailableReplicas == want
	for _, c := range is.Conditions {
		if c.Type == appsv1.DeploymentProgressing && c.Status == corev1.ConditionFalse && c.Reason == "ProgressDeadlineExceeded" {
			s.Exceeded, s.ExceededAt = s.Seen, c.LastUpdateTime.UTC()
		}
	}
	return s
}

func statefulSet(set *appsv1.StatefulSet) Status {
	want, is := valueOr(set.Spec.Replicas, 1), set.Status
	s := Status{
		Seen: is.ObservedGeneration >= set.Generation, Updated: is.UpdatedReplicas,
		Manual: set.Spec.UpdateStrategy.Type == appsv1.OnDeleteStatefulSetStrategyType,
		Ordered: set.Spec.UpdateStrategy.Type == appsv1.RollingUpdateStatefulSetStrategyType &&
			set.Spec.PodManagementPolicy != appsv1.ParallelPodManagement,
	}
	toUpdate := want
	if r := set.Spec.UpdateStrategy.RollingUpdate; r != nil {
		toUpdate = max(0, want-valueOr(r.Partition, 0))
	}
	s.Complete = s.Seen && is.UpdatedReplicas >= toUpdate && is.AvailableReplicas >= want
	return s
}

func daemonSet(set *appsv1.DaemonSet) Status {
	is := set.Status
	s := Status{
		Seen: is.ObservedGeneration >= set.Generation, Updated: is.UpdatedNumberScheduled,
		Manual: set.Spec.UpdateStrategy.Type == appsv1.OnDeleteDaemonSetStrategyType,
	}
	s.Complete = s.Seen && is.UpdatedNumberScheduled >= is.DesiredNumberScheduled &&
		is.NumberAvailable >= is.DesiredNumberScheduled
	return s
}

// Rolling reports whether a rollout of ours is under way. One that the user has paused is not, nor is one that cannot begin.
func Rolling(o client.Object, r annotation.Record) bool {
	if r.Last == nil || r.Last.Result != "" || Digest(o) != r.Last.To {
		return false
	}
	s := StatusOf(o, r.Last)
	stuck := s.Ordered && r.Last.Unready && s.Updated == 0
	return !s.Complete && !s.Exceeded && !s.Manual && !s.Paused && !stuck
}

func valueOr(v *int32, otherwise int32) int32 {
	if v == nil {
		return otherwise
	}
	return *v
}

// Failed reports whether the last rollout of ours failed.
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
		return Digest(o) == r.Last.To && StatusOf(o, r.Last).Exceeded
	}
}

// Items returns the objects of a list that Lists has. They are those of the list, not copies.
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

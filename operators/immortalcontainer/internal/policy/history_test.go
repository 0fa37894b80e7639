package policy_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/homeostat-dev/homeostat/operators/immortalcontainer/api/v1alpha1"
	"github.com/homeostat-dev/homeostat/operators/immortalcontainer/internal/desired"
)

// sameStatus compares statuses without the transition times, because those come from the wall clock.
func sameStatus(a, b *v1alpha1.ImmortalContainerStatus) bool {
	a, b = a.DeepCopy(), b.DeepCopy()
	for _, s := range []*v1alpha1.ImmortalContainerStatus{a, b} {
		for i := range s.Conditions {
			s.Conditions[i].LastTransitionTime = metav1.Time{}
		}
	}
	return equality.Semantic.DeepEqual(a, b)
}

// Random external changes, stale reads and crashes of the operator must not break the history: every pod is counted once,
// every termination is recorded once, and the operator converges.
func TestEveryPodIsCountedOnce(t *testing.T) {
	t.Parallel()
	const seeds = 500
	var pods, most int
	for seed := range uint64(seeds) {
		s := newSimulation(seed)
		for range 60 {
			s.externalChange()
			for range s.random.IntN(3) {
				s.reconcile(true)
			}
		}
		if problem := s.converge(); problem != "" {
			t.Fatalf("seed %d: %s, after:\n%s", seed, problem, strings.Join(s.events, "\n"))
		}
		pods, most = pods+len(s.created), max(most, len(s.created))
	}
	t.Logf("%d histories with %d pods, at most %d in one", seeds, pods, most)
	if pods < seeds {
		t.Errorf("only %d pods in %d histories: the test tests nothing", pods, seeds)
	}
}

// converge reconciles without faults until the operator is idle, and checks the history.
func (s *simulation) converge() (problem string) {
	for range 100 {
		s.now = s.now.Add(time.Minute)
		wrote := s.reconcile(false)
		switch {
		case s.pod != nil && s.pod.DeletionTimestamp != nil && len(s.pod.Finalizers) == 0:
			s.removePod()
		case !wrote:
			return s.checkHistory()
		}
	}
	return "the operator does not come to rest"
}

func (s *simulation) checkHistory() string {
	status := &s.ic.Status
	seen := map[types.UID]int{}
	for _, end := range status.History {
		if seen[end.PodUID]++; seen[end.PodUID] > 1 || !s.created[end.PodUID] {
			return "the end of pod " + string(end.PodUID) + " is recorded twice, or it never existed"
		}
	}
	switch {
	case s.problem != "":
		return s.problem
	case int(status.StartTimes) != len(s.created):
		return "startTimes is wrong: " + cmp.Diff(len(s.created), int(status.StartTimes))
	case s.ic.Spec.Suspend != (s.pod == nil):
		return "there should be a pod unless it is suspended"
	case s.pod == nil:
		return ""
	case len(s.pod.Finalizers) > 0:
		return "a pod that is counted is still held"
	case seen[s.pod.UID] > 0:
		return "a pod that lives is recorded as ended"
	case len(status.History) != min(len(s.created)-1, 10):
		return "not every end is recorded"
	}
	return cmp.Diff(desired.Pod(s.ic).Spec.Containers, s.pod.Spec.Containers)
}

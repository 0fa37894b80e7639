package life_test

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

// sameStatus compares what a pass may change. The transition times come from the wall clock.
func sameStatus(a, b *v1alpha1.ImmortalContainerStatus) bool {
	a, b = a.DeepCopy(), b.DeepCopy()
	for _, s := range []*v1alpha1.ImmortalContainerStatus{a, b} {
		for i := range s.Conditions {
			s.Conditions[i].LastTransitionTime = metav1.Time{}
		}
	}
	return equality.Semantic.DeepEqual(a, b)
}

// Whatever happens, and wherever the operator dies: in the end every pod that was ever created is counted once, the end
// of each is recorded once, and the operator comes to rest.
func TestEveryPodIsCountedOnce(t *testing.T) {
	t.Parallel()
	const seeds = 500
	var pods, most int
	for seed := range uint64(seeds) {
		w := newWorld(seed)
		for range 60 {
			w.happen()
			for range w.random.IntN(3) {
				w.operate(true)
			}
		}
		if problem := w.settle(); problem != "" {
			t.Fatalf("seed %d: %s, after:\n%s", seed, problem, strings.Join(w.events, "\n"))
		}
		pods, most = pods+len(w.created), max(most, len(w.created))
	}
	t.Logf("%d histories with %d pods, at most %d in one", seeds, pods, most)
	if pods < seeds {
		t.Errorf("only %d pods in %d histories: the test tests nothing", pods, seeds)
	}
}

// settle lets the faults stop and the node end what is to end, and audits the account.
func (w *world) settle() (problem string) {
	for range 100 {
		w.now = w.now.Add(time.Minute)
		wrote := w.operate(false)
		switch {
		case w.pod != nil && w.pod.DeletionTimestamp != nil && len(w.pod.Finalizers) == 0:
			w.vanish()
		case !wrote:
			return w.audit()
		}
	}
	return "the operator does not come to rest"
}

func (w *world) audit() string {
	s := &w.ic.Status
	seen := map[types.UID]int{}
	for _, end := range s.History {
		if seen[end.PodUID]++; seen[end.PodUID] > 1 || !w.created[end.PodUID] {
			return "the end of pod " + string(end.PodUID) + " is recorded twice, or it never existed"
		}
	}
	switch {
	case w.problem != "":
		return w.problem
	case int(s.StartTimes) != len(w.created):
		return "startTimes is wrong: " + cmp.Diff(len(w.created), int(s.StartTimes))
	case w.ic.Spec.Suspend != (w.pod == nil):
		return "there should be a pod unless it is suspended"
	case w.pod == nil:
		return ""
	case len(w.pod.Finalizers) > 0:
		return "a pod that is counted is still held"
	case seen[w.pod.UID] > 0:
		return "a pod that lives is recorded as ended"
	case len(s.History) != min(len(w.created)-1, 10):
		return "not every end is recorded"
	}
	return cmp.Diff(desired.Pod(w.ic).Spec.Containers, w.pod.Spec.Containers)
}

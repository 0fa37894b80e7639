package life_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/homeostat-dev/homeostat/operators/immortalcontainer/api/v1alpha1"
	"github.com/homeostat-dev/homeostat/operators/immortalcontainer/internal/life"
)

// The phases, by the short names that keep a case on a line.
const (
	pending    = v1alpha1.PhasePending
	running    = v1alpha1.PhaseRunning
	backingOff = v1alpha1.PhaseBackingOff
	suspended  = v1alpha1.PhaseSuspended
	blocked    = v1alpha1.PhaseBlocked
	failed     = v1alpha1.PhaseFailed
)

// verdict is what a case expects: the step and what matters of the status. Times count from noon.
type verdict struct {
	Want     life.Want
	Counted  bool
	After    time.Duration
	Phase    v1alpha1.Phase
	Reason   string
	Starts   int64
	Failures int32
	Next     time.Duration // 0 if there is none
	Last     string        // reason and exit code of the last termination
	History  int
}

func judge(ic *v1alpha1.ImmortalContainer, step life.Step) verdict {
	s := ic.Status
	v := verdict{
		Want: step.Want, Counted: step.Counted, After: step.After, Reason: step.Reason,
		Phase: s.Phase, Starts: s.StartTimes, Failures: s.ConsecutiveFailures, History: len(s.History),
	}
	if s.NextStartTime != nil {
		v.Next = s.NextStartTime.Sub(noon)
	}
	if t := s.LastTermination; t != nil {
		v.Last = t.Reason
		if t.ExitCode != nil {
			v.Last = fmt.Sprintf("%s %d", t.Reason, *t.ExitCode)
		}
	}
	return v
}

type nextCase struct {
	reason string
	ic     *v1alpha1.ImmortalContainer
	pod    *corev1.Pod
	want   verdict
}

// check runs each case twice: the second call gets what the first one left, and must not find anything new.
func check(t *testing.T, cases map[string]nextCase) {
	t.Helper()
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := judge(tc.ic, life.Next(tc.ic, tc.pod, noon))
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s, but (-want +got):\n%s", tc.reason, diff)
			}
			first := tc.ic.Status.DeepCopy()
			again := life.Next(tc.ic, tc.pod, noon)
			if again.Started || again.Ended != nil {
				t.Errorf("a second look at the same pod counted again: %+v", again)
			}
			if diff := cmp.Diff(*first, tc.ic.Status); diff != "" {
				t.Errorf("a second look at the same pod changed the status (-first +second):\n%s", diff)
			}
		})
	}
}

func TestNextBirth(t *testing.T) {
	t.Parallel()
	check(t, map[string]nextCase{
		"nothing": {
			reason: "a new ImmortalContainer gets a pod",
			ic:     fresh(),
			want:   verdict{Want: life.Run, Phase: pending, Reason: "Starting"},
		},
		"created": {
			reason: "a pod that is not in the stored account is counted, and may not vanish before that is stored",
			ic:     fresh(), pod: pod("a"),
			want: verdict{Want: life.Run, Counted: false, Phase: running, Starts: 1},
		},
		"counted": {
			reason: "a pod in the stored account is not counted again",
			ic:     settled(), pod: pod("a"),
			want: verdict{Want: life.Run, Counted: true, Phase: running, Starts: 1},
		},
		"successor": {
			reason: "a pod whose predecessor nobody saw end proves that it ended",
			ic:     settled(), pod: pod("b"),
			want: verdict{Want: life.Run, Phase: running, Starts: 2, Last: "Deleted", History: 1},
		},
		"ghost": {
			reason: "a cache that is behind shows a pod that ended long ago",
			ic:     settled(then(pod("a", deleted(0)), nil, pod("b"))), pod: pod("a"),
			want: verdict{
				Want: life.Run, Counted: true, Phase: running, Reason: "Starting", Starts: 2,
				Last: "Deleted", History: 1,
			},
		},
		"name taken": {
			reason: "the last attempt to create the pod found one of somebody else; the SDK tries again when that goes",
			ic:     fresh(refused("PodNameConflict")),
			want:   verdict{Want: life.Run, Phase: blocked, Reason: "Starting"},
		},
		"refused": {
			reason: "the API server refused the pod, for instance for its security context; the SDK tries again",
			ic:     fresh(refused("PodRejected")),
			want:   verdict{Want: life.Run, Phase: failed, Reason: "Starting"},
		},
		"refused before": {
			reason: "a refusal of the former specification says nothing about this one",
			ic:     fresh(refused("PodRejected"), edited(newArgs)),
			want:   verdict{Want: life.Run, Phase: pending, Reason: "Starting"},
		},
	})
}

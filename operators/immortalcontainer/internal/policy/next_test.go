package policy_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/homeostat-dev/homeostat/operators/immortalcontainer/api/v1alpha1"
	"github.com/homeostat-dev/homeostat/operators/immortalcontainer/internal/policy"
)

// The phases under short names, so that a case fits on a line.
const (
	pending    = v1alpha1.PhasePending
	running    = v1alpha1.PhaseRunning
	backingOff = v1alpha1.PhaseBackingOff
	suspended  = v1alpha1.PhaseSuspended
	blocked    = v1alpha1.PhaseBlocked
	failed     = v1alpha1.PhaseFailed
)

// outcome is the expected decision and status. Times count from noon.
type outcome struct {
	Want     policy.Want
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

func outcomeOf(ic *v1alpha1.ImmortalContainer, step policy.Decision) outcome {
	s := ic.Status
	v := outcome{
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
	want   outcome
}

// check runs each case twice: the second call gets the status of the first and must not change it.
func check(t *testing.T, cases map[string]nextCase) {
	t.Helper()
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := outcomeOf(tc.ic, policy.Next(tc.ic, tc.pod, noon))
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s, but (-want +got):\n%s", tc.reason, diff)
			}
			first := tc.ic.Status.DeepCopy()
			again := policy.Next(tc.ic, tc.pod, noon)
			if again.Started || again.Ended != nil {
				t.Errorf("a second call with the same pod counted again: %+v", again)
			}
			if diff := cmp.Diff(*first, tc.ic.Status); diff != "" {
				t.Errorf("a second call with the same pod changed the status (-first +second):\n%s", diff)
			}
		})
	}
}

func TestNextCreation(t *testing.T) {
	t.Parallel()
	check(t, map[string]nextCase{
		"nothing": {
			reason: "a new ImmortalContainer gets a pod",
			ic:     newContainer(),
			want:   outcome{Want: policy.Run, Phase: pending, Reason: "Starting"},
		},
		"created": {
			reason: "a new pod is counted, and must not disappear before that is stored",
			ic:     newContainer(), pod: pod("a"),
			want: outcome{Want: policy.Run, Counted: false, Phase: running, Starts: 1},
		},
		"counted": {
			reason: "a counted pod is not counted again",
			ic:     withRunningPod(), pod: pod("a"),
			want: outcome{Want: policy.Run, Counted: true, Phase: running, Starts: 1},
		},
		"successor": {
			reason: "a successor proves that its predecessor has ended",
			ic:     withRunningPod(), pod: pod("b"),
			want: outcome{Want: policy.Run, Phase: running, Starts: 2, Last: "Deleted", History: 1},
		},
		"ghost": {
			reason: "a stale cache shows a pod that ended long ago",
			ic:     withRunningPod(observing(pod("a", deleted(0)), nil, pod("b"))), pod: pod("a"),
			want: outcome{
				Want: policy.Run, Counted: true, Phase: running, Reason: "Starting", Starts: 2,
				Last: "Deleted", History: 1,
			},
		},
		"name taken": {
			reason: "a foreign pod has the name; the SDK retries when it is gone",
			ic:     newContainer(createRejected("PodNameConflict")),
			want:   outcome{Want: policy.Run, Phase: blocked, Reason: "Starting"},
		},
		"refused": {
			reason: "the API server rejected the pod, for instance its security context; the SDK retries",
			ic:     newContainer(createRejected("PodRejected")),
			want:   outcome{Want: policy.Run, Phase: failed, Reason: "Starting"},
		},
		"refused before": {
			reason: "a rejection of the previous specification is no longer relevant",
			ic:     newContainer(createRejected("PodRejected"), edited(newArgs)),
			want:   outcome{Want: policy.Run, Phase: pending, Reason: "Starting"},
		},
	})
}

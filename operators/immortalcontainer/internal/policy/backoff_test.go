package policy_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/homeostat-dev/homeostat/operators/immortalcontainer/api/v1alpha1"
	"github.com/homeostat-dev/homeostat/operators/immortalcontainer/internal/policy"
)

func TestNextBackoff(t *testing.T) {
	t.Parallel()
	restart := func(initial, longest, reset time.Duration) func(*v1alpha1.ImmortalContainer) {
		return func(ic *v1alpha1.ImmortalContainer) {
			r := &ic.Spec.Restart
			r.InitialBackoff.Duration = initial
			r.MaxBackoff.Duration = longest
			r.ResetAfter.Duration = reset
		}
	}
	backsOff := func(starts int64, failures int32, wait time.Duration) outcome {
		return outcome{
			Want: policy.Stop, Phase: backingOff, Reason: "BackingOff", After: wait, Next: wait,
			Starts: starts, Failures: failures, Last: "Error 1", History: min(int(starts), 10),
		}
	}
	dead := pod("x", ended(corev1.PodFailed, "Error", 1))
	check(t, map[string]nextCase{
		"third": {"each wait is twice as long", newContainer(failures(2)), dead, backsOff(3, 3, 4*time.Second)},
		"ninth": {"256 s are still below the limit", newContainer(failures(8)), dead, backsOff(9, 9, 256*time.Second)},
		"tenth": {"no wait is longer than the limit", newContainer(failures(9)), dead, backsOff(10, 10, 5*time.Minute)},
		"100th": {"nor does it overflow", newContainer(failures(99)), dead, backsOff(100, 100, 5*time.Minute)},
		"custom": {
			"the settings count", newContainer(restart(7*time.Second, 20*time.Second, 0), failures(1)), dead,
			backsOff(2, 2, 14*time.Second),
		},
		"custom limit": {
			"the limit too", newContainer(restart(7*time.Second, 20*time.Second, 0), failures(2)), dead,
			backsOff(3, 3, 20*time.Second),
		},
		"stable run": {
			"a run of 10 minutes resets the backoff, even if no reconcile happened in between",
			newContainer(failures(5)), pod("x", ranFor(10*time.Minute, corev1.PodFailed, "Error", 1)),
			backsOff(6, 1, time.Second),
		},
		"nearly stable run": {
			"a shorter one does not",
			newContainer(failures(5)), pod("x", ranFor(10*time.Minute-time.Second, corev1.PodFailed, "Error", 1)),
			backsOff(6, 6, 32*time.Second),
		},
		"runs again": {
			"the series is not over before the container ran long enough",
			newContainer(failures(3)), pod("x", started(time.Minute)),
			outcome{
				Want: policy.Run, After: 9 * time.Minute, Phase: running, Starts: 4, Failures: 3,
				Last: "Error 1", History: 3,
			},
		},
		"runs for long": {
			"10 minutes without an end reset it",
			newContainer(failures(3)), pod("x", started(10*time.Minute)),
			outcome{Want: policy.Run, Phase: running, Starts: 4, Last: "Error 1", History: 3},
		},
		"not over": {
			"the pod is not created before its time",
			newContainer(observing(pod("a", ended(corev1.PodFailed, "Error", 1)), pod("b", ended(corev1.PodFailed, "Error", 1)))),
			nil, backsOff(2, 2, time.Second),
		},
		"over": {
			"the wait ends at its time and not after it",
			newContainer(observing(pod("a", ended(corev1.PodFailed, "Error", 1)))), nil,
			outcome{
				Want: policy.Run, Phase: pending, Reason: "Starting", Starts: 1, Failures: 1, Last: "Error 1",
				History: 1,
			},
		},
		"specification changed": {
			"the new specification may fix the failure, so it is tried at once",
			newContainer(failures(5), observing(dead), edited(newArgs)), nil,
			outcome{
				Want: policy.Run, Phase: pending, Reason: "Starting", Starts: 6, Last: "Error 1", History: 6,
			},
		},
		"failed while the specification changed": {
			"the pod had an outdated specification",
			newContainer(failures(5), edited(newImage)), dead,
			outcome{
				Want: policy.Stop, Phase: pending, Reason: "Terminating", Starts: 6, Last: "Error 1", History: 6,
			},
		},
		"fifth deletion": {
			"a few deletions by hand cause no delay",
			newContainer(deletions(4, time.Second)), pod("x", deleted(0)),
			outcome{
				Want: policy.Stop, Phase: pending, Reason: "Terminating", Starts: 5, Last: "Deleted", History: 5,
			},
		},
		"sixth deletion": {
			"six deletions within a minute are not manual: the next pod waits until the first is a minute old",
			newContainer(deletions(5, time.Second)), pod("x", deleted(0)),
			outcome{
				Want: policy.Stop, Phase: backingOff, Reason: "BackingOff", After: 56 * time.Second,
				Next: 56 * time.Second, Starts: 6, Last: "Deleted", History: 6,
			},
		},
		"sixth deletion in a while": {
			"deletions far apart are no series",
			newContainer(deletions(5, 15*time.Second)), pod("x", deleted(0)),
			outcome{
				Want: policy.Stop, Phase: pending, Reason: "Terminating", Starts: 6, Last: "Deleted", History: 6,
			},
		},
		"sixth pod vanished": {
			"a pod that is deleted by force counts like any other",
			newContainer(deletions(5, time.Second), observing(pod("x"))), nil,
			outcome{
				Want: policy.Stop, Phase: backingOff, Reason: "BackingOff", After: 56 * time.Second,
				Next: 56 * time.Second, Starts: 6, Last: "Deleted", History: 5,
			},
		},
	})
}

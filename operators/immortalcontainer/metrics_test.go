package immortalcontainer_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/homeostat-dev/homeostat/operators/immortalcontainer/api/v1alpha1"
	"github.com/homeostat-dev/homeostat/testkit"
	"github.com/homeostat-dev/homeostat/testkit/kubelet"
)

// Five pods: the first fails, the second is deleted, the third is suspended, the fourth fails and is suspended before the
// next start. Suspensions do not count as recovery time.
//
// The test is not parallel, because the time to recover is measured for all namespaces together.
func TestMetricsAndEvents(t *testing.T) {
	k := testkit.New(t)
	before := gatherMetrics(t, k.Namespace)
	start(k)
	ic := withShortBackoff("a")
	ready(k, ic)
	k.Kubelet.Fail("controller=a", kubelet.Failed)
	k.Eventually(ic, starts(2), testkit.Ready())
	k.Delete(podOf(k, "a"))
	k.Eventually(ic, starts(3), testkit.Ready())
	suspendAndResume(k, ic, 4)
	k.Update(ic, func() {
		ic.Spec.Restart.InitialBackoff.Duration = time.Hour
		ic.Spec.Restart.MaxBackoff.Duration = time.Hour
	})
	k.Eventually(ic, testkit.Ready())
	k.Kubelet.Fail("controller=a", kubelet.Failed)
	k.Eventually(ic, phase(v1alpha1.PhaseBackingOff), lastTermination("Error"))
	suspendAndResume(k, ic, 5)

	expectEvents(t, k, []string{
		"Normal Started: Pod a-immortalpod was created: start 1",
		"Normal Started: Pod a-immortalpod was created: start 2",
		"Normal Started: Pod a-immortalpod was created: start 3",
		"Normal Started: Pod a-immortalpod was created: start 4",
		"Normal Started: Pod a-immortalpod was created: start 5",
		"Warning Ended: The pod ended: Error",
		"Warning Ended: The pod ended: Deleted",
		"Normal Ended: The pod ended: Suspended",
		"Warning Ended: The pod ended: Error",
	})
	after := gatherMetrics(t, k.Namespace)
	took := after[sum] - before[sum]
	if took < 1 || took > k.Timeout.Seconds() {
		t.Errorf("the recoveries took %v s together, want at least the backoff of 1 s", took)
	}
	after[recoveries] -= before[recoveries]
	delete(after, sum)
	if diff := cmp.Diff(map[string]float64{
		"immortal_starts_total":         5,
		"immortal_ends_total Error":     2,
		"immortal_ends_total Deleted":   1,
		"immortal_ends_total Suspended": 1,
		recoveries:                      2, // after the first failure and after the deletion
	}, after); diff != "" {
		t.Errorf("the metrics are wrong, -want +got:\n%s", diff)
	}
}

// suspendAndResume leads to the n-th pod.
func suspendAndResume(k *testkit.K, ic *v1alpha1.ImmortalContainer, n int64) {
	k.Update(ic, func() { ic.Spec.Suspend = true })
	k.Eventually(ic, phase(v1alpha1.PhaseSuspended), testkit.Condition("Reconciling", metav1.ConditionFalse))
	k.Eventually(podOf(k, ic.Name), testkit.Gone())
	k.Update(ic, func() { ic.Spec.Suspend = false })
	k.Eventually(ic, starts(n), testkit.Ready())
}

const (
	recoveries = "immortal_time_to_recover_seconds_count"
	sum        = "immortal_time_to_recover_seconds_sum"
)

// gatherMetrics returns the metrics of that namespace and the global ones, by metric name and label reason.
func gatherMetrics(t *testing.T, namespace string) map[string]float64 {
	t.Helper()
	families, err := metrics.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]float64{}
	for _, family := range families {
		if !strings.HasPrefix(family.GetName(), "immortal_") {
			continue
		}
		for _, m := range family.GetMetric() {
			labels := map[string]string{"namespace": namespace}
			for _, label := range m.GetLabel() {
				labels[label.GetName()] = label.GetValue()
			}
			if labels["namespace"] != namespace {
				continue
			}
			if h := m.GetHistogram(); h != nil {
				all[family.GetName()+"_count"], all[family.GetName()+"_sum"] = float64(h.GetSampleCount()), h.GetSampleSum()
				continue
			}
			all[strings.TrimSpace(family.GetName()+" "+labels["reason"])] = m.GetCounter().GetValue()
		}
	}
	return all
}

// expectEvents fails the test unless these are the events Started and Ended, in any order. Events are sent in the
// background.
func expectEvents(t *testing.T, k *testkit.K, want []string) {
	t.Helper()
	slices.Sort(want)
	k.Wait("the events Started and Ended", func(ctx context.Context) error {
		var list corev1.EventList
		if err := k.Client.List(ctx, &list, client.InNamespace(k.Namespace)); err != nil {
			return err
		}
		var got []string
		for _, e := range list.Items {
			if e.InvolvedObject.Kind == "ImmortalContainer" && (e.Reason == "Started" || e.Reason == "Ended") {
				got = append(got, fmt.Sprintf("%s %s: %s", e.Type, e.Reason, e.Message))
			}
		}
		slices.Sort(got)
		if diff := cmp.Diff(want, got); diff != "" {
			return errors.New("-want +got:\n" + diff)
		}
		return nil
	})
}

package configrollout_test

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/homeostat-dev/homeostat/testkit"
)

// Each rollout is counted when it starts and when it ends, and pending workloads are counted.
func TestMetrics(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	op := start(t, k)
	k.Apply(configMap("conf", "a", "1"))
	d := deployment("a", "conf")
	adopt(k, d)
	k.Update(d, func() { d.Spec.Paused = true })
	change(k, "conf", "a", "2")
	k.Eventually(d, isPending(), state("Paused"))
	waitIdle(k, op)
	if got := gauge(t, "configrollout_pending", k.Namespace); got != 1 {
		t.Errorf("%v are pending, want 1", got)
	}
	k.Update(d, func() { d.Spec.Paused = false })
	k.Eventually(d, rolledFrom(""), result("Completed"))
	first := digestOf(d)
	change(k, "conf", "a", "3")
	k.Eventually(d, rolledFrom(first), result("Completed"))
	waitIdle(k, op)
	for _, result := range []string{"Started", "Completed"} {
		labels := map[string]string{"namespace": k.Namespace, "result": result}
		if got := metric(t, "configrollout_rollouts_total", labels); got != 2 {
			t.Errorf("%s is counted %v times, want 2", result, got)
		}
	}
	for _, reason := range []string{"QuietPeriod", "Paused"} {
		labels := map[string]string{"namespace": k.Namespace, "reason": reason}
		if got := metric(t, "configrollout_skipped_total", labels); got < 1 {
			t.Errorf("%s is not counted", reason)
		}
	}
	if got := gauge(t, "configrollout_pending", k.Namespace); got != 0 {
		t.Errorf("%v are pending, want none", got)
	}
	for _, name := range []string{"configrollout_lag_seconds", "configrollout_digest_seconds"} {
		if metric(t, name, nil) == 0 {
			t.Errorf("%s is not counted", name)
		}
	}
}

func gauge(t *testing.T, name, namespace string) float64 {
	t.Helper()
	return metric(t, name, map[string]string{"namespace": namespace})
}

// metric returns a value; for a histogram, the number of samples.
func metric(t *testing.T, name string, labels map[string]string) float64 {
	t.Helper()
	families, err := metrics.Registry.(prometheus.Gatherer).Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() != name {
			continue
		}
	series:
		for _, m := range family.GetMetric() {
			for _, l := range m.GetLabel() {
				if want, ok := labels[l.GetName()]; !ok || want != l.GetValue() {
					continue series
				}
			}
			return m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
		}
	}
	return 0
}

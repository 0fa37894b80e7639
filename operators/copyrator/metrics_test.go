package copyrator_test

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/homeostat-dev/homeostat/testkit"
)

// The metrics sum up the statuses of the rules in a namespace, without deleted rules.
func TestMetrics(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	target := c.namespace("target")
	c.Apply(configMap(c.Namespace, "x", "one"))
	c.Apply(configMap(c.Namespace, "y", "one"))
	c.Apply(configMap(target, "y", "theirs"))
	rule := c.rule("r")
	c.Apply(rule)
	c.Eventually(rule, conflicts(1))
	c.Delete(configMapRef(target, "y"))
	c.Eventually(rule, testkit.Ready(), synced(2))
	c.Apply(configMap(c.Namespace, "z", "one"))
	c.Eventually(rule, testkit.Ready(), synced(3))
	c.waitIdle()
	for name, want := range map[string]float64{
		"copyrator_copies/synced": 3, "copyrator_copies/failed": 0, "copyrator_copies/pending": 0,
		"copyrator_source_objects/": 3, "copyrator_conflicts/": 0,
	} {
		if got, ok := metric(t, c.Namespace, name); !ok || got != want {
			t.Errorf("%s is %v (there: %v), want %v", name, got, ok, want)
		}
	}
	if got, _ := metric(t, c.Namespace, "copyrator_syncs_total/"); got < 2 {
		t.Errorf("%v syncs, want 2 at least", got)
	}
	c.Delete(rule)
	c.waitGone(rule)
	if got, ok := metric(t, c.Namespace, "copyrator_copies/synced"); ok {
		t.Errorf("a rule that is gone has %v copies", got)
	}
}

// metric returns a value by "metric/state".
func metric(t *testing.T, namespace, name string) (float64, bool) {
	t.Helper()
	families, err := metrics.Registry.(prometheus.Gatherer).Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		for _, m := range family.GetMetric() {
			labels := map[string]string{}
			for _, l := range m.GetLabel() {
				labels[l.GetName()] = l.GetValue()
			}
			if family.GetName()+"/"+labels["state"] == name && labels["namespace"] == namespace {
				return m.GetGauge().GetValue() + m.GetCounter().GetValue(), true
			}
		}
	}
	return 0, false
}

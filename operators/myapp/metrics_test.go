package myapp_test

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	v1 "github.com/homeostat-dev/homeostat/operators/myapp/api/v1"
	"github.com/homeostat-dev/homeostat/testkit"
)

// Each new phase is counted once.
func TestPhasesAreCounted(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	op := start(k)
	app := newMyApp("a")
	k.Apply(app)
	k.Eventually(app, testkit.Ready())
	waitIdle(k, op)
	ready := phaseCount(t, k.Namespace, v1.PhaseReady)
	if ready < 1 {
		t.Fatalf("a Ready app was counted %v times", ready)
	}
	k.Update(app, func() { app.Annotations = map[string]string{"of": "no concern"} })
	waitIdle(k, op)
	if again := phaseCount(t, k.Namespace, v1.PhaseReady); again != ready {
		t.Errorf("an app that stays Ready was counted again: %v, and %v before", again, ready)
	}
}

// phaseCount returns the value of the counter for a phase in the namespace.
func phaseCount(t *testing.T, namespace string, phase v1.Phase) float64 {
	t.Helper()
	families, err := metrics.Registry.(prometheus.Gatherer).Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() != "myapp_phase_changes_total" {
			continue
		}
		for _, m := range family.GetMetric() {
			labels := map[string]string{}
			for _, l := range m.GetLabel() {
				labels[l.GetName()] = l.GetValue()
			}
			if labels["namespace"] == namespace && labels["phase"] == string(phase) {
				return m.GetCounter().GetValue()
			}
		}
	}
	return 0
}

package myapp

import (
	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	v1 "github.com/homeostat-dev/homeostat/operators/myapp/api/v1"
)

// The only label with an object's name is namespace: 10,000 apps must not create 10,000 time series.
var phases = prometheus.NewCounterVec(prometheus.CounterOpts{
	Name: "myapp_phase_changes_total",
	Help: "How often a MyApp came into a phase, by namespace and phase: Pending, Progressing, Ready, Degraded or Failed.",
}, []string{"namespace", "phase"})

func init() { metrics.Registry.MustRegister(phases) } //nolint:gochecknoinits // the registry is global

// countPhaseChange counts the phase of a stored status if it is new.
func countPhaseChange(before v1.Phase, app *v1.MyApp) {
	if app.Status.Phase != before && app.Status.Phase != "" {
		phases.WithLabelValues(app.Namespace, string(app.Status.Phase)).Inc()
	}
}

package reconciler

import (
	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/homeostat-dev/homeostat/sdk/internal/retry"
)

// failures counts failed reconciles by operator and class of the error table. Waits, conflicts and invalid specs are not
// failures of the operator and are visible in the conditions.
var failures = prometheus.NewCounterVec(prometheus.CounterOpts{
	Name: "homeostat_pass_failures_total",
	Help: "Passes that failed and were retried, by operator and class (transient, panic).",
}, []string{"operator", "class"})

//nolint:gochecknoinits // the registry of controller-runtime is global.
func init() { metrics.Registry.MustRegister(failures) }

func countFailure(operator string, err error) {
	name := "transient"
	if retry.Classify(err) == retry.ClassPanic {
		name = "panic"
	}
	failures.WithLabelValues(operator, name).Inc()
}

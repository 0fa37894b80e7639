package sdk

import (
	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

// failures counts the passes that failed, by operator and class of the error table. Waiting, a conflict of names or an
// invalid spec is not a failure of the operator and is visible in the conditions instead.
var failures = prometheus.NewCounterVec(prometheus.CounterOpts{
	Name: "homeostat_pass_failures_total",
	Help: "Passes that failed and were retried, by operator and class (transient, panic).",
}, []string{"operator", "class"})

func init() { metrics.Registry.MustRegister(failures) } //nolint:gochecknoinits // the registry of controller-runtime is global.

func countFailure(operator string, err error) {
	name := "transient"
	if classify(err) == classPanic {
		name = "panic"
	}
	failures.WithLabelValues(operator, name).Inc()
}

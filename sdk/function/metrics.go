package function

import (
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

// callSeconds is the time of calls by operator and result: "answer", or the reason of a [CallError].
var callSeconds = prometheus.NewHistogramVec(prometheus.HistogramOpts{
	Name:    "homeostat_function_call_duration_seconds",
	Help:    "Time of the calls of a function, by operator and result (answer, or the reason of a failure).",
	Buckets: []float64{0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10},
}, []string{"operator", "result"})

//nolint:gochecknoinits // the registry of controller-runtime is global.
func init() { metrics.Registry.MustRegister(callSeconds) }

func observeCall(operator string, began time.Time, err error) {
	result := "answer"
	if failure, ok := errors.AsType[*CallError](err); ok {
		result = failure.Reason
	} else if err != nil {
		return // the engine stops
	}
	callSeconds.WithLabelValues(operator, result).Observe(time.Since(began).Seconds())
}

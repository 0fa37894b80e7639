package immortalcontainer

import (
	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/homeostat-dev/homeostat/operators/immortalcontainer/api/v1alpha1"
	"github.com/homeostat-dev/homeostat/operators/immortalcontainer/internal/life"
)

// The metrics are named as their users look for them. None has a label with a name of an object in it, except for the
// namespace: an operator of 10,000 containers must not make 10,000 time series.
var (
	starts = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "immortal_starts_total",
		Help: "Pods created, by namespace.",
	}, []string{"namespace"})
	endings = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "immortal_ends_total",
		Help: "Pods that ended, by namespace and reason, for example OOMKilled, Evicted or Deleted.",
	}, []string{"namespace", "reason"})
	recovery = prometheus.NewHistogram(prometheus.HistogramOpts{
		Name:    "immortal_time_to_recover_seconds",
		Help:    "Time from the end of a pod to the creation of the next one, backoff included.",
		Buckets: []float64{0.1, 0.5, 1, 2, 5, 10, 30, 60, 120, 300, 600},
	})
)

func init() { metrics.Registry.MustRegister(starts, endings, recovery) } //nolint:gochecknoinits // the registry is global.

// observed counts what a stored status says for the first time.
func observed(ic *v1alpha1.ImmortalContainer, step life.Step) {
	if step.Ended != nil {
		endings.WithLabelValues(ic.Namespace, step.Ended.Reason).Inc()
	}
	if !step.Started {
		return
	}
	starts.WithLabelValues(ic.Namespace).Inc()
	if last := ic.Status.LastTermination; last != nil && ic.Status.LastStartTime != nil {
		recovery.Observe(max(0, ic.Status.LastStartTime.Sub(last.FinishedAt.Time)).Seconds())
	}
}

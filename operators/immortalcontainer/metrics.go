package immortalcontainer

import (
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/homeostat-dev/homeostat/operators/immortalcontainer/api/v1alpha1"
	"github.com/homeostat-dev/homeostat/operators/immortalcontainer/internal/policy"
)

// The only label with an object's name is namespace: 10,000 containers must not create 10,000 time series.
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
		Help:    "Time from the end of a pod to the creation of the next one, backoff included, suspension not.",
		Buckets: []float64{0.1, 0.5, 1, 2, 5, 10, 30, 60, 120, 300, 600},
	})
)

func init() { metrics.Registry.MustRegister(starts, endings, recovery) } //nolint:gochecknoinits // the registry is global

// resumed holds the UIDs of ImmortalContainers that were suspended after their last pod ended.
var resumed sync.Map

// recordMetrics counts the changes of a status that has just been stored.
func recordMetrics(ic *v1alpha1.ImmortalContainer, decision policy.Decision) {
	if decision.Ended != nil {
		endings.WithLabelValues(ic.Namespace, decision.Ended.Reason).Inc()
	}
	if decision.Resumed {
		resumed.Store(ic.UID, nil)
	}
	if !decision.Started {
		return
	}
	starts.WithLabelValues(ic.Namespace).Inc()
	_, wasSuspended := resumed.LoadAndDelete(ic.UID)
	if down, outage := downtime(&ic.Status); outage && !wasSuspended {
		recovery.Observe(down.Seconds())
	}
}

// downtime returns the time between the end of the previous pod and the start of the last one. outage is false for the
// first pod and after a suspension.
func downtime(s *v1alpha1.ImmortalContainerStatus) (downtime time.Duration, outage bool) {
	before := slices.IndexFunc(s.History, func(t v1alpha1.Termination) bool { return t.PodUID != s.PodUID })
	if before < 0 || s.LastStartTime == nil || s.History[before].Reason == policy.ReasonSuspended {
		return 0, false
	}
	return max(0, s.LastStartTime.Sub(s.History[before].FinishedAt.Time)), true
}

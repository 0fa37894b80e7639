package immortalcontainer

import (
	"slices"
	"sync"
	"time"

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
		Help:    "Time from the end of a pod to the creation of the next one, backoff included, suspension not.",
		Buckets: []float64{0.1, 0.5, 1, 2, 5, 10, 30, 60, 120, 300, 600},
	})
)

func init() { metrics.Registry.MustRegister(starts, endings, recovery) } //nolint:gochecknoinits // the registry is global.

// resumed holds the UIDs of the ImmortalContainers that were suspended since the end of their last pod.
var resumed sync.Map

// observed counts what a stored status says for the first time.
func observed(ic *v1alpha1.ImmortalContainer, step life.Step) {
	if step.Ended != nil {
		endings.WithLabelValues(ic.Namespace, step.Ended.Reason).Inc()
	}
	if step.Resumed {
		resumed.Store(ic.UID, nil)
	}
	if !step.Started {
		return
	}
	starts.WithLabelValues(ic.Namespace).Inc()
	_, rested := resumed.LoadAndDelete(ic.UID)
	if gap, outage := gap(&ic.Status); outage && !rested {
		recovery.Observe(gap.Seconds())
	}
}

// gap is the time between the pod that was counted last and the one before. It reports whether that was an outage: before
// the first pod there is none, and a pod that was suspended was not to run.
func gap(s *v1alpha1.ImmortalContainerStatus) (gap time.Duration, outage bool) {
	before := slices.IndexFunc(s.History, func(t v1alpha1.Termination) bool { return t.PodUID != s.PodUID })
	if before < 0 || s.LastStartTime == nil || s.History[before].Reason == life.ReasonSuspended {
		return 0, false
	}
	return max(0, s.LastStartTime.Sub(s.History[before].FinishedAt.Time)), true
}

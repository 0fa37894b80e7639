package configrollout

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/homeostat-dev/homeostat/operators/configrollout/internal/policy"
)

// The only label with an object's name is namespace: 10,000 workloads must not create 10,000 time series.
var (
	rollouts = counter("rollouts_total",
		"Rollouts, by namespace and result: Started, Completed, Failed, RolledBack, Stuck.", "namespace", "result")
	merges = counter("merged_total",
		"Changes of the configuration that needed no rollout because all pods were replaced anyway, by namespace.", "namespace")
	skipped = counter("skipped_total",
		"How often a workload was not rolled at once, by namespace and reason.", "namespace", "reason")
	invalidAnnotations = counter("invalid_annotation_total",
		"Annotations that cannot be read and so have their defaults, by namespace and annotation.", "namespace", "annotation")
	pendingWorkloads = gauge("pending", "Workloads that wait for a rollout, by namespace.", "namespace")
	heldWorkloads    = gauge("held", "Workloads that wait because another one failed, by namespace.", "namespace")
	lag              = histogram("lag_seconds", "From the change of the configuration to that of the pod template.",
		1, 5, 10, 30, 60, 300, 1800, 3600, 6*3600, 24*3600)
	digestTime = histogram("digest_seconds", "Reading one ConfigMap or Secret and hashing it.", 0.001, 0.005, 0.02, 0.1, 0.5, 2)
)

func init() { //nolint:gochecknoinits // the registry is global
	metrics.Registry.MustRegister(rollouts, merges, skipped, invalidAnnotations)
	metrics.Registry.MustRegister(pendingWorkloads, heldWorkloads, lag, digestTime)
}

const namePrefix = "configrollout_"

func counter(name, help string, labels ...string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Name: namePrefix + name, Help: help}, labels)
}

func gauge(name, help string, labels ...string) *prometheus.GaugeVec {
	return prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: namePrefix + name, Help: help}, labels)
}

func histogram(name, help string, buckets ...float64) prometheus.Histogram {
	return prometheus.NewHistogram(prometheus.HistogramOpts{Name: namePrefix + name, Help: help, Buckets: buckets})
}

// countWaiting updates the gauges.
func countWaiting(namespace string, pending, held int) {
	pendingWorkloads.WithLabelValues(namespace).Add(float64(pending))
	heldWorkloads.WithLabelValues(namespace).Add(float64(held))
}

func countDigest(took time.Duration) { digestTime.Observe(took.Seconds()) }

// maxLag is the greatest observed lag. The time of the change is in an annotation, which users may write.
const maxLag = 7 * 24 * time.Hour

// countDecision counts a written decision.
func countDecision(namespace string, d policy.Decision) {
	switch d.Action {
	case policy.Roll:
		rollouts.WithLabelValues(namespace, "Started").Inc()
		lag.Observe(min(d.Lag, maxLag).Seconds())
	case policy.Merge:
		merges.WithLabelValues(namespace).Inc()
	case policy.Nothing, policy.Release, policy.Baseline, policy.Wait, policy.Conclude, policy.Rollback:
	}
	if d.Result != "" {
		rollouts.WithLabelValues(namespace, string(d.Result)).Inc()
	}
	for _, name := range d.Invalid {
		invalidAnnotations.WithLabelValues(namespace, name).Inc()
	}
}

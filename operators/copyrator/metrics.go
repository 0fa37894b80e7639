package copyrator

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	v1 "github.com/homeostat-dev/homeostat/operators/copyrator/api/v1"
)

// The only label with an object's name is the namespace of the rule: 15,000 copies must not create 15,000 time series.
var (
	syncs = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "copyrator_syncs_total",
		Help: "How often all copies of a rule came to be as they should be after something had changed, by its namespace.",
	}, []string{"namespace"})
	gauges = newRuleGauges()
)

func init() { metrics.Registry.MustRegister(syncs, gauges) } //nolint:gochecknoinits // the registry is global

// ruleGauges sums up the statuses of rules at each scrape. It is safe for concurrent use.
type ruleGauges struct {
	copies, sources, conflicts *prometheus.Desc

	mu    sync.Mutex
	rules map[types.UID]counts
}

type counts struct {
	namespace                                   string
	desired, synced, failed, conflicts, sources float64
}

func newRuleGauges() *ruleGauges {
	return &ruleGauges{
		copies: prometheus.NewDesc("copyrator_copies",
			"How many copies there are, by namespace of the rule and state: synced, failed or pending.",
			[]string{"namespace", "state"}, nil),
		sources: prometheus.NewDesc("copyrator_source_objects",
			"How many objects are copied, by namespace of the rule.", []string{"namespace"}, nil),
		conflicts: prometheus.NewDesc("copyrator_conflicts",
			"How many copies and sources something of the same name is in the way of, by namespace of the rule.",
			[]string{"namespace"}, nil),
		rules: map[types.UID]counts{},
	}
}

// record records a stored status. before is the previous one.
func (g *ruleGauges) record(before *v1.CopyratorRuleStatus, rule *v1.CopyratorRule) {
	s := rule.Status
	if s.Digest != before.Digest || !s.LastSyncTime.Equal(before.LastSyncTime) {
		syncs.WithLabelValues(rule.Namespace).Inc()
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.rules[rule.UID] = counts{
		rule.Namespace, float64(s.Desired), float64(s.Synced), float64(s.Failed), float64(s.Conflicts), float64(s.MatchedSources),
	}
}

// remove removes a deleted rule.
func (g *ruleGauges) remove(rule types.UID) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.rules, rule)
}

// Describe implements prometheus.Collector.
func (g *ruleGauges) Describe(out chan<- *prometheus.Desc) {
	out <- g.copies
	out <- g.sources
	out <- g.conflicts
}

// Collect implements prometheus.Collector.
func (g *ruleGauges) Collect(out chan<- prometheus.Metric) {
	g.mu.Lock()
	sums := map[string]counts{}
	for _, c := range g.rules {
		s := sums[c.namespace]
		s.desired += c.desired
		s.synced += c.synced
		s.failed += c.failed
		s.conflicts += c.conflicts
		s.sources += c.sources
		sums[c.namespace] = s
	}
	g.mu.Unlock()
	for namespace, s := range sums {
		gauge := func(of *prometheus.Desc, value float64, labels ...string) {
			out <- prometheus.MustNewConstMetric(of, prometheus.GaugeValue, value, append([]string{namespace}, labels...)...)
		}
		gauge(g.copies, s.synced, "synced")
		gauge(g.copies, s.failed, "failed")
		gauge(g.copies, max(0, s.desired-s.synced-s.failed), "pending")
		gauge(g.sources, s.sources)
		gauge(g.conflicts, s.conflicts)
	}
}

package database

import (
	"context"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	v1 "github.com/homeostat-dev/homeostat/operators/database/api/v1"
	"github.com/homeostat-dev/homeostat/operators/database/internal/snapshot"
	"github.com/homeostat-dev/homeostat/sdk"
	"github.com/homeostat-dev/homeostat/sdk/conditions"
)

// NewSnapshotMetrics returns what tells of DBSnapshots as metrics. They have the names of objects in their labels, because
// somebody is to be told which copies are missing; they are read from the statuses when they are asked for, and so are those
// of the objects that there are.
func NewSnapshotMetrics() *sdk.Custom {
	return &sdk.Custom{
		Name: "dbsnapshot-metrics",
		Setup: func(mgr manager.Manager, namespaces []string, _ int) error {
			return addSnapshotMetrics(mgr, namespaces)
		},
		DryRun: func(context.Context, *rest.Config, []string, io.Writer) error {
			return nil // there is nothing that it would write
		},
	}
}

// addSnapshotMetrics gives a manager a cache of DBSnapshots, from which the metrics are read while it runs.
func addSnapshotMetrics(mgr manager.Manager, namespaces []string) error {
	if err := v1.AddToScheme(mgr.GetScheme()); err != nil {
		return fmt.Errorf("registering the kinds: %w", err)
	}
	options := cache.Options{
		HTTPClient: mgr.GetHTTPClient(), Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper(),
		DefaultTransform: cache.TransformStripManagedFields(),
	}
	if len(namespaces) > 0 {
		options.DefaultNamespaces = map[string]cache.Config{}
		for _, namespace := range namespaces {
			options.DefaultNamespaces[namespace] = cache.Config{}
		}
	}
	c, err := cache.New(mgr.GetConfig(), options)
	if err != nil {
		return fmt.Errorf("creating the cache of the metrics: %w", err)
	}
	if err := mgr.Add(c); err != nil {
		return fmt.Errorf("adding the cache of the metrics: %w", err)
	}
	return mgr.Add(standby(func(ctx context.Context) error {
		if _, err := c.GetInformer(ctx, &v1.DBSnapshot{}); err != nil {
			return fmt.Errorf("watching DBSnapshots for their metrics: %w", err)
		}
		defer snapshotMetrics.add(c)()
		<-ctx.Done()
		return nil
	}))
}

// standby runs without being the leader, too.
type standby func(context.Context) error

// Start implements manager.Runnable.
func (f standby) Start(ctx context.Context) error { return f(ctx) }

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (standby) NeedLeaderElection() bool { return false }

var snapshotMetrics = newSnapshotCollector()

func init() { metrics.Registry.MustRegister(snapshotMetrics) } //nolint:gochecknoinits // the registry is global.

// snapshotCollector makes metrics of the DBSnapshots in caches. It is safe for concurrent use.
type snapshotCollector struct {
	gauges []gauge

	mu     sync.Mutex
	caches map[int]client.Reader
	next   int
}

// gauge is one metric and how it is read; the second result says whether it has a value.
type gauge struct {
	desc *prometheus.Desc
	kind prometheus.ValueType
	read func(*v1.DBSnapshot) (float64, bool)
}

func newSnapshotCollector() *snapshotCollector {
	c := &snapshotCollector{caches: map[int]client.Reader{}}
	add := func(name, help string, kind prometheus.ValueType, read func(*v1.DBSnapshot) (float64, bool)) {
		desc := prometheus.NewDesc("dbsnapshot_"+name, help, []string{"namespace", "name"}, nil)
		c.gauges = append(c.gauges, gauge{desc, kind, read})
	}
	last := func(read func(*v1.LastSnapshot) float64) func(*v1.DBSnapshot) (float64, bool) {
		return func(o *v1.DBSnapshot) (float64, bool) {
			if o.Status.LastSnapshot == nil {
				return 0, false
			}
			return read(o.Status.LastSnapshot), true
		}
	}
	of := prometheus.GaugeValue
	add("info", "1 for each DBSnapshot that is to make copies: those that are suspended are not.", of, scheduled)
	add("last_success_timestamp_seconds", "When the last copy was finished; 0 if there never was one.", of,
		func(o *v1.DBSnapshot) (float64, bool) { return seconds(o.Status.LastSuccessfulTime), true })
	add("last_failure_timestamp_seconds", "When an attempt failed for the last time; 0 if none did.", of,
		func(o *v1.DBSnapshot) (float64, bool) { return seconds(o.Status.LastFailureTime), true })
	add("next_schedule_timestamp_seconds", "When the next copy is due.", of, func(o *v1.DBSnapshot) (float64, bool) {
		return seconds(o.Status.NextScheduleTime), o.Status.NextScheduleTime != nil
	})
	add("consecutive_failures", "How many attempts failed since the last copy.", of,
		func(o *v1.DBSnapshot) (float64, bool) { return float64(o.Status.ConsecutiveFailures), true })
	add("duration_seconds", "How long the last copy took.", of,
		last(func(s *v1.LastSnapshot) float64 { return s.Duration.Seconds() }))
	add("size_bytes", "How large the last copy is.", of, last(func(s *v1.LastSnapshot) float64 { return float64(s.SizeBytes) }))
	add("overdue", "1 if there should be a newer copy, else 0.", of, func(o *v1.DBSnapshot) (float64, bool) {
		if overdue := conditions.Get(o, v1.ConditionOverdue); overdue != nil && overdue.Status == metav1.ConditionTrue {
			return 1, true
		}
		return 0, true
	})
	add("artifacts", "How many copies there are.", of,
		func(o *v1.DBSnapshot) (float64, bool) { return float64(len(snapshot.Copies(o))), true })
	add("missed_total", "Times of the schedule that passed without an attempt.", prometheus.CounterValue,
		func(o *v1.DBSnapshot) (float64, bool) { return float64(o.Status.Missed), true })
	return c
}

func scheduled(o *v1.DBSnapshot) (float64, bool) {
	return 1, !o.Spec.Suspend && o.DeletionTimestamp == nil
}

func seconds(t *metav1.Time) float64 {
	if t == nil {
		return 0
	}
	return float64(t.Unix())
}

// add has the metrics of a cache told until the function that it returns is called.
func (c *snapshotCollector) add(reader client.Reader) (remove func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	key := c.next
	c.caches[key], c.next = reader, c.next+1
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.caches, key)
	}
}

// Describe implements prometheus.Collector.
func (c *snapshotCollector) Describe(out chan<- *prometheus.Desc) {
	for _, g := range c.gauges {
		out <- g.desc
	}
}

// collectTimeout bounds a scrape whose cache is not in sync.
const collectTimeout = 5 * time.Second

// Collect implements prometheus.Collector.
func (c *snapshotCollector) Collect(out chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), collectTimeout)
	defer cancel()
	for _, o := range c.all(ctx) {
		for _, g := range c.gauges {
			if value, ok := g.read(o); ok {
				out <- prometheus.MustNewConstMetric(g.desc, g.kind, value, o.Namespace, o.Name)
			}
		}
	}
}

// all returns the DBSnapshots of all caches, each once. They are shared: never change them.
func (c *snapshotCollector) all(ctx context.Context) map[types.UID]*v1.DBSnapshot {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := map[types.UID]*v1.DBSnapshot{}
	for _, reader := range c.caches {
		var list v1.DBSnapshotList
		if err := reader.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
			continue // the cache is about to end
		}
		for i := range list.Items {
			all[list.Items[i].UID] = &list.Items[i]
		}
	}
	return all
}

// Package metrics serves metrics of Databases and DBSnapshots. It reads them from the statuses.
package metrics

import (
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	registry "sigs.k8s.io/controller-runtime/pkg/metrics"

	v1 "github.com/homeostat-dev/homeostat/operators/database/api/v1"
	"github.com/homeostat-dev/homeostat/operators/database/internal/database/status"
	"github.com/homeostat-dev/homeostat/operators/database/internal/dbsnapshot/policy"
	"github.com/homeostat-dev/homeostat/sdk/conditions"
	"github.com/homeostat-dev/homeostat/sdk/program"
)

// New returns the runnable that serves metrics of Databases and DBSnapshots. Their labels have the names of the
// objects, because alerts have to name the affected object. The values are read from the statuses at each scrape, so a
// deleted object has no metrics.
func New() *program.CustomController {
	return &program.CustomController{
		Name: "database-metrics",
		Setup: func(mgr manager.Manager, namespaces []string, _ int) error {
			return addMetrics(mgr, namespaces)
		},
		DryRun: func(context.Context, *rest.Config, []string, io.Writer) error {
			return nil // it writes nothing
		},
	}
}

// addMetrics adds a cache of both kinds to the manager. The metrics are read from it while the manager runs.
func addMetrics(mgr manager.Manager, namespaces []string) error {
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
	return mgr.Add(nonLeaderRunnable(func(ctx context.Context) error {
		for _, kind := range []client.Object{&v1.Database{}, &v1.DBSnapshot{}} {
			if _, err := c.GetInformer(ctx, kind); err != nil {
				return fmt.Errorf("watching %T for metrics: %w", kind, err)
			}
		}
		defer databaseMetrics.register(c)()
		defer snapshotMetrics.register(c)()
		<-ctx.Done()
		return nil
	}))
}

// nonLeaderRunnable is a runnable that does not need leader election.
type nonLeaderRunnable func(context.Context) error

// Start implements manager.Runnable.
func (f nonLeaderRunnable) Start(ctx context.Context) error { return f(ctx) }

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (nonLeaderRunnable) NeedLeaderElection() bool { return false }

var (
	databaseMetrics = newDatabaseCollector()
	snapshotMetrics = newSnapshotCollector()
)

// Collectors returns the collectors of all metrics.
func Collectors() []prometheus.Collector {
	return []prometheus.Collector{databaseMetrics, snapshotMetrics}
}

func init() { registry.Registry.MustRegister(databaseMetrics, snapshotMetrics) } //nolint:gochecknoinits // the registry is global.

func newDatabaseCollector() *collector[*v1.Database] {
	c := newCollector("database_", func(ctx context.Context, r client.Reader) (all []*v1.Database, err error) {
		var list v1.DatabaseList
		err = r.List(ctx, &list, client.UnsafeDisableDeepCopy)
		for i := range list.Items {
			all = append(all, &list.Items[i])
		}
		return all, err
	})
	c.add("info", "1 for each Database.", func(db *v1.Database, emit emitFunc) {
		emit(1, string(db.Spec.Engine), db.Spec.Version)
	}, "engine", "version")
	c.add("state", "1 for the state that a Database is in, 0 for the others.", func(db *v1.Database, emit emitFunc) {
		for _, state := range []v1.State{v1.Provisioning, v1.Ready, v1.Degraded, v1.Failed, v1.Hibernated} {
			emit(boolFloat(db.Status.State == state), string(state))
		}
	}, "state")
	c.add("replicas", "How many members there are to be.", func(db *v1.Database, emit emitFunc) { emit(float64(db.Members())) })
	c.add("ready_replicas", "How many members accept connections.",
		func(db *v1.Database, emit emitFunc) { emit(float64(db.Status.ReadyReplicas)) })
	c.add("storage_bytes", "How large the volume of a member is to be, and how large it has been for all of them.",
		func(db *v1.Database, emit emitFunc) {
			emit(quantityBytes(db.Spec.Storage), "requested")
			emit(quantityBytes(db.Status.Storage), "satisfied")
		}, "kind")
	c.add("pending_action", "1 if a person has to do something, else 0.",
		func(db *v1.Database, emit emitFunc) { emit(boolFloat(db.Status.PendingAction != "")) })
	backup := func(read func(*v1.BackupStatus) *metav1.Time) func(*v1.Database, emitFunc) {
		return func(db *v1.Database, emit emitFunc) {
			if db.Status.Backup != nil {
				emit(unixSeconds(read(db.Status.Backup)))
			}
		}
	}
	c.add("backup_last_success_timestamp_seconds", "When the last dump was finished; 0 if there never was one.",
		backup(func(b *v1.BackupStatus) *metav1.Time { return b.LastSuccessfulTime }))
	c.add("backup_last_failure_timestamp_seconds", "When an attempt at a dump failed for the last time; 0 if none did.",
		backup(func(b *v1.BackupStatus) *metav1.Time { return b.LastFailureTime }))
	c.add("backup_succeeded", "1 if the last dump that was due succeeded, 0 if it failed or never came.",
		func(db *v1.Database, emit emitFunc) {
			if c := conditions.Get(db, status.LastBackupSucceeded); c != nil {
				emit(boolFloat(c.Status == metav1.ConditionTrue))
			}
		})
	c.add("backup_next_schedule_timestamp_seconds", "When the next dump is due; 0 if none is.",
		backup(func(b *v1.BackupStatus) *metav1.Time { return b.NextScheduleTime }))
	return c
}

func newSnapshotCollector() *collector[*v1.DBSnapshot] {
	c := newCollector("dbsnapshot_", func(ctx context.Context, r client.Reader) (all []*v1.DBSnapshot, err error) {
		var list v1.DBSnapshotList
		err = r.List(ctx, &list, client.UnsafeDisableDeepCopy)
		for i := range list.Items {
			all = append(all, &list.Items[i])
		}
		return all, err
	})
	last := func(read func(*v1.LastSnapshot) float64) func(*v1.DBSnapshot, emitFunc) {
		return func(o *v1.DBSnapshot, emit emitFunc) {
			if o.Status.LastSnapshot != nil {
				emit(read(o.Status.LastSnapshot))
			}
		}
	}
	c.add("info", "1 for each DBSnapshot that is to make copies: those that are suspended are not.",
		func(o *v1.DBSnapshot, emit emitFunc) {
			if !o.Spec.Suspend && o.DeletionTimestamp == nil {
				emit(1)
			}
		})
	c.add("last_success_timestamp_seconds", "When the last copy was finished; 0 if there never was one.",
		func(o *v1.DBSnapshot, emit emitFunc) { emit(unixSeconds(o.Status.LastSuccessfulTime)) })
	c.add("last_failure_timestamp_seconds", "When an attempt failed for the last time; 0 if none did.",
		func(o *v1.DBSnapshot, emit emitFunc) { emit(unixSeconds(o.Status.LastFailureTime)) })
	c.add("next_schedule_timestamp_seconds", "When the next copy is due.", func(o *v1.DBSnapshot, emit emitFunc) {
		if o.Status.NextScheduleTime != nil {
			emit(unixSeconds(o.Status.NextScheduleTime))
		}
	})
	c.add("consecutive_failures", "How many attempts failed since the last copy.",
		func(o *v1.DBSnapshot, emit emitFunc) { emit(float64(o.Status.ConsecutiveFailures)) })
	c.add("duration_seconds", "How long the last copy took.",
		last(func(s *v1.LastSnapshot) float64 { return s.Duration.Seconds() }))
	c.add("size_bytes", "How large the last copy is.", last(func(s *v1.LastSnapshot) float64 { return float64(s.SizeBytes) }))
	c.add("overdue", "1 if there should be a newer copy, else 0.",
		func(o *v1.DBSnapshot, emit emitFunc) { emit(boolFloat(conditions.IsTrue(o, v1.ConditionOverdue))) })
	c.add("artifacts", "How many copies there are.",
		func(o *v1.DBSnapshot, emit emitFunc) { emit(float64(len(policy.Copies(o)))) })
	c.add("missed_total", "Times of the schedule that passed without an attempt.",
		func(o *v1.DBSnapshot, emit emitFunc) { emit(float64(o.Status.Missed)) })
	return c
}

func boolFloat(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

func quantityBytes(amount string) float64 {
	q, err := resource.ParseQuantity(amount)
	if err != nil { // not set yet
		return 0
	}
	return q.AsApproximateFloat64()
}

func unixSeconds(t *metav1.Time) float64 {
	if t == nil {
		return 0
	}
	return float64(t.Unix())
}

// collector collects metrics of the objects in one or more caches. It is safe for concurrent use.
type collector[T client.Object] struct {
	prefix string
	list   func(context.Context, client.Reader) ([]T, error) // cached objects: read-only
	all    []metric[T]

	mu     sync.Mutex
	caches map[int]client.Reader
	next   int
}

// metric is one metric with the function that reads it.
type metric[T client.Object] struct {
	desc *prometheus.Desc
	kind prometheus.ValueType
	read func(T, emitFunc)
}

// emitFunc receives a value and its labels beside the namespace and the name.
type emitFunc func(value float64, labels ...string)

func newCollector[T client.Object](prefix string, list func(context.Context, client.Reader) ([]T, error)) *collector[T] {
	return &collector[T]{prefix: prefix, list: list, caches: map[int]client.Reader{}}
}

// add adds a metric: a counter if its name ends with _total, else a gauge.
func (c *collector[T]) add(name, help string, read func(T, emitFunc), labels ...string) {
	kind := prometheus.GaugeValue
	if strings.HasSuffix(name, "_total") {
		kind = prometheus.CounterValue
	}
	desc := prometheus.NewDesc(c.prefix+name, help, append([]string{"namespace", "name"}, labels...), nil)
	c.all = append(c.all, metric[T]{desc, kind, read})
}

// register adds a cache to the collector. The returned function removes it.
func (c *collector[T]) register(reader client.Reader) (remove func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	key := c.next
	c.caches[key] = reader
	c.next++
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.caches, key)
	}
}

// Describe implements prometheus.Collector.
func (c *collector[T]) Describe(out chan<- *prometheus.Desc) {
	for _, m := range c.all {
		out <- m.desc
	}
}

// collectTimeout bounds a scrape whose cache is not in sync.
const collectTimeout = 5 * time.Second

// Collect implements prometheus.Collector.
func (c *collector[T]) Collect(out chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), collectTimeout)
	defer cancel()
	for _, o := range c.objects(ctx) {
		for _, m := range c.all {
			m.read(o, func(value float64, labels ...string) {
				labels = append([]string{o.GetNamespace(), o.GetName()}, labels...)
				out <- prometheus.MustNewConstMetric(m.desc, m.kind, value, labels...)
			})
		}
	}
}

// objects returns the objects of all caches without duplicates.
func (c *collector[T]) objects(ctx context.Context) map[types.UID]T {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := map[types.UID]T{}
	for _, reader := range c.caches {
		list, err := c.list(ctx, reader)
		if err != nil {
			continue // the cache is stopping
		}
		for _, o := range list {
			all[o.GetUID()] = o
		}
	}
	return all
}

package database

import "github.com/prometheus/client_golang/prometheus"

// Collectors are the collectors of all metrics.
var Collectors = []prometheus.Collector{databaseMetrics, snapshotMetrics}

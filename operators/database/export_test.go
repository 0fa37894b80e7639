package database

import "github.com/prometheus/client_golang/prometheus"

// Collectors are what the metrics come from.
var Collectors = []prometheus.Collector{databaseMetrics, snapshotMetrics}

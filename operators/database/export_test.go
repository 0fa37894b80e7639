package database

// SnapshotCollector is what the metrics of DBSnapshots come from.
var SnapshotCollector = snapshotMetrics

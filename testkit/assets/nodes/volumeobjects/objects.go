// Package volumeobjects has the objects of the driver of package volume, and the kinds of snapshots. It has no dependencies,
// because testkit imports it as well.
package volumeobjects

import _ "embed"

// The kinds of snapshots, as external-snapshotter defines them. They must be established before Classes is applied.
var (
	//go:embed volumesnapshotclasses.yaml
	snapshotClasses string
	//go:embed volumesnapshotcontents.yaml
	snapshotContents string
	//go:embed volumesnapshots.yaml
	snapshotKind string
)

// Classes is YAML with the objects of the driver: its CSIDriver, the default storage class and the default snapshot class,
// both with the name standard.
//
//go:embed driver.yaml
var Classes string

// Definitions returns YAML with the CustomResourceDefinitions of the snapshot API.
func Definitions() string { return snapshotClasses + snapshotContents + snapshotKind }

// Package desired builds the children of a DBSnapshot: the Jobs and VolumeSnapshots that make copies, and the objects that
// they need.
//
// Its functions are pure: they depend on their arguments alone. The reconciler decides when a child exists.
package desired

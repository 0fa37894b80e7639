// Package volume is a CSI driver for nodes that share one machine. Its volumes are sparse files with ext4 in a folder of the
// host, and a node mounts one through a loop device.
//
// The controller part runs once. It creates, copies, grows and deletes files, and records the node that a volume is attached
// to. The node part runs once for each node, in the mount namespace of that node. Both work on the same folder, and a lock
// on the folder of a volume orders their operations. Nothing else is shared, so each may be killed at any time: a file is
// complete before it has its name, a record is replaced as a whole, and a repeated call does the rest.
//
// # Detached volumes
//
// A volume is attached to one node at a time. Detaching one that is still mounted, as Kubernetes does when a node does not
// answer, shuts its filesystem down: processes of the old node get input/output errors and write nothing more, as with a
// disk that a cloud has detached. Data that they had not synchronized is lost. [Fence] does the same for nodes.
//
// # Space
//
// Volumes are sparse, so the sum of their sizes may exceed the free space of the host. A call that needs space fails with
// ResourceExhausted and leaves nothing behind. Processes that fill a volume on a full host get input/output errors.
//
// The package is for tests, as root on Linux 5.8 or later. Volumes do not survive a power failure of the host.
package volume

// DriverName is the name of the CSI driver, and the provisioner of its storage class.
const DriverName = "block.testkit.homeostat.dev"

// Package system has the parts of Linux that the network of the nodes and a node have in common: processes under PID 1,
// mounts, and control groups.
package system

// Package incarnation runs an operator's command as a process from its start to its end, so that an operator in any
// language can be crashed and started again.
//
// An incarnation is the process group of one command. It gets its cluster and its namespace from outside, whatever the
// environment of this process says; what it prints is reported line by line; and nothing of it survives its end or
// that of this process, grandchildren included, unless they have left the group, as daemons do.
//
// It is no supervisor: what has ended stays so, and who wants another incarnation starts one. Windows has no process
// groups of this kind.
package operatorproc

// Package environment shares control planes between processes.
//
// Starting a control plane takes seconds, and `go test ./...` runs each package in a process of its own. The first
// process that needs an environment starts a server process: a detached copy of itself that owns the control plane and
// the garbage collector. The others connect to its unix socket. A lease is an open connection, so the kernel releases
// it even if its holder is killed. When the last lease ends, the server process stops at once and leaves nothing
// behind: no process, no port, no socket, no file.
//
// To last from one package to the next, the lease of a test binary started by the go command also holds until that
// command ends. With real nodes it does not: the pods of one package would compete with the next package for the processors.
//
// Environments with different requirements (tier, programs, version of a custom resource) are different processes. A
// program that uses this package must call RunHelperProcess first in main or TestMain.
package environment

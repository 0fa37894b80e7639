// Package environment shares control planes between processes.
//
// It exists because starting a control plane takes seconds and `go test ./...` runs each package in a process of its
// own. The first one that asks starts an environment: a detached process, a copy of itself, that owns the control
// plane and the janitor. The others connect to its unix socket. A lease is an open connection, so the kernel gives it
// back even when its holder is killed. When the last lease ends the environment stops at once and leaves nothing:
// no process, no port, no socket, no file.
//
// To last from one package to the next, the lease of a test binary that was started by the go command also holds until
// that command ends.
//
// Environments that want different things (tier, programs, another version of the same custom resource) are different
// processes. A program that uses this package must call RunHelperProcess first thing in main or TestMain.
package environment

// Package process starts child processes that do not accidentally outlive their parent. It identifies processes so that
// a recycled pid is not mistaken for the original process.
//
// os/exec alone leaves children behind when the parent is killed, and a pid read from a file proves nothing. The
// package is not a supervisor: it restarts nothing.
package process

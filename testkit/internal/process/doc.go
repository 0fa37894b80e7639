// Package process starts child processes that cannot outlive their parent by accident and names processes so that a
// recycled pid is never mistaken for the process it once was.
//
// It exists because os/exec alone leaves children behind when the parent is killed, and because a pid read from a file
// proves nothing. It is not a supervisor: nothing is restarted here.
package process

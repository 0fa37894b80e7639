package intercept

import (
	"fmt"
	"strings"
	"time"
)

// Busy reports whether a request is pending, except for leader election, a watch has not yet sent all existing objects, or
// the operator is known to be reconciling. It also returns the time since the last activity: a write, a watch event, or a
// read that the process has not sent before. Reads that a process repeats are no activity, as an idle operator may poll.
func (ic *Interceptor) Busy() (running bool, idle time.Duration) {
	reconciling := ic.isReconciling()
	ic.mu.Lock()
	defer ic.mu.Unlock()
	return ic.running > 0 || reconciling || ic.isInitializing(), time.Since(ic.lastActivity)
}

// Initializing reports whether an informer waits for the existing objects. The API server may need seconds for them.
func (ic *Interceptor) Initializing() bool {
	ic.mu.Lock()
	defer ic.mu.Unlock()
	return ic.isInitializing()
}

// Activity describes what Busy reports, for people, for example "1 request is pending; the last activity was 1.2s ago".
func (ic *Interceptor) Activity() string {
	reconciling := ic.isReconciling()
	ic.mu.Lock()
	defer ic.mu.Unlock()
	var parts []string
	switch {
	case ic.running == 1:
		parts = append(parts, "1 request is pending")
	case ic.running > 1:
		parts = append(parts, fmt.Sprintf("%d requests are pending", ic.running))
	}
	if reconciling {
		parts = append(parts, "a reconcile has not ended")
	}
	if ic.isInitializing() {
		parts = append(parts, "a watch has not sent all existing objects")
	}
	parts = append(parts, fmt.Sprintf("the last activity was %v ago", time.Since(ic.lastActivity).Round(time.Millisecond)))
	return strings.Join(parts, "; ")
}

func (ic *Interceptor) isReconciling() bool {
	return ic.Reconciling != nil && ic.Reconciling(ic.Paused())
}

// isInitializing implements Initializing. The caller holds the mutex.
func (ic *Interceptor) isInitializing() bool {
	for s := range ic.streams {
		paused := ic.pause != nil && ic.pause.process == s.process
		if s.initial && !paused && !s.isBroken() {
			return true
		}
	}
	return false
}

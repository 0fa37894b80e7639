package intercept

import "time"

// Pend records a request of the operator that does not pass the interceptor, as activity. The caller must call done at its
// end.
func (ic *Interceptor) Pend() (done func()) {
	ic.pend(+1)
	return func() { ic.pend(-1) }
}

func (ic *Interceptor) pend(delta int) {
	ic.mu.Lock()
	defer ic.mu.Unlock()
	ic.running += delta
	ic.lastActivity = time.Now()
}

// Step returns the current step of the scenario.
func (ic *Interceptor) Step() int {
	ic.mu.Lock()
	defer ic.mu.Unlock()
	return ic.step
}

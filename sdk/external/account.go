package external

import (
	"maps"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// Account limits the requests to one account of a remote API. All kinds of all operators of the process that share the value
// share the limits. It is safe for concurrent use. Its fields must not change after the first request.
type Account struct {
	// PerSecond is the number of requests per second in the long run. Zero means that there is no limit.
	PerSecond float64
	// Burst is the number of requests that may be sent at once after a pause. Zero means 1.
	Burst int
	// MaxConcurrent is the number of requests without an answer. Zero means 4: a remote API that hangs must not hold up all
	// workers of an operator.
	MaxConcurrent int

	mu      sync.Mutex
	limiter *rate.Limiter // nil before the first request
	blocked time.Time     // no request before then
	active  int
	others  map[string]*Account // by identifier; with the same limits
	used    time.Time           // the last time that [Account.For] returned it
}

// accountTTL is the time after which an account that is not used is forgotten.
const accountTTL = time.Hour

// For returns the account of this identifier, which has the same limits for itself. The empty identifier is a itself.
func (a *Account) For(id string, now time.Time) *Account {
	if a == nil || id == "" {
		return a
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	other := a.others[id]
	if other == nil {
		maps.DeleteFunc(a.others, func(_ string, o *Account) bool { return o.isForgotten(now) })
		if a.others == nil {
			a.others = map[string]*Account{}
		}
		other = &Account{PerSecond: a.PerSecond, Burst: a.Burst, MaxConcurrent: a.MaxConcurrent}
		a.others[id] = other
	}
	other.used = now
	return other
}

// isForgotten reports whether an account has not been used for so long that its limits have no effect.
func (a *Account) isForgotten(now time.Time) bool {
	if now.Sub(a.used) < accountTTL { // guarded by the other account's lock
		return false
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.active == 0 && now.After(a.blocked)
}

// busyRetry is the delay of a request that waits for one of the others.
const busyRetry = 100 * time.Millisecond

// Acquire permits one request, which ends with [Account.Release], or returns the time after which to try again.
func (a *Account) Acquire(now time.Time) time.Duration {
	if a == nil {
		return 0
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if wait := a.blocked.Sub(now); wait > 0 {
		return wait
	}
	limit := a.MaxConcurrent
	if limit == 0 {
		limit = 4
	}
	if a.active >= limit {
		return busyRetry
	}
	if a.PerSecond > 0 {
		if a.limiter == nil {
			a.limiter = rate.NewLimiter(rate.Limit(a.PerSecond), max(a.Burst, 1))
		}
		r := a.limiter.ReserveN(now, 1)
		if wait := r.DelayFrom(now); wait > 0 {
			r.CancelAt(now)
			return wait
		}
	}
	a.active++
	return 0
}

// Release ends a request. No further one is permitted before a delay that the remote API has requested has passed.
func (a *Account) Release(now time.Time, err error) {
	if a == nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.active--
	if d, ok := Delay(err); ok && d > 0 && now.Add(d).After(a.blocked) {
		a.blocked = now.Add(d)
	}
}

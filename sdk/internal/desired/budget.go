package desired

import (
	"time"
)

// Budget limits the writes and the time of one reconcile. Without a limit an object with thousands of children would
// delay events of its own and the progress in its status until the last child is written.
type Budget struct {
	began  time.Time
	writes int
	Spent  bool
}

// A reconcile ends after minBudgetTime, but not before minWrites, so that a slow API server does not cause more reconciles.
const (
	minBudgetTime = 5 * time.Second
	minWrites     = 100
)

// Exhausted reports whether the remaining work is left to the next reconcile. It is checked before each write.
func (b *Budget) Exhausted() bool {
	if b.began.IsZero() {
		b.began = time.Now()
	}
	b.Spent = b.Spent || b.writes >= minWrites && time.Since(b.began) > minBudgetTime
	return b.Spent
}

// Count counts a write and returns did.
func (b *Budget) Count(did bool) bool {
	if did {
		b.writes++
	}
	return did
}

package external

import (
	"context"
	"testing"
	"time"
)

// Each account has the limits for itself, and is forgotten when they have no effect any more.
func TestAccounts(t *testing.T) {
	t.Parallel()
	all, now := &Account{PerSecond: 1, MaxConcurrent: 1}, time.Now()
	one, two := all.For("one", now), all.For("two", now)
	if all.For("", now) != all || all.For("one", now) != one {
		t.Error("an identifier does not have one account")
	}
	for _, a := range []*Account{one, two} {
		if wait := a.Acquire(now); wait != 0 {
			t.Errorf("the first request waits for %v", wait)
		}
	}
	one.Release(now, nil)
	if wait := one.Acquire(now); wait == 0 {
		t.Error("the second request of a second does not wait")
	}
	now = now.Add(2 * accountTTL)
	all.For("three", now)
	if all.For("one", now) == one {
		t.Error("an account without requests is kept")
	}
	if all.For("two", now) != two {
		t.Error("an account with a request is forgotten")
	}
	if (*Account)(nil).For("one", now) != nil {
		t.Error("a kind without limits has an account")
	}
}

func TestClient(t *testing.T) {
	t.Parallel()
	ctx := WithClient(t.Context(), 7)
	if n, err := Client[int](ctx); n != 7 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	for _, ctx := range []context.Context{t.Context(), ctx} {
		if _, err := Client[string](ctx); err == nil {
			t.Error("there is a client of another type")
		}
	}
}

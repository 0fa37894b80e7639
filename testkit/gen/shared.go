package gen

import (
	"context"
	"sync"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/homeostat-dev/homeostat/testkit/internal/explore"
)

// watchers watch one API server each, on behalf of all tests that run at the same time: each of them would otherwise be told
// of everything that happens in the namespaces of all others.
var watchers struct {
	mu    sync.Mutex
	users map[string]int // by the API server's address
	all   map[string]*explore.Explorer
}

// watcher returns the one for an API server, which ends with the last test that uses it.
func watcher(t testing.TB, cfg *rest.Config) (*explore.Explorer, error) {
	t.Helper()
	w := &watchers
	w.mu.Lock()
	defer w.mu.Unlock()
	x := w.all[cfg.Host]
	if x == nil {
		var err error
		ctx := context.Background() //nolint:usetesting // others may need it longer than the test that is first
		if x, err = explore.New(ctx, rest.CopyConfig(cfg), explore.Options{}); err != nil {
			return nil, err
		}
		if w.all == nil {
			w.all, w.users = map[string]*explore.Explorer{}, map[string]int{}
		}
		w.all[cfg.Host] = x
	}
	w.users[cfg.Host]++
	t.Cleanup(func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.users[cfg.Host]--; w.users[cfg.Host] == 0 {
			delete(w.all, cfg.Host)
			x.Close()
		}
	})
	return x, nil
}

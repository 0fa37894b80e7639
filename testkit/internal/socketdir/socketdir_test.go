package socketdir

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/homeostat-dev/homeostat/testkit/internal/process"
)

func newRoot(t *testing.T) Root {
	t.Helper()
	dir, err := os.MkdirTemp("", "tk") //nolint:usetesting // the paths of sockets have to be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return Root(filepath.Join(dir, "root"))
}

// The lock is exclusive although every holder removes it, with its folder, before the release.
func TestLockSurvivesItsRemoval(t *testing.T) {
	t.Parallel()
	p := newRoot(t).Dir("x")
	var inside, total atomic.Int32
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			for range 20 {
				unlock, err := p.Lock(t.Context())
				if err != nil {
					t.Error(err)
					return
				}
				if n := inside.Add(1); n != 1 {
					t.Errorf("%d hold the lock", n)
				}
				total.Add(1)
				inside.Add(-1)
				if err := p.Remove(); err != nil {
					t.Error(err)
				}
				unlock()
			}
		})
	}
	wg.Wait()
	if n := total.Load(); n != 400 {
		t.Errorf("the lock was held %d times, want 400", n)
	}
}

func TestLockEndsWithItsContext(t *testing.T) {
	t.Parallel()
	p := newRoot(t).Dir("x")
	unlock, err := p.Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer unlock()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := p.Lock(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v", err)
	}
}

func TestSweep(t *testing.T) {
	t.Parallel()
	root := newRoot(t)
	alive, dead, dying, starting := root.Dir("alive"), root.Dir("dead"), root.Dir("dying"), root.Dir("starting")
	for _, p := range []Dir{alive, dead, dying, starting} {
		owner, err := process.Self()
		if err != nil {
			t.Fatal(err)
		}
		if p != alive {
			owner.Start = "at another time" // it has ended, and another process has its pid
		}
		unlock, err := p.Lock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		l, err := p.Listen()
		if err != nil {
			t.Fatal(err)
		}
		data := filepath.Join(filepath.Dir(string(root)), p.key)
		if err := errors.Join(os.Mkdir(data, 0o700), p.WriteState(State{Data: data, Owner: owner})); err != nil {
			t.Fatal(err)
		}
		l.SetUnlinkOnClose(false) // as when its process is killed
		switch p {
		case alive, dying: // a dying process loses its socket last
			defer func() { _ = l.Close() }()
			unlock()
		case starting:
			_ = l.Close()
			defer unlock()
		default:
			_ = l.Close()
			unlock()
		}
	}
	root.RemoveStale()
	for p, want := range map[Dir]bool{alive: true, dead: false, dying: false, starting: true} {
		for _, name := range []string{p.Path(), filepath.Join(filepath.Dir(string(root)), p.key), p.lockFile()} {
			if _, err := os.Stat(name); (err == nil) != want {
				t.Errorf("%s: exists %v, want %v", name, err == nil, want)
			}
		}
	}
}

func TestForeignRoot(t *testing.T) {
	t.Parallel()
	root := newRoot(t)
	if err := os.Mkdir(string(root), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(string(root), 0o777); err != nil {
		t.Fatal(err)
	}
	_, err := root.Dir("x").Lock(t.Context())
	if err == nil || !strings.Contains(err.Error(), "must be a folder that only you can enter") {
		t.Errorf("%v", err)
	}
}

package testkit

import (
	"sync"
	"testing"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
)

// testLog sends an operator's log to its test, which shows it when the test fails or with -v. After close it is
// silent: a line that comes after the end of a test would make the testing package panic.
type testLog struct {
	mu     sync.Mutex
	t      testing.TB
	closed bool
}

func (l *testLog) logger() logr.Logger {
	return funcr.New(func(prefix, args string) {
		l.mu.Lock()
		defer l.mu.Unlock()
		if !l.closed {
			l.t.Logf("%s %s", prefix, args)
		}
	}, funcr.Options{})
}

func (l *testLog) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
}

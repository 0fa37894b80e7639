package conformance

import (
	"slices"
	"strings"
	"sync"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
)

// maxErrors is the maximal number of log lines in a violation.
const maxErrors = 3

// errorLog keeps the last errors in the log of a replica. They usually explain why it does not reconcile.
type errorLog struct {
	mu    sync.Mutex
	lines []string
}

func (l *errorLog) logger() logr.Logger {
	return funcr.New(func(_, line string) {
		l.mu.Lock()
		defer l.mu.Unlock()
		if !strings.Contains(line, `"error"=`) || slices.Contains(l.lines, line) {
			return
		}
		l.lines = append(l.lines, line)
		l.lines = l.lines[max(0, len(l.lines)-maxErrors):]
	}, funcr.Options{})
}

// String returns the lines, or "" without errors.
func (l *errorLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Join(l.lines, "; ")
}

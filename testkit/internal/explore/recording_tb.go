package explore

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// recordingTB is the testing.TB of one run. It records failures: a failed run is a finding, not a failure of the
// exploring test.
type recordingTB struct {
	testing.TB // nil: methods that are not overridden below must not be called

	name   string
	ctx    context.Context //nolint:containedctx // testing.TB.Context returns it
	cancel context.CancelFunc

	mu       sync.Mutex
	failures []string
	skipped  string
	lines    []line
	cleanups []func()
	failed   bool
	muted    bool
}

// line is one line of the operator's log.
type line struct {
	at   time.Time
	text string
}

func newRecordingTB(ctx context.Context, name string) *recordingTB {
	p := &recordingTB{name: name}
	p.ctx, p.cancel = context.WithCancel(context.WithValue(ctx, recordingTBKey{}, p))
	return p
}

// runIsolated runs f in a goroutine of its own, because FailNow ends its goroutine.
func (tb *recordingTB) runIsolated(f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	<-done
}

// close runs the cleanups, last first.
func (tb *recordingTB) close() {
	tb.cancel()
	for {
		tb.mu.Lock()
		n := len(tb.cleanups)
		if n == 0 {
			tb.mu.Unlock()
			return
		}
		f := tb.cleanups[n-1]
		tb.cleanups = tb.cleanups[:n-1]
		tb.mu.Unlock()
		tb.runIsolated(f)
	}
}

func (tb *recordingTB) fail(message string) {
	tb.mu.Lock()
	defer tb.mu.Unlock()
	if tb.muted {
		return
	}
	tb.failed = true
	tb.failures = append(tb.failures, strings.TrimSpace(message))
}

// mute drops all later reports.
func (tb *recordingTB) mute() {
	tb.mu.Lock()
	defer tb.mu.Unlock()
	tb.muted = true
}

// reportedFailures returns the failures so far.
func (tb *recordingTB) reportedFailures() []string {
	tb.mu.Lock()
	defer tb.mu.Unlock()
	return slices.Clone(tb.failures)
}

func (tb *recordingTB) log() []line {
	tb.mu.Lock()
	defer tb.mu.Unlock()
	return slices.Clone(tb.lines)
}

// Explored keeps package testkit from recording and checking the operator, which this package does itself.
func (tb *recordingTB) Explored() {}

func (tb *recordingTB) Name() string             { return tb.name }
func (tb *recordingTB) Helper()                  {}
func (tb *recordingTB) Context() context.Context { return tb.ctx }

func (tb *recordingTB) Cleanup(f func()) {
	tb.mu.Lock()
	defer tb.mu.Unlock()
	tb.cleanups = append(tb.cleanups, f)
}

func (tb *recordingTB) Failed() bool {
	tb.mu.Lock()
	defer tb.mu.Unlock()
	return tb.failed
}

func (tb *recordingTB) Fail()                     { tb.fail("it failed") }
func (tb *recordingTB) FailNow()                  { tb.Fail(); runtime.Goexit() }
func (tb *recordingTB) Error(a ...any)            { tb.fail(fmt.Sprintln(a...)) }
func (tb *recordingTB) Errorf(f string, a ...any) { tb.fail(fmt.Sprintf(f, a...)) }
func (tb *recordingTB) Fatal(a ...any)            { tb.fail(fmt.Sprintln(a...)); runtime.Goexit() }
func (tb *recordingTB) Fatalf(f string, a ...any) { tb.fail(fmt.Sprintf(f, a...)); runtime.Goexit() }

func (tb *recordingTB) Log(a ...any)            { tb.note(fmt.Sprintln(a...)) }
func (tb *recordingTB) Logf(f string, a ...any) { tb.note(fmt.Sprintf(f, a...)) }

func (tb *recordingTB) note(text string) { tb.addLine(time.Now(), strings.TrimSpace(text)) }

// addLine adds a line to the operator's log.
func (tb *recordingTB) addLine(at time.Time, text string) {
	tb.mu.Lock()
	defer tb.mu.Unlock()
	tb.lines = append(tb.lines, line{at, text})
}

func (tb *recordingTB) Skip(a ...any)            { tb.skip(fmt.Sprintln(a...)) }
func (tb *recordingTB) Skipf(f string, a ...any) { tb.skip(fmt.Sprintf(f, a...)) }
func (tb *recordingTB) SkipNow()                 { tb.skip("it was skipped") }

func (tb *recordingTB) skip(why string) {
	tb.mu.Lock()
	tb.skipped = strings.TrimSpace(why)
	tb.mu.Unlock()
	runtime.Goexit()
}

func (tb *recordingTB) Skipped() bool {
	tb.mu.Lock()
	defer tb.mu.Unlock()
	return tb.skipped != ""
}

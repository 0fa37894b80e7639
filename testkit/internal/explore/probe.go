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

// probe is the testing.TB of one run. A run that fails is a finding and not a failure of the test that explores, so what
// is reported here is only kept.
type probe struct {
	testing.TB // nil: what is not overridden below must not be called

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

func newProbe(ctx context.Context, name string) *probe {
	p := &probe{name: name}
	p.ctx, p.cancel = context.WithCancel(context.WithValue(ctx, probeKey{}, p))
	return p
}

// do runs f in a goroutine of its own, because whatever fails ends that goroutine.
func (p *probe) do(f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	<-done
}

// close runs the cleanups, last first.
func (p *probe) close() {
	p.cancel()
	for {
		p.mu.Lock()
		n := len(p.cleanups)
		if n == 0 {
			p.mu.Unlock()
			return
		}
		f := p.cleanups[n-1]
		p.cleanups = p.cleanups[:n-1]
		p.mu.Unlock()
		p.do(f)
	}
}

func (p *probe) fail(message string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.muted {
		return
	}
	p.failed = true
	p.failures = append(p.failures, strings.TrimSpace(message))
}

// mute makes the probe forget what is reported from now on.
func (p *probe) mute() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.muted = true
}

// taken returns what was reported as failures so far.
func (p *probe) taken() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.failures)
}

func (p *probe) log() []line {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.lines)
}

// Explored keeps testkit from recording and judging once more what is recorded and judged here.
func (p *probe) Explored() {}

func (p *probe) Name() string             { return p.name }
func (p *probe) Helper()                  {}
func (p *probe) Context() context.Context { return p.ctx }

func (p *probe) Cleanup(f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cleanups = append(p.cleanups, f)
}

func (p *probe) Failed() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.failed
}

func (p *probe) Fail()                     { p.fail("it failed") }
func (p *probe) FailNow()                  { p.Fail(); runtime.Goexit() }
func (p *probe) Error(a ...any)            { p.fail(fmt.Sprintln(a...)) }
func (p *probe) Errorf(f string, a ...any) { p.fail(fmt.Sprintf(f, a...)) }
func (p *probe) Fatal(a ...any)            { p.fail(fmt.Sprintln(a...)); runtime.Goexit() }
func (p *probe) Fatalf(f string, a ...any) { p.fail(fmt.Sprintf(f, a...)); runtime.Goexit() }

func (p *probe) Log(a ...any)            { p.note(fmt.Sprintln(a...)) }
func (p *probe) Logf(f string, a ...any) { p.note(fmt.Sprintf(f, a...)) }

func (p *probe) note(text string) { p.enter(time.Now(), strings.TrimSpace(text)) }

// enter adds a line of the operator's log.
func (p *probe) enter(at time.Time, text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lines = append(p.lines, line{at, text})
}

func (p *probe) Skip(a ...any)            { p.skip(fmt.Sprintln(a...)) }
func (p *probe) Skipf(f string, a ...any) { p.skip(fmt.Sprintf(f, a...)) }
func (p *probe) SkipNow()                 { p.skip("it was skipped") }

func (p *probe) skip(why string) {
	p.mu.Lock()
	p.skipped = strings.TrimSpace(why)
	p.mu.Unlock()
	runtime.Goexit()
}

func (p *probe) Skipped() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.skipped != ""
}

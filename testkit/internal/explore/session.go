package explore

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/homeostat-dev/homeostat/testkit"
	"github.com/homeostat-dev/homeostat/testkit/internal/history"
	"github.com/homeostat-dev/homeostat/testkit/internal/report"
	"github.com/homeostat-dev/homeostat/testkit/internal/state"
	"github.com/homeostat-dev/homeostat/testkit/internal/wire"
)

// A Session is an operator at work in a namespace of its own, without a fault, while its user decides from step to step what
// happens to it. It is for explorations of what users do instead of what goes wrong. It must not be used concurrently.
type Session struct {
	// Answered reports whether what the operator says is about the last step. It need not be: after a while of silence it does
	// not matter. Optional.
	Answered func() bool

	run *run
	x   *Explorer // of this session alone: its steps are those that were made so far
}

// Open starts a session, in which there is nothing yet but what Setup made and the operator. An error is one of the
// machinery; what the operator does wrong is told by Violations. Close it in either case.
func (x *Explorer) Open(ctx context.Context, name string) (*Session, error) {
	own := *x
	own.Steps = nil
	s := &Session{x: &own}
	s.run = own.newRun(ctx, &plan{name: name, fault: "none", always: true, uncount: true, orderly: true}, nil)
	r := s.run
	r.probe.do(func() {
		r.k = testkit.New(r.probe, testkit.Through(func(next http.RoundTripper) http.RoundTripper {
			return r.user.Transport(0, next)
		}))
		r.k.Timeout = own.Patience
		r.log = own.historian.Follow(r.k.Namespace)
		if own.Setup != nil {
			own.Setup(r.k)
		}
		r.before = r.log.Changes()
		r.wire.Enter(0)
		r.start()
	})
	return s, s.err()
}

// err is what keeps the session from going on.
func (s *Session) err() error {
	if s.run.broken != nil {
		return s.run.broken
	}
	if failures := s.run.probe.taken(); len(failures) > 0 {
		return fmt.Errorf("in the namespace for %s: %s", s.run.plan.name, failures[0])
	}
	if err := s.run.probe.ctx.Err(); err != nil {
		return fmt.Errorf("in the namespace for %s: %w", s.run.plan.name, err)
	}
	return nil
}

// K is what acts in the session's namespace as the user. Its methods that fail a test must only be called within Do.
func (s *Session) K() *testkit.K { return s.run.k }

// Do makes a step.
func (s *Session) Do(name string, step func(k *testkit.K)) error {
	s.x.Steps = append(s.x.Steps, Step{Name: name, Do: step})
	s.run.wire.Enter(len(s.x.Steps))
	s.run.say(name)
	s.run.probe.do(func() { step(s.run.k) })
	s.run.wire.Touch()
	return s.err()
}

// Rest waits until for the given time the operator has written nothing, heard of nothing and nothing has changed, and its
// status is true. It returns what is wrong if that does not come to pass within the explorer's patience.
//
// A request that the server refused is one that the operator may repeat, later and later, until the user corrects what leads
// to it. After one, a pause of any length counts, and what the status says does not matter.
func (s *Session) Rest(quiet time.Duration) (*report.Violation, error) {
	r, step := s.run, len(s.x.Steps)-1
	ctx, cancel := context.WithTimeout(r.k.Context(), s.x.Patience)
	defer cancel()
	for {
		refused := len(s.Refused()) > 0
		enough := quiet
		if refused {
			enough = min(quiet, lastGuard)
		}
		rests := r.sawCreations() && r.still(ctx, enough, s.idle)
		if rests && (refused || r.untrue(step) == nil) {
			return nil, s.err()
		}
		select {
		case <-time.After(guard / 3): //nolint:mnd // often enough
		case <-ctx.Done():
			if err := s.err(); err != nil {
				return nil, err
			}
			if lie := r.untrue(step); rests && lie != nil {
				return lie, nil
			}
			return &report.Violation{
				Oracle: oracleAtRest, Detail: r.lastWrites(8), //nolint:mnd // enough to see what repeats itself
				Message: fmt.Sprintf("%s the operator still writes, %v later: it never comes to rest", r.after(step), s.x.Patience),
			}, nil
		}
	}
}

// idle is for how long nothing has happened. While the operator has not heard of everything that has, or has not answered,
// that only counts after a while: it may have asked to be told of some objects of a kind only.
func (s *Session) idle() (time.Duration, bool) {
	const deaf = time.Second
	busy, idle := s.run.wire.Busy()
	idle = min(idle, s.run.unchanged())
	return idle, !busy && (idle >= deaf || s.heard() && (s.Answered == nil || s.Answered()))
}

// heard reports whether the operator was told the last state of each object that has changed, if it watches the kind.
func (s *Session) heard() bool {
	r := s.run
	told := map[wire.Frame]bool{}
	kinds := map[wire.Kind]bool{}
	for _, f := range r.wire.Frames() {
		told[wire.Frame{Kind: f.Kind, Name: f.Name, Version: f.Version}] = true
	}
	for number := range r.running() {
		for _, kind := range r.wire.Opened(number) {
			kinds[kind] = true
		}
	}
	last := map[types.UID]history.Change{}
	for _, c := range r.log.Changes()[len(r.before):] {
		last[c.Object.GetUID()] = c
	}
	for _, c := range last {
		f := wire.Frame{Kind: kindOf(c), Name: c.Object.GetName(), Version: c.Object.GetResourceVersion()}
		if kinds[f.Kind] && !told[f] {
			return false
		}
	}
	return true
}

// Refused are the operator's requests of the last step that the server refused because of what they say.
func (s *Session) Refused() []wire.Call {
	var all []wire.Call
	for _, c := range s.run.wire.Calls() {
		if c.Step == len(s.x.Steps) && c.Reached && c.Writes() && !s.run.isStale(c) {
			switch c.Code {
			case http.StatusBadRequest, http.StatusMethodNotAllowed, http.StatusRequestEntityTooLarge,
				http.StatusUnsupportedMediaType, http.StatusUnprocessableEntity:
				all = append(all, c)
			}
		}
	}
	return all
}

// State is what the namespace amounts to now. Of a status it has what the conditions say, because the rest may rightly
// tell of what happened.
func (s *Session) State() state.State { return s.run.state() }

// Current are the objects that exist.
func (s *Session) Current() []history.Change { return s.run.log.Current() }

// Changed is closed when something has changed in the namespace.
func (s *Session) Changed() <-chan struct{} { return s.run.log.Changed() }

// End deletes the custom resources and waits until nothing is left that has to go.
func (s *Session) End() error {
	s.run.probe.do(s.run.tearDown)
	s.run.changes = s.run.snapshot()
	return s.err()
}

// Violations are what was wrong so far, but for refused requests, which may be the user's fault; see Refused.
func (s *Session) Violations() []report.Violation {
	r := s.run
	if r.k == nil || r.log == nil {
		return nil
	}
	r.changes = r.snapshot()
	r.judge()
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(r.violations), func(v report.Violation) bool { return v.Oracle == oracleRefused })
}

// Close stops the operator and tells what happened.
func (s *Session) Close() []report.Entry {
	r := s.run
	defer r.probe.close()
	for number, p := range r.running() {
		r.end(number, p.Stop)
	}
	if r.k != nil {
		s.x.historian.Leave(r.k.Namespace)
	}
	r.changes = r.snapshot()
	return r.timeline()
}

// Calls are the operator's requests so far.
func (s *Session) Calls() []wire.Call { return s.run.wire.Calls() }

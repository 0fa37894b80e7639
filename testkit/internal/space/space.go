// Package space provides the namespace of one run: the user's access to it, and a record of log lines and failures.
//
// It depends on no test framework. The owner of the run opens and closes a space; an [Opener] creates the namespace.
package space

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/homeostat-dev/homeostat/testkit/internal/external"
	"github.com/homeostat-dev/homeostat/testkit/internal/podplane"
	"github.com/homeostat-dev/homeostat/testkit/internal/webhookconfig"
)

// ErrFailed is returned by functions that have reported a failure with [Space.Fail] already.
var ErrFailed = errors.New("the failure was reported")

// An Opener creates the namespace of a space and sets the exported fields. All requests of the client must pass transport.
// An error is one of the test infrastructure, unless it is [ErrFailed].
type Opener func(s *Space, transport func(http.RoundTripper) http.RoundTripper) error

// Space is the namespace of one run. Its methods are safe for concurrent use.
type Space struct {
	// Name is the name of the run.
	Name string
	// Timeout limits the waits of steps.
	Timeout time.Duration
	// Namespace is the name of the namespace. It is set by the opener, as are the fields below.
	Namespace string
	// Config is the client configuration of the user, who has all permissions.
	Config *rest.Config
	// Client is the client of the user.
	Client client.WithWatch
	// Pods breaks pods. It is nil if no node runs pods.
	Pods podplane.Plane
	// Handle is for the opener's own use.
	Handle any
	// AddExternal receives each HTTP service that the operator uses beside the API server. It is set before the space is
	// opened.
	AddExternal func(*external.Service)

	ctx    context.Context //nolint:containedctx // it ends with the run, not with a call
	cancel context.CancelFunc

	mu       sync.Mutex
	webhooks *webhookconfig.Gate // nil without webhooks
	failures []string
	lines    []Line
	cleanups []func()
	failed   bool
	muted    bool
}

// Line is one line of the operator's log.
type Line struct {
	At   time.Time
	Text string
}

// New returns a space without a namespace.
func New(ctx context.Context, name string) *Space {
	s := &Space{Name: name}
	s.ctx, s.cancel = context.WithCancel(ctx)
	return s
}

// IsOpen reports whether an opener has created the namespace.
func (s *Space) IsOpen() bool { return s.Client != nil }

// Context returns the context of the run.
func (s *Space) Context() context.Context { return s.ctx }

// SetWebhooks adds the webhooks of the run.
func (s *Space) SetWebhooks(gate *webhookconfig.Gate) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.webhooks = gate
}

// Webhooks returns the webhooks of the run, or nil.
func (s *Space) Webhooks() *webhookconfig.Gate {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.webhooks
}

// Cancel ends the context of the run.
func (s *Space) Cancel() { s.cancel() }

// Close ends the context and runs the cleanups, last first.
func (s *Space) Close() {
	s.cancel()
	for {
		s.mu.Lock()
		n := len(s.cleanups)
		if n == 0 {
			s.mu.Unlock()
			return
		}
		f := s.cleanups[n-1]
		s.cleanups = s.cleanups[:n-1]
		s.mu.Unlock()
		isolate(f)
	}
}

// isolate runs f in a goroutine of its own, because a test's failure ends its goroutine.
func isolate(f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	<-done
}

// Cleanup registers a function for Close.
func (s *Space) Cleanup(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cleanups = append(s.cleanups, f)
}

// Fail reports a failure of the scenario. It does nothing after Mute.
func (s *Space) Fail(message string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.muted {
		return
	}
	s.failed = true
	s.failures = append(s.failures, strings.TrimSpace(message))
}

// Check reports err as a failure, unless it is nil or reported already, or the run has ended. It reports whether err is
// nil.
func (s *Space) Check(err error) bool {
	if err != nil && !errors.Is(err, ErrFailed) && s.ctx.Err() == nil {
		s.Fail(err.Error())
	}
	return err == nil
}

// Mute drops all later failures.
func (s *Space) Mute() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.muted = true
}

// Failed reports whether there is a failure.
func (s *Space) Failed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.failed
}

// Failures returns the failures so far.
func (s *Space) Failures() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.failures)
}

// Log adds a line to the operator's log.
func (s *Space) Log(at time.Time, text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lines = append(s.lines, Line{At: at, Text: text})
}

// Lines returns the operator's log so far.
func (s *Space) Lines() []Line {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.lines)
}

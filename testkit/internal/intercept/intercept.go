// Package intercept records all requests of an operator, whether it is a manager in this process or a program behind a
// proxy. Hooks may delay, answer or lose a request.
//
// The package does not know faults or oracles: a hook decides on the outcome of a request, and the record contains it.
package intercept

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/homeostat-dev/homeostat/testkit/recorder"
)

// Call is one request and its outcome. A hook may read it and must not retain it.
type Call struct {
	recorder.Request

	// Process is the number of the operator's process, from 1.
	Process int
	// Step is the step of the scenario at the time of sending, see [Interceptor.Enter].
	Step int
	// Began and Ended are durations since the creation of the interceptor.
	Began, Ended time.Duration
	// Sent is the body of a write, or nil if it is longer than [maxBody].
	Sent []byte
	// UID, Version and Generation are those of the object in the response to a write. Received is the whole object.
	UID, Version string
	Generation   int64
	Received     []byte
	// Reason, Message and Causes describe a rejection. Causes holds the type of each cause.
	Reason, Message string
	Causes          []string
	// Lost describes why the sender got no response, or none from the server, if a fault was injected.
	Lost string
	// Target is set by a hook in Before, to recognize the call in After.
	Target string
	// Reached is true if the response is that of the API server.
	Reached bool
	// Late is true for a write of a process that was paused before, see [Interceptor.Pause].
	Late bool

	first bool // the process has not sent this read before
}

// Hook acts on requests. It must be safe for concurrent use.
type Hook interface {
	// Before runs before the request is sent. A returned response or error is the outcome, and the server never receives the
	// request. Before may block until the context of req ends.
	Before(req *http.Request, call *Call) (*http.Response, error)
	// After runs when the server has responded. Its result is returned to the sender. It must close a body that it drops.
	After(req *http.Request, call *Call, resp *http.Response) (*http.Response, error)
}

// Interceptor records the requests that pass its transports. It is safe for concurrent use.
type Interceptor struct {
	// Foreign reports whether an event is about an object of another operator. Such an event is forwarded and not recorded.
	// Optional. It must be set before the first request, and must be safe for concurrent use.
	Foreign func(Frame) bool
	// Hidden reports whether an object is not visible to the operator: no list and no watch of all namespaces, or of a
	// cluster-scoped kind, has it. Optional. It must be set before the first request, and must be safe for concurrent use.
	Hidden func(kind GroupResource, namespace, name string) bool
	// Reconciling reports whether a process other than the paused one, which may be 0, is known to be reconciling. Optional. It
	// must be set before the first request, and must be safe for concurrent use.
	Reconciling func(paused int) bool

	began      time.Time
	hook       Hook
	recordOnly bool // see Record

	mu           sync.Mutex
	calls        []*Call
	running      int // pending requests except leader election; a watch is pending until its response begins
	lastActivity time.Time
	asked        map[question]bool // reads of each process
	step         int
	disconnected map[int]bool // processes that may not send requests
	obstruct     Obstruction  // nil if there is none
	obstructed   int          // number of requests that it answered or delayed
	pause        *pause       // nil if none was paused
	holds        map[GroupResource]*eventHold
	streams      map[*stream]struct{}
	frames       []Frame
}

// GroupResource is a resource in a group, for example {"apps", "deployments"}.
type GroupResource struct{ Group, Resource string }

// String returns, for example, "deployments.apps".
func (k GroupResource) String() string {
	if k.Group == "" {
		return k.Resource
	}
	return k.Resource + "." + k.Group
}

// GroupResourceOf returns the group and the resource of a request.
func GroupResourceOf(r recorder.Request) GroupResource { return GroupResource{r.Group, r.Resource} }

// New returns an interceptor with a hook, or without one if hook is nil.
func New(hook Hook) *Interceptor {
	now := time.Now()
	return &Interceptor{
		began: now, lastActivity: now, hook: hook, asked: map[question]bool{},
		disconnected: map[int]bool{}, holds: map[GroupResource]*eventHold{}, streams: map[*stream]struct{}{},
	}
}

// Record returns a cheap interceptor without a hook. It does not intercept watches, so they cannot be inspected or held.
// It drops the bodies of successful requests.
func Record() *Interceptor {
	w := New(nil)
	w.recordOnly = true
	return w
}

// Began returns the creation time, the origin of all durations.
func (ic *Interceptor) Began() time.Time { return ic.began }

// Transport returns a transport for one process of the operator that sends requests by next. A request that passes
// several interceptors, because a configuration is shared, is recorded by the first.
func (ic *Interceptor) Transport(process int, next http.RoundTripper) http.RoundTripper {
	return &transport{interceptor: ic, process: process, next: next}
}

// ErrDisconnected is the error of each request of a killed process, except for Events: see [Disconnected].
var ErrDisconnected = errors.New("the operator was killed")

// Disconnect rejects further requests of a process and ends its watches. The server completes pending requests.
func (ic *Interceptor) Disconnect(process int) {
	ic.mu.Lock()
	ic.disconnected[process] = true
	ic.endPause(process)
	var broken []*stream
	for s := range ic.streams {
		if s.process == process {
			broken = append(broken, s)
		}
	}
	ic.mu.Unlock()
	for _, s := range broken {
		s.terminate(nil, nil)
	}
}

// IsDisconnected reports whether Disconnect was called for a process.
func (ic *Interceptor) IsDisconnected(process int) bool {
	ic.mu.Lock()
	defer ic.mu.Unlock()
	return ic.disconnected[process]
}

// Enter sets the current step of the scenario.
func (ic *Interceptor) Enter(step int) {
	ic.mu.Lock()
	defer ic.mu.Unlock()
	ic.step = step
	ic.lastActivity = time.Now()
}

// Calls returns all requests so far, in the order of sending. Pending ones have no end.
func (ic *Interceptor) Calls() []Call {
	ic.mu.Lock()
	defer ic.mu.Unlock()
	calls := make([]Call, len(ic.calls))
	for i, c := range ic.calls {
		calls[i] = *c
	}
	return calls
}

// ResetIdleTime resets the idle time, before an event that the operator will receive.
func (ic *Interceptor) ResetIdleTime() {
	ic.mu.Lock()
	defer ic.mu.Unlock()
	ic.lastActivity = time.Now()
}

// IsLease reports whether the request belongs to a leader election.
func IsLease(r recorder.Request) bool {
	return r.Group == "coordination.k8s.io" && r.Resource == "leases"
}

type transport struct {
	interceptor *Interceptor
	process     int
	next        http.RoundTripper
}

// intercepted marks the context of a request that has passed an interceptor.
type intercepted struct{}

// RoundTrip implements http.RoundTripper.
func (t *transport) RoundTrip(req *http.Request) (*http.Response, error) {
	w := t.interceptor
	if req.Context().Value(intercepted{}) != nil {
		return t.next.RoundTrip(req)
	}
	if w.IsDisconnected(t.process) {
		return Disconnected(req)
	}
	req = req.Clone(context.WithValue(req.Context(), intercepted{}, true))
	AskForJSON(req.Header) // metadata clients accept protobuf regardless of their configuration
	call := &Call{Request: recorder.ParseRequest(req), Process: t.process}
	if call.IsWrite() || call.DryRun {
		if err := call.readBody(req); err != nil {
			return nil, err
		}
	}
	kept := w.begin(call)
	resp, err := w.send(req, call, t.next)
	if err == nil && call.Verb == "watch" && resp.StatusCode == http.StatusOK && !w.recordOnly {
		initial := req.URL.Query().Get("sendInitialEvents") == "true"
		resp.Body = w.stream(call, initial, resp.Body) // before the end of the request: Busy sees one of them
	}
	w.end(call, kept, resp)
	if w.IsDisconnected(t.process) { // disconnected while the request was pending
		if resp != nil {
			_ = resp.Body.Close()
		}
		return Disconnected(req)
	}
	return resp, err
}

func (ic *Interceptor) send(req *http.Request, call *Call, next http.RoundTripper) (*http.Response, error) {
	if resp, err := ic.obstruction(req, call); resp != nil || err != nil {
		if err != nil {
			call.Lost = err.Error()
			return nil, err
		}
		return resp, call.readResponse(resp)
	}
	if ic.hook != nil {
		resp, err := ic.hook.Before(req, call)
		if err != nil {
			call.Lost = err.Error()
			return nil, err
		}
		if resp != nil {
			return resp, call.readResponse(resp)
		}
	}
	req, err := ic.holdRequest(req, call)
	if err != nil {
		call.Lost = err.Error()
		return nil, err
	}
	resp, err := next.RoundTrip(req)
	if err != nil {
		call.Lost = err.Error()
		return nil, err
	}
	call.Reached = true
	if err := call.readResponse(resp); err != nil {
		return nil, err
	}
	if err := ic.hide(call, resp); err != nil {
		return nil, err
	}
	if ic.hook == nil {
		return resp, nil
	}
	resp, err = ic.hook.After(req, call, resp)
	if err != nil {
		call.Lost = err.Error()
	}
	return resp, err
}

// begin records a copy of the call, because the call changes until its end.
func (ic *Interceptor) begin(call *Call) (kept *Call) {
	ic.mu.Lock()
	defer ic.mu.Unlock()
	call.Began = time.Since(ic.began)
	call.Step = ic.step
	kept = new(*call)
	ic.calls = append(ic.calls, kept)
	ic.track(call, +1)
	return kept
}

func (ic *Interceptor) end(call, kept *Call, resp *http.Response) {
	ic.mu.Lock()
	defer ic.mu.Unlock()
	call.Ended = time.Since(ic.began)
	if resp != nil && !call.Reached {
		call.Code = resp.StatusCode
	}
	*kept = *call
	if ic.recordOnly && call.Code < http.StatusBadRequest {
		kept.Sent = nil
		kept.Received = nil
	}
	ic.track(call, -1)
}

func (ic *Interceptor) track(call *Call, delta int) {
	if !call.counts() {
		return
	}
	ic.running += delta
	if delta > 0 && !call.IsWrite() {
		q := question{call.Process, call.Request}
		call.first = !ic.asked[q]
		ic.asked[q] = true
	}
	if call.IsWrite() || call.first {
		ic.lastActivity = time.Now()
	}
}

// question identifies the reads that a process repeats.
type question struct {
	process int
	request recorder.Request
}

// counts reports whether a pending request is activity of the operator.
func (c *Call) counts() bool { return !IsLease(c.Request) }

// Opened returns the kinds that a process has listed or watched.
func (ic *Interceptor) Opened(process int) []GroupResource {
	return ic.requestedKinds(process, "list", "watch")
}

// Watched returns the kinds that a process has watched.
func (ic *Interceptor) Watched(process int) []GroupResource {
	return ic.requestedKinds(process, "watch")
}

func (ic *Interceptor) requestedKinds(process int, verbs ...string) []GroupResource {
	ic.mu.Lock()
	defer ic.mu.Unlock()
	var kinds []GroupResource
	for _, c := range ic.calls {
		asked := c.Process == process && slices.Contains(verbs, c.Verb) && c.Ended > 0
		if k := GroupResourceOf(c.Request); asked && !slices.Contains(kinds, k) {
			kinds = append(kinds, k)
		}
	}
	return kinds
}

// Idle waits until no request is pending, and for the quiet period there was neither a write nor a watch event.
func (ic *Interceptor) Idle(ctx context.Context, quiet time.Duration) error {
	for {
		running, idle := ic.Busy()
		if !running && idle >= quiet {
			return nil
		}
		wait := max(quiet-idle, time.Millisecond)
		if running {
			wait = min(wait, 5*time.Millisecond)
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return fmt.Errorf("waiting for %v without a write: %w", quiet, ctx.Err())
		}
	}
}

// Package wire is the one line through which all requests of an operator run, whether it is a manager in this process or
// a program behind a proxy. It keeps a record of them, and hooks may delay, answer or lose any of them.
//
// It knows nothing of faults or oracles: a hook decides what happens, a record tells what did.
package intercept

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/homeostat-dev/homeostat/testkit/recorder"
)

// Call is one request and what came of it. A hook may read it and must not keep it.
type Call struct {
	recorder.Request

	// Process says which incarnation of the operator sent it, counted from 1.
	Process int
	// Step is the step of the scenario during which it was sent, see [Interceptor.Enter].
	Step int
	// Began and Ended are the times since the wire was made.
	Began, Ended time.Duration
	// Sent is the body of a write, nil if it is longer than [maxBody].
	Sent []byte
	// UID, Version and Generation are the object's in the answer to a write, Received the whole object.
	UID, Version string
	Generation   int64
	Received     []byte
	// Reason, Message and Causes are those of a refusal; of its causes, the reasons.
	Reason, Message string
	Causes          []string
	// Lost says that the sender got no answer, or none from the server: an injected failure, in words.
	Lost string
	// Chosen is for a hook, to recognize in After what it chose in Before.
	Chosen bool
	// Reached says that the server carried the request out or refused it itself.
	Reached bool
}

// maxBody bounds what is kept of a request or an answer, in bytes.
const maxBody = 256 << 10

// Hook acts on requests. It is called from many goroutines at once.
type Hook interface {
	// Before runs before the request is sent. If it returns a response or an error, that is the answer and the server
	// never sees the request. It may block; it should end with the context of req.
	Before(req *http.Request, call *Call) (*http.Response, error)
	// After runs when the server has answered. Its result is what the sender gets. It must close a body that it drops.
	After(req *http.Request, call *Call, resp *http.Response) (*http.Response, error)
}

// Interceptor is a line and the record of what went over it. It is safe for concurrent use.
type Interceptor struct {
	// Foreign tells news that is no concern of this operator's, if it is not nil: it is handed on, and counts for nothing.
	// It is set before the line is used, and called from several goroutines.
	Foreign func(Frame) bool

	began      time.Time
	hook       Hook
	recordOnly bool // see Record

	mu           sync.Mutex
	calls        []*Call
	running      int // requests other than watches and leader election that are under way
	lastActivity time.Time
	step         int
	severed      map[int]bool // incarnations whose requests no longer leave
	gates        map[Kind]*gate
	streams      map[*stream]struct{}
	frames       []Frame
}

// Kind is a resource in a group, for example {"apps", "deployments"}.
type Kind struct{ Group, Resource string }

// String reads like "deployments.apps".
func (k Kind) String() string {
	if k.Group == "" {
		return k.Resource
	}
	return k.Resource + "." + k.Group
}

// KindOf is the kind that a request is about.
func KindOf(r recorder.Request) Kind { return Kind{r.Group, r.Resource} }

// New returns a line with a hook; nil means that everything passes.
func New(hook Hook) *Interceptor {
	now := time.Now()
	return &Interceptor{
		began: now, lastActivity: now, hook: hook,
		severed: map[int]bool{}, gates: map[Kind]*gate{}, streams: map[*stream]struct{}{},
	}
}

// Record returns a line without a hook that costs little: it leaves watches alone, so that they can be neither followed nor
// held, and keeps nothing of the bodies of what succeeded.
func Record() *Interceptor {
	w := New(nil)
	w.recordOnly = true
	return w
}

// Began is when the line was made: the zero of all its times.
func (ic *Interceptor) Began() time.Time { return ic.began }

// Transport puts the line between an incarnation of the operator and next. A request that comes over another line already,
// because somebody was given the configuration of somebody else, belongs to the first: the second lets it pass.
func (ic *Interceptor) Transport(process int, next http.RoundTripper) http.RoundTripper {
	return &transport{interceptor: ic, process: process, next: next}
}

// ErrSevered is what an incarnation that was killed gets for each request.
var ErrSevered = errors.New("the operator was killed")

// Sever lets no further request of an incarnation leave, and breaks its watches. What is under way goes on at the server.
func (ic *Interceptor) Sever(process int) {
	ic.mu.Lock()
	ic.severed[process] = true
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

// IsSevered reports whether an incarnation was cut off.
func (ic *Interceptor) IsSevered(process int) bool {
	ic.mu.Lock()
	defer ic.mu.Unlock()
	return ic.severed[process]
}

// Enter says that the scenario's step of that number begins.
func (ic *Interceptor) Enter(step int) {
	ic.mu.Lock()
	defer ic.mu.Unlock()
	ic.step = step
	ic.lastActivity = time.Now()
}

// Calls returns all requests that were sent so far, in the order of their sending. Those under way have no end.
func (ic *Interceptor) Calls() []Call {
	ic.mu.Lock()
	defer ic.mu.Unlock()
	calls := make([]Call, len(ic.calls))
	for i, c := range ic.calls {
		calls[i] = *c
	}
	return calls
}

// Busy reports whether a request is under way, watches and leader election apart, and for how long there has been
// neither a write nor news of a watch.
func (ic *Interceptor) Busy() (running bool, idle time.Duration) {
	ic.mu.Lock()
	defer ic.mu.Unlock()
	return ic.running > 0, time.Since(ic.lastActivity)
}

// Touch resets the idle time: something happened that the operator will hear of.
func (ic *Interceptor) Touch() {
	ic.mu.Lock()
	defer ic.mu.Unlock()
	ic.lastActivity = time.Now()
}

// IsLease reports whether the request is part of a leader election.
func IsLease(r recorder.Request) bool {
	return r.Group == "coordination.k8s.io" && r.Resource == "leases"
}

type transport struct {
	interceptor *Interceptor
	process     int
	next        http.RoundTripper
}

// intercepted marks the context of a request that is on a line.
type intercepted struct{}

// RoundTrip implements http.RoundTripper.
func (t *transport) RoundTrip(req *http.Request) (*http.Response, error) {
	w := t.interceptor
	if req.Context().Value(intercepted{}) != nil {
		return t.next.RoundTrip(req) //nolint:wrapcheck // a transport hands on what it gets
	}
	if w.IsSevered(t.process) {
		return nil, ErrSevered
	}
	req = req.Clone(context.WithValue(req.Context(), intercepted{}, true))
	AskForJSON(req.Header) // clients of metadata alone take protobuf, whatever their configuration says
	call := &Call{Request: recorder.Describe(req), Process: t.process}
	if call.Writes() || call.DryRun {
		if err := call.readBody(req); err != nil {
			return nil, err
		}
	}
	kept := w.begin(call)
	resp, err := w.send(req, call, t.next)
	w.end(call, kept, resp)
	if w.IsSevered(t.process) { // while it was under way: nobody is there to hear the answer
		if resp != nil {
			_ = resp.Body.Close()
		}
		return nil, ErrSevered
	}
	if err == nil && call.Verb == "watch" && resp.StatusCode == http.StatusOK && !w.recordOnly {
		resp.Body = w.stream(call, resp.Body)
	}
	return resp, err
}

func (ic *Interceptor) send(req *http.Request, call *Call, next http.RoundTripper) (*http.Response, error) {
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
	resp, err := next.RoundTrip(req)
	if err != nil {
		call.Lost = err.Error()
		return nil, err //nolint:wrapcheck // a transport hands on what it gets
	}
	call.Reached = true
	if err := call.readResponse(resp); err != nil {
		return nil, err
	}
	if ic.hook == nil {
		return resp, nil
	}
	resp, err = ic.hook.After(req, call, resp)
	if err != nil {
		call.Lost = err.Error()
	}
	return resp, err //nolint:wrapcheck // a transport hands on what it gets
}

// begin enters a copy of the call in the record, because the call itself goes on changing until it ends.
func (ic *Interceptor) begin(call *Call) (kept *Call) {
	ic.mu.Lock()
	defer ic.mu.Unlock()
	call.Began, call.Step = time.Since(ic.began), ic.step
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
		kept.Sent, kept.Received = nil, nil
	}
	ic.track(call, -1)
}

func (ic *Interceptor) track(call *Call, delta int) {
	if call.Verb == "watch" || IsLease(call.Request) {
		return
	}
	ic.running += delta
	if call.Writes() {
		ic.lastActivity = time.Now()
	}
}

// readBody keeps the body of a write and gives the request a new one.
func (c *Call) readBody(req *http.Request) error {
	if req.Body == nil {
		return nil
	}
	data, err := io.ReadAll(req.Body)
	_ = req.Body.Close()
	if err != nil {
		return fmt.Errorf("reading the body of a request: %w", err)
	}
	req.Body = io.NopCloser(bytes.NewReader(data))
	req.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(data)), nil }
	if len(data) <= maxBody {
		c.Sent = asJSON(data)
	}
	if c.Name == "" {
		c.Name = metadataOf(asJSON(data)).Name
	}
	return nil
}

// asJSON returns a body as JSON: Go programs send Kubernetes's own kinds as protobuf. What cannot be read stays as it is.
func asJSON(body []byte) []byte {
	if !bytes.HasPrefix(body, []byte("k8s\x00")) {
		return body
	}
	object, _, err := fromProtobuf.Decode(body, nil, nil)
	if err != nil {
		return body
	}
	data, err := json.Marshal(object)
	if err != nil {
		return body
	}
	return data
}

var fromProtobuf = protobuf.NewSerializer(scheme.Scheme, scheme.Scheme)

// readResponse takes from the answer to a write, or from a refusal, what the record needs, and gives it a new body.
func (c *Call) readResponse(resp *http.Response) error {
	c.Code = resp.StatusCode
	refused := resp.StatusCode >= http.StatusBadRequest
	if !refused && !c.Writes() || resp.Body == nil || resp.StatusCode == http.StatusSwitchingProtocols {
		return nil
	}
	data, err := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	if err != nil {
		return fmt.Errorf("reading the answer of the API server: %w", err)
	}
	resp.Body = io.NopCloser(bytes.NewReader(data))
	resp.ContentLength = int64(len(data))
	if refused {
		var status metav1.Status
		_ = json.Unmarshal(data, &status) // what is no Status has no reason
		c.Reason, c.Message = string(status.Reason), status.Message
		if status.Details != nil {
			for _, cause := range status.Details.Causes {
				c.Causes = append(c.Causes, string(cause.Type))
			}
		}
		return nil
	}
	m := metadataOf(data)
	c.UID, c.Version, c.Generation = m.UID, m.ResourceVersion, m.Generation
	if c.Name == "" {
		c.Name = m.Name
	}
	if len(data) <= maxBody {
		c.Received = data
	}
	return nil
}

type metadata struct {
	Name            string `json:"name"`
	UID             string `json:"uid"`
	ResourceVersion string `json:"resourceVersion"`
	Generation      int64  `json:"generation"`
}

func metadataOf(data []byte) metadata {
	var object struct {
		Metadata metadata `json:"metadata"`
	}
	_ = json.Unmarshal(data, &object) // other than JSON has no metadata that can be read
	return object.Metadata
}

// Opened returns the kinds of which an incarnation has asked for a list or a watch.
func (ic *Interceptor) Opened(process int) []Kind { return ic.requestedKinds(process, "list", "watch") }

// Watched returns the kinds that an incarnation has begun to watch.
func (ic *Interceptor) Watched(process int) []Kind { return ic.requestedKinds(process, "watch") }

func (ic *Interceptor) requestedKinds(process int, verbs ...string) []Kind {
	ic.mu.Lock()
	defer ic.mu.Unlock()
	var kinds []Kind
	for _, c := range ic.calls {
		asked := c.Process == process && slices.Contains(verbs, c.Verb) && c.Ended > 0
		if k := KindOf(c.Request); asked && !slices.Contains(kinds, k) {
			kinds = append(kinds, k)
		}
	}
	return kinds
}

// Idle waits until nothing is under way and for the given time there has been neither a write nor news of a watch.
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

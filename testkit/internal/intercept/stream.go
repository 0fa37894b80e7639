package intercept

import (
	"bufio"
	"encoding/json"
	"io"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Frame is one watch event as forwarded to the operator.
type Frame struct {
	Kind    GroupResource
	Process int
	At      time.Duration
	// Type is ADDED, MODIFIED, DELETED, BOOKMARK or ERROR.
	Type string
	// Namespace, Name, UID and Version are those of the object.
	Namespace, Name, UID, Version string
	// Step is the step of the scenario at the time of delivery, see [Interceptor.Enter].
	Step int
	// Initial means that the watch sends the object because it exists, in place of a list. Hold does not delay such an event.
	Initial bool
}

// bookmark is the type of an event without an object.
const bookmark = "BOOKMARK"

// Frames returns the watch events that were forwarded to the operator so far, except bookmarks and foreign events.
func (ic *Interceptor) Frames() []Frame {
	ic.mu.Lock()
	defer ic.mu.Unlock()
	return append([]Frame(nil), ic.frames...)
}

// eventHold delays the events of one kind until Release. It preserves the order within a stream.
type eventHold struct {
	released chan struct{} // closed by Release
	passes   func(Frame) bool
	held     int // number of delayed events
}

// Hold delays all further events of a kind, except those that pass. passes may be nil. Otherwise it is called several times
// for an event, because an event may precede the response to the write that caused it, and must be safe for concurrent use.
// A delayed event delays the later ones of its watch. Events in transit may still arrive.
func (ic *Interceptor) Hold(kind GroupResource, passes func(Frame) bool) {
	ic.mu.Lock()
	defer ic.mu.Unlock()
	if g, ok := ic.holds[kind]; ok {
		g.passes = passes
		return
	}
	ic.holds[kind] = &eventHold{released: make(chan struct{}), passes: passes}
}

// Held returns the number of events of a kind that are delayed, without the later ones of the same watches.
func (ic *Interceptor) Held(kind GroupResource) int {
	ic.mu.Lock()
	defer ic.mu.Unlock()
	if g, ok := ic.holds[kind]; ok {
		return g.held
	}
	return 0
}

// Watching returns the kinds that a process watches at the moment, without those whose events are delayed.
func (ic *Interceptor) Watching(process int) []GroupResource {
	ic.mu.Lock()
	defer ic.mu.Unlock()
	var kinds []GroupResource
	for s := range ic.streams {
		if s.process == process && ic.holds[s.kind] == nil && !slices.Contains(kinds, s.kind) {
			kinds = append(kinds, s.kind)
		}
	}
	return kinds
}

// Watches returns the number of open watches of a kind.
func (ic *Interceptor) Watches(kind GroupResource) int {
	ic.mu.Lock()
	defer ic.mu.Unlock()
	n := 0
	for s := range ic.streams {
		if s.kind == kind && !s.isBroken() {
			n++
		}
	}
	return n
}

// Release forwards the delayed events of a kind.
func (ic *Interceptor) Release(kind GroupResource) {
	ic.mu.Lock()
	defer ic.mu.Unlock()
	if g, ok := ic.holds[kind]; ok {
		close(g.released)
		delete(ic.holds, kind)
		ic.lastActivity = time.Now()
	}
}

// Expire ends all watches of a kind with the error that the API server sends for an expired resourceVersion. The client
// must list again and never sees the states in between. Delayed events are lost.
func (ic *Interceptor) Expire(kind GroupResource) int {
	const gone = `{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure",` +
		`"message":"too old resource version","reason":"Expired","code":410}}` + "\n"
	return ic.breakAll(kind, []byte(gone), nil)
}

// Close ends all watches of a kind without an error, as the API server regularly does. The next watch delivers delayed
// events.
func (ic *Interceptor) Close(kind GroupResource) int { return ic.breakAll(kind, nil, nil) }

// Break ends all watches of a kind as a lost connection does: within an event, with a read error. The next watch delivers
// delayed events.
func (ic *Interceptor) Break(kind GroupResource) int {
	return ic.breakAll(kind, nil, io.ErrUnexpectedEOF)
}

func (ic *Interceptor) breakAll(kind GroupResource, last []byte, cause error) int {
	ic.mu.Lock()
	var broken []*stream
	for s := range ic.streams {
		if s.kind == kind {
			broken = append(broken, s)
		}
	}
	ic.lastActivity = time.Now()
	ic.mu.Unlock()
	for _, s := range broken {
		s.terminate(last, cause)
	}
	ic.Release(kind)
	return len(broken)
}

// passAfter is the time after which a delayed event may turn out to pass.
const passAfter = 2 * time.Millisecond

// waitReleased waits until an event may be forwarded. It returns false if the stream was broken meanwhile.
func (ic *Interceptor) waitReleased(s *stream, f Frame, foreign bool) bool {
	var counted *eventHold
	for {
		ic.mu.Lock()
		g, held := ic.holds[s.kind]
		var passes func(Frame) bool
		if held {
			passes = g.passes
		}
		ic.mu.Unlock()
		if !held || foreign || f.Initial || f.Type == bookmark || passes != nil && passes(f) {
			ic.countHeld(counted, -1)
			return !s.isBroken()
		}
		if counted != g {
			ic.countHeld(g, +1)
			counted = g
		}
		var again <-chan time.Time
		if passes != nil {
			again = time.After(passAfter)
		}
		select {
		case <-g.released:
		case <-s.broken:
			return false
		case <-again:
		}
	}
}

// isBroken reports whether the stream was broken.
func (s *stream) isBroken() bool {
	select {
	case <-s.broken:
		return true
	default:
		return false
	}
}

func (ic *Interceptor) countHeld(g *eventHold, delta int) {
	if g == nil {
		return
	}
	ic.mu.Lock()
	defer ic.mu.Unlock()
	g.held += delta
}

// body is the body of a watch response. A closed body releases its stream, because client libraries leak goroutines that
// retain the body.
type body struct {
	*io.PipeReader
	stream atomic.Pointer[stream]
}

// Close implements io.Closer.
func (b *body) Close() error {
	if s := b.stream.Swap(nil); s != nil {
		s.terminate(nil, nil)
	}
	return b.PipeReader.Close()
}

// stream is one watch.
type stream struct {
	interceptor *Interceptor
	kind        GroupResource
	process     int
	wide        bool // of all namespaces, or of a cluster-scoped kind
	initial     bool // the watch sends the existing objects; guarded by the interceptor's mutex
	source      io.ReadCloser
	in          *io.PipeWriter
	broken      chan struct{}
	once        sync.Once
	last        []byte // sent before the end; set before broken is closed
	cause       error  // read error at the end, nil for io.EOF; set before broken is closed
}

// stream returns the body of a watch. initial means that the watch sends the existing objects first.
func (ic *Interceptor) stream(call *Call, initial bool, source io.ReadCloser) io.ReadCloser {
	s := &stream{
		interceptor: ic, kind: GroupResourceOf(call.Request), process: call.Process, wide: call.Namespace == "", initial: initial,
		source: source, broken: make(chan struct{}),
	}
	b := &body{}
	b.PipeReader, s.in = io.Pipe()
	b.stream.Store(s)
	ic.mu.Lock()
	ic.streams[s] = struct{}{}
	ic.mu.Unlock()
	go s.forward()
	return b
}

func (s *stream) terminate(last []byte, cause error) {
	s.once.Do(func() {
		s.last = last
		s.cause = cause
		close(s.broken)
		_ = s.source.Close()
	})
}

// forward copies one event at a time.
func (s *stream) forward() {
	defer s.finish()
	lines := bufio.NewReaderSize(s.source, 64<<10)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return // the watch ended; an incomplete event is dropped
		}
		frame := s.frame(line)
		if s.wide && frame.Name != "" && s.interceptor.Hidden != nil && s.interceptor.Hidden(s.kind, frame.Namespace, frame.Name) {
			continue
		}
		s.interceptor.holdEvent(s)
		foreign := frame.Type != bookmark && s.interceptor.Foreign != nil && s.interceptor.Foreign(frame)
		if !s.interceptor.waitReleased(s, frame, foreign) {
			return
		}
		if !foreign {
			s.interceptor.deliver(s, frame)
		}
		if _, err := s.in.Write(line); err != nil {
			return
		}
	}
}

func (s *stream) finish() {
	s.interceptor.mu.Lock()
	delete(s.interceptor.streams, s)
	s.interceptor.mu.Unlock()
	_ = s.source.Close()
	var cause error
	select {
	case <-s.broken:
		if len(s.last) > 0 {
			_, _ = s.in.Write(s.last)
		}
		cause = s.cause
	default:
	}
	_ = s.in.CloseWithError(cause) // nil means io.EOF
}

func (s *stream) frame(line []byte) Frame {
	var event struct {
		Type   string `json:"type"`
		Object struct {
			Metadata struct {
				Namespace       string            `json:"namespace"`
				Name            string            `json:"name"`
				UID             string            `json:"uid"`
				ResourceVersion string            `json:"resourceVersion"`
				Annotations     map[string]string `json:"annotations"`
			} `json:"metadata"`
		} `json:"object"`
	}
	_ = json.Unmarshal(line, &event) // an unreadable event is forwarded unchanged
	m := event.Object.Metadata
	ended := event.Type == bookmark && m.Annotations[metav1.InitialEventsAnnotationKey] == "true"
	return Frame{
		Kind: s.kind, Process: s.process, Type: event.Type, Namespace: m.Namespace, Name: m.Name, UID: m.UID,
		Version: m.ResourceVersion, Initial: s.initial && !ended,
	}
}

func (ic *Interceptor) deliver(s *stream, f Frame) {
	ic.mu.Lock()
	defer ic.mu.Unlock()
	if s.initial && !f.Initial {
		s.initial = false
		ic.lastActivity = time.Now()
	}
	if f.Type == bookmark {
		return
	}
	f.At = time.Since(ic.began)
	f.Step = ic.step
	ic.frames = append(ic.frames, f)
	ic.lastActivity = time.Now()
}

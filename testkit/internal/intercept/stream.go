package intercept

import (
	"bufio"
	"encoding/json"
	"io"
	"sync"
	"sync/atomic"
	"time"
)

// Frame is one watch event as forwarded to the operator.
type Frame struct {
	Kind    GroupResource
	Process int
	At      time.Duration
	// Type is ADDED, MODIFIED, DELETED, BOOKMARK or ERROR.
	Type string
	// Namespace, Name and Version are those of the object.
	Namespace, Name, Version string
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
	allow    int           // number of events that are forwarded nevertheless
}

// Hold delays all further events of a kind, except the next allow ones. Events in transit may still arrive.
func (ic *Interceptor) Hold(kind GroupResource, allow int) {
	ic.mu.Lock()
	defer ic.mu.Unlock()
	if g, ok := ic.holds[kind]; ok {
		g.allow = allow
		return
	}
	ic.holds[kind] = &eventHold{released: make(chan struct{}), allow: allow}
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

// waitReleased waits until an event may be forwarded. It returns false if the stream was broken meanwhile.
func (ic *Interceptor) waitReleased(s *stream, foreign bool) bool {
	for {
		ic.mu.Lock()
		g, held := ic.holds[s.kind]
		if held && g.allow > 0 {
			if !foreign {
				g.allow--
			}
			held = false
		}
		ic.mu.Unlock()
		if !held {
			select {
			case <-s.broken:
				return false
			default:
				return true
			}
		}
		select {
		case <-g.released:
		case <-s.broken:
			return false
		}
	}
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
	source      io.ReadCloser
	in          *io.PipeWriter
	broken      chan struct{}
	once        sync.Once
	last        []byte // sent before the end; set before broken is closed
	cause       error  // read error at the end, nil for io.EOF; set before broken is closed
}

func (ic *Interceptor) stream(call *Call, source io.ReadCloser) io.ReadCloser {
	s := &stream{
		interceptor: ic, kind: GroupResourceOf(call.Request), process: call.Process, source: source, broken: make(chan struct{}),
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
		if frame.Name != "" && s.interceptor.Hidden != nil && s.interceptor.Hidden(frame.Namespace, frame.Name) {
			continue
		}
		foreign := frame.Type != bookmark && s.interceptor.Foreign != nil && s.interceptor.Foreign(frame)
		if !s.interceptor.waitReleased(s, foreign) {
			return
		}
		if !foreign {
			s.interceptor.deliver(frame)
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
				Namespace       string `json:"namespace"`
				Name            string `json:"name"`
				ResourceVersion string `json:"resourceVersion"`
			} `json:"metadata"`
		} `json:"object"`
	}
	_ = json.Unmarshal(line, &event) // an unreadable event is forwarded unchanged
	m := event.Object.Metadata
	return Frame{
		Kind: s.kind, Process: s.process, Type: event.Type, Namespace: m.Namespace, Name: m.Name, Version: m.ResourceVersion,
	}
}

func (ic *Interceptor) deliver(f Frame) {
	if f.Type == bookmark {
		return
	}
	ic.mu.Lock()
	defer ic.mu.Unlock()
	f.At = time.Since(ic.began)
	ic.frames = append(ic.frames, f)
	ic.lastActivity = time.Now()
}

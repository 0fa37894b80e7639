package intercept

import (
	"context"
	"net/http"
	"time"
)

// pause is a process that is stopped for a while, and does not learn of that until its end.
type pause struct {
	process int
	resumed bool
	held    int           // number of its pending requests that Busy would count
	send    chan struct{} // closed when the requests that are held now are sent
	ended   chan struct{} // closed by Disconnect
}

// Pause holds the requests and watch events of a process, as if a signal had stopped it. A held request does not end with
// its context, because a stopped process has no timeouts, and does not count as pending. A request that has passed the hook
// before is not held. An interceptor pauses one process once: later, Pause returns false.
func (ic *Interceptor) Pause(process int) bool {
	ic.mu.Lock()
	defer ic.mu.Unlock()
	if ic.pause != nil {
		return false
	}
	ic.pause = &pause{process: process, send: make(chan struct{}), ended: make(chan struct{})}
	return true
}

// SendHeld sends the held requests of the paused process, as if they had been on their way since it was stopped. Requests
// that follow are held.
func (ic *Interceptor) SendHeld() {
	ic.mu.Lock()
	defer ic.mu.Unlock()
	if ic.pause != nil {
		ic.sendHeld()
	}
}

// Resume also sends the requests that follow. The process believes that no time has passed: requests for a Lease, and watch
// events, are held until Disconnect ends the process.
func (ic *Interceptor) Resume() {
	ic.mu.Lock()
	defer ic.mu.Unlock()
	if ic.pause != nil {
		ic.pause.resumed = true
		ic.sendHeld()
	}
}

// Paused returns the number of the process that was paused, and perhaps resumed, until Disconnect ends it. Otherwise it
// returns 0.
func (ic *Interceptor) Paused() int {
	ic.mu.Lock()
	defer ic.mu.Unlock()
	if ic.pause == nil || isClosed(ic.pause.ended) {
		return 0
	}
	return ic.pause.process
}

// sendHeld sends the held requests. The caller holds the mutex.
func (ic *Interceptor) sendHeld() {
	close(ic.pause.send)
	ic.pause.send = make(chan struct{})
	ic.running += ic.pause.held
	ic.pause.held = 0
	ic.lastActivity = time.Now()
}

// endPause ends the pause of a process that is disconnected. The caller holds the mutex.
func (ic *Interceptor) endPause(process int) {
	if ic.pause == nil || ic.pause.process != process || isClosed(ic.pause.ended) {
		return
	}
	close(ic.pause.ended)
	ic.pause.resumed = true
	ic.sendHeld()
}

// pauseOf returns the pause of a process, or nil if it was never paused.
func (ic *Interceptor) pauseOf(process int) *pause {
	ic.mu.Lock()
	defer ic.mu.Unlock()
	if ic.pause == nil || ic.pause.process != process {
		return nil
	}
	return ic.pause
}

// holdRequest holds a request while its process is paused. It returns the request that is to be sent: the API server
// receives a late write even if the client has given up.
func (ic *Interceptor) holdRequest(req *http.Request, call *Call) (*http.Request, error) {
	p := ic.pauseOf(call.Process)
	if p == nil {
		return req, nil
	}
	if IsLease(call.Request) {
		<-p.ended
	} else if send := ic.hold(p, call); send != nil {
		<-send
	}
	if ic.IsDisconnected(call.Process) {
		return nil, ErrDisconnected
	}
	if call.IsWrite() {
		call.Late = true
		req = req.WithContext(context.WithoutCancel(req.Context()))
	}
	return req, nil
}

// hold counts a request as held, and not as pending. It returns a channel that is closed when the request is to be sent, or
// nil if it is not to be held.
func (ic *Interceptor) hold(p *pause, call *Call) <-chan struct{} {
	ic.mu.Lock()
	defer ic.mu.Unlock()
	if p.resumed {
		return nil
	}
	if call.counts() {
		p.held++
		ic.running--
	}
	return p.send
}

// holdEvent holds a watch event of a process that was paused until the stream is broken.
func (ic *Interceptor) holdEvent(s *stream) {
	if ic.pauseOf(s.process) != nil {
		<-s.broken
	}
}

func isClosed(c chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

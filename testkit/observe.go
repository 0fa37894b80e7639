package testkit

import (
	"fmt"
	"maps"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/homeostat-dev/homeostat/testkit/internal/history"
	"github.com/homeostat-dev/homeostat/testkit/internal/intercept"
	"github.com/homeostat-dev/homeostat/testkit/internal/report"
	"github.com/homeostat-dev/homeostat/testkit/internal/timeline"
)

// laneTest is the lane of what the test itself does.
const laneTest report.Lane = "test"

// An observation is the record of one test, whatever K and operators it has. Nil observes nothing. It may be used from
// several goroutines.
type observation struct {
	t     testing.TB
	began time.Time
	user  *intercept.Interceptor // what the test asks of the API server
	seen  *intercept.Interceptor // what operators ask of it, as they see it
	asked *intercept.Interceptor // the same as it reaches the API server, for operators with a transport of the test's in between

	mu        sync.Mutex
	said      []report.Entry
	histories []*history.Log
	spaces    []string // the namespaces
	behind    map[int]bool
	ours      map[types.UID]bool // objects that testkit made
	without   map[string]bool    // oracles that are switched off
	judged    bool
	processes int
	ended     time.Time // when the test was over; zero before
	changes   []history.Change
}

// observations are those of the tests that run, by their tests.
var observations struct {
	sync.Mutex

	byTest map[testing.TB]*observation
}

// An explored test is run by something that records and judges for itself, such as package chaos.
type explored interface{ Explored() }

// observe returns the observation of a test, or nil if it is not to be observed: benchmarks measure operators, not testkit.
func observe(t testing.TB) *observation {
	switch t.(type) {
	case *testing.B, explored:
		return nil
	}
	observations.Lock()
	defer observations.Unlock()
	if o, ok := observations.byTest[t]; ok {
		return o
	}
	o := &observation{
		t: t, began: time.Now(), user: intercept.Record(), seen: intercept.Record(), asked: intercept.Record(), behind: map[int]bool{},
		ours: map[types.UID]bool{}, without: map[string]bool{},
	}
	if observations.byTest == nil {
		observations.byTest = map[testing.TB]*observation{}
	}
	observations.byTest[t] = o
	t.Cleanup(o.close) // which runs after the test's own and after those of each K
	return o
}

// close tells a test that has failed what happened.
func (o *observation) close() {
	observations.Lock()
	delete(observations.byTest, o.t)
	observations.Unlock()
	for _, l := range o.histories {
		l.End()
	}
	if !o.failed() {
		return
	}
	var b strings.Builder
	if entries := o.timeline(); len(entries) > 1 { // more than that it has failed
		if err := report.WriteTimeline(&b, entries); err != nil {
			o.t.Logf("%v", err)
		}
	}
	fmt.Fprintf(&b, "To run this test alone (with -v the operator's log is shown as it comes):\n    %s", replay(o.t.Name()))
	o.t.Logf("what happened\n%s", b.String())
}

// failed also knows of a panic, which the testing package notices only when the cleanups are done.
func (o *observation) failed() bool {
	if o.t.Failed() {
		return true
	}
	calls := make([]uintptr, 64) //nolint:mnd // deeper than testing's cleanups go
	frames := runtime.CallersFrames(calls[:runtime.Callers(0, calls)])
	for {
		frame, more := frames.Next()
		if frame.Function == "runtime.gopanic" {
			return true
		}
		if !more {
			return false
		}
	}
}

// follow begins the history of one more namespace.
func (o *observation) follow(namespace string, h *history.Recorder) {
	if o == nil {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.spaces = append(o.spaces, namespace)
	if h != nil {
		o.histories = append(o.histories, h.Follow(namespace))
	}
}

// say enters what the test does.
func (o *observation) say(format string, args ...any) {
	o.enter(report.Entry{Lane: laneTest, Text: fmt.Sprintf(format, args...)})
}

func (o *observation) enter(e report.Entry) {
	if o == nil {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.ended.IsZero() {
		e.At = time.Since(o.began)
		o.said = append(o.said, e)
	}
}

// process counts the operators of the test.
func (o *observation) process() int {
	if o == nil {
		return 0
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.processes++
	return o.processes
}

// inner is put between the test's own transport and the API server, outer between the operator and everything else.
func (o *observation) inner(process int, next http.RoundTripper) http.RoundTripper {
	if o == nil {
		return next
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.behind[process] = true
	return o.asked.Transport(process, next)
}

func (o *observation) outer(process int, next http.RoundTripper) http.RoundTripper {
	if o == nil {
		return next
	}
	return o.seen.Transport(process, next)
}

// calls are the requests of the test's operators as they reached the API server.
func (o *observation) calls() []intercept.Call {
	o.mu.Lock()
	behind := maps.Clone(o.behind)
	o.mu.Unlock()
	direct := slices.DeleteFunc(o.seen.Calls(), func(c intercept.Call) bool { return behind[c.Process] })
	return append(direct, o.asked.Calls()...)
}

// made says that testkit itself has made an object, which is no part of the story.
func (o *observation) made(object client.Object) {
	if o == nil {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.ours[object.GetUID()] = true
}

// furniture is what Kubernetes puts into each namespace.
var furniture = map[string]bool{"ServiceAccount default": true, "ConfigMap kube-root-ca.crt": true}

// history returns the states that objects have had so far.
func (o *observation) history() []history.Change {
	o.mu.Lock()
	defer o.mu.Unlock()
	var all []history.Change
	for _, l := range o.histories {
		all = append(all, l.Changes()...)
	}
	return all
}

// rests reports whether the operators have not written, and have nothing under way, for so long.
func (o *observation) rests(quiet time.Duration) bool {
	busy, idle := o.seen.Busy()
	_, told := o.user.Busy()
	if busy || min(idle, told) < quiet {
		return false
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, l := range o.histories {
		changes := l.Changes()
		if n := len(changes); n > 0 && time.Since(changes[n-1].At) < quiet {
			return false
		}
	}
	return true
}

// end says that the test is over: what follows is cleaning up.
func (o *observation) end() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.ended.IsZero() {
		return
	}
	if o.failed() {
		at := time.Since(o.began)
		o.said = append(o.said, report.Entry{At: at, Lane: laneTest, Text: "the test ends: it has failed", Bad: true})
	}
	o.ended = time.Now()
	for _, l := range o.histories {
		o.changes = append(o.changes, l.Changes()...)
	}
	o.changes = slices.DeleteFunc(o.changes, func(c history.Change) bool {
		return o.ours[c.Object.GetUID()] || furniture[c.Object.GetKind()+" "+c.Object.GetName()]
	})
	slices.SortStableFunc(o.changes, func(a, b history.Change) int { return a.At.Compare(b.At) })
}

// timeline merges everything that happened until the test was over.
func (o *observation) timeline() []report.Entry {
	o.mu.Lock()
	defer o.mu.Unlock()
	entries := slices.Clone(o.said)
	entries = append(entries, timeline.Requests(o.until(o.seen), o.seen.Began().Sub(o.began))...)
	writes := slices.DeleteFunc(o.until(o.user), func(c intercept.Call) bool { return !c.Writes() })
	for _, e := range timeline.Requests(writes, o.user.Began().Sub(o.began)) {
		e.Lane, e.Bad = laneTest, false // what a test is refused, it may have asked for
		entries = append(entries, e)
	}
	entries = append(entries, timeline.Changes(o.changes, o.began)...)
	over := o.ended.Sub(o.began)
	entries = slices.DeleteFunc(entries, func(e report.Entry) bool { return !o.ended.IsZero() && e.At > over })
	if len(o.spaces) == 1 { // everything is in it
		for i, e := range entries {
			entries[i].Text = strings.ReplaceAll(e.Text, " "+o.spaces[0]+"/", " ")
		}
	}
	timeline.Sort(entries)
	return entries
}

// until returns the calls that were sent before the test was over, as they stood then.
func (o *observation) until(w *intercept.Interceptor) []intercept.Call {
	calls := w.Calls()
	if o.ended.IsZero() {
		return calls
	}
	over := o.ended.Sub(w.Began())
	for i, c := range calls {
		if c.Ended == 0 || c.Ended > over {
			calls[i].Code, calls[i].Lost = 0, "no answer yet"
		}
	}
	return slices.DeleteFunc(calls, func(c intercept.Call) bool {
		return c.Began > over || c.Verb == "watch" && c.Code == 0 // it was being opened
	})
}

// log enters a line of an operator's log.
func (o *observation) log(process int, l logLine) {
	if process > 1 {
		l.text = fmt.Sprintf("[process %d] %s", process, l.text)
	}
	o.enter(report.Entry{Lane: report.Log, Text: l.text, Detail: l.more, Bad: l.bad})
}

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

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/homeostat-dev/homeostat/testkit/internal/history"
	"github.com/homeostat-dev/homeostat/testkit/internal/intercept"
	"github.com/homeostat-dev/homeostat/testkit/internal/report"
	"github.com/homeostat-dev/homeostat/testkit/internal/timeline"
)

// laneTest is the lane of the test's own actions.
const laneTest report.Lane = "test"

// An observation is the record of one test, across all its Ks and operators. Nil records nothing. It is safe for
// concurrent use.
type observation struct {
	t         testing.TB
	began     time.Time
	user      *intercept.Interceptor // the test's requests to the API server
	operators *intercept.Interceptor // the operators' requests, with the responses they received
	upstream  *intercept.Interceptor // the same at the API server, for operators with a transport of the test

	mu              sync.Mutex
	entries         []report.Entry
	histories       []*history.Log
	namespaces      []string // the namespaces
	proxied         map[int]bool
	internal        map[types.UID]bool // objects created by testkit
	disabledOracles map[string]bool    // oracles that are switched off
	checked         bool
	processes       int
	ended           time.Time // end of the test; zero before
	changes         []history.Change
}

// observations holds the observation of each running test.
var observations struct {
	sync.Mutex

	byTest map[testing.TB]*observation
}

// An explored test is run by an engine with its own records and checks, such as package chaos.
type explored interface{ Explored() }

// A remoteTest is the test of a program in another language. Its operators are programs, and see no
// objects of other tests.
type remoteTest interface {
	Interceptor() *intercept.Interceptor // records the requests of the operators
	Replay() string                      // the command that runs the test alone
	Exemption(rule string) string        // how to switch the rule off
}

// isHidden reports whether an object belongs to another test, or to a namespace of no test.
func (o *observation) isHidden(kind intercept.GroupResource, namespace, name string) bool {
	if kind == (intercept.GroupResource{Resource: "namespaces"}) {
		namespace = name
	}
	o.mu.Lock()
	logs := slices.Clone(o.histories)
	o.mu.Unlock()
	return !slices.ContainsFunc(logs, func(l *history.Log) bool {
		return !l.BelongsToAnother(namespace, name) && (namespace == "" || l.Has(namespace))
	})
}

// observe returns the observation of a test, or nil for benchmarks, which measure operators only, and explored tests.
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
		t: t, began: time.Now(), proxied: map[int]bool{},
		user: intercept.Record(), operators: intercept.Record(), upstream: intercept.Record(),
		internal: map[types.UID]bool{}, disabledOracles: map[string]bool{},
	}
	if remote, ok := t.(remoteTest); ok {
		o.operators = remote.Interceptor()
		o.operators.Hidden = o.isHidden
	}
	if observations.byTest == nil {
		observations.byTest = map[testing.TB]*observation{}
	}
	observations.byTest[t] = o
	t.Cleanup(o.close) // runs after the test's own cleanups and those of each K
	return o
}

// close logs the timeline of a failed test.
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
	if entries := o.timeline(); len(entries) > 1 { // more than the entry for the failure
		if err := report.WriteTimeline(&b, entries); err != nil {
			o.t.Logf("%v", err)
		}
	}
	if remote, ok := o.t.(remoteTest); ok {
		fmt.Fprintf(&b, "To run this test alone:\n    %s", remote.Replay())
	} else {
		fmt.Fprintf(&b, "To run this test alone (with -v the operator's log is shown as it comes):\n    %s", replay(o.t.Name()))
	}
	o.t.Logf("what happened\n%s", b.String())
}

// failed also detects a panic. The testing package marks the test as failed only after the cleanups.
func (o *observation) failed() bool {
	if o.t.Failed() {
		return true
	}
	calls := make([]uintptr, 64)
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

// follow starts the history of one more namespace.
func (o *observation) follow(namespace string, h *history.Recorder) {
	if o == nil {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.namespaces = append(o.namespaces, namespace)
	if h != nil {
		o.histories = append(o.histories, h.Follow(namespace))
	}
}

// record records an action of the test.
func (o *observation) record(format string, args ...any) {
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
		o.entries = append(o.entries, e)
	}
}

// process returns the next number for an operator of the test.
func (o *observation) process() int {
	if o == nil {
		return 0
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.processes++
	return o.processes
}

// inner wraps the API server below the test's own transport; outer wraps everything below the operator.
func (o *observation) inner(process int, next http.RoundTripper) http.RoundTripper {
	if o == nil {
		return next
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.proxied[process] = true
	return o.upstream.Transport(process, next)
}

func (o *observation) outer(process int, next http.RoundTripper) http.RoundTripper {
	if o == nil {
		return next
	}
	return o.operators.Transport(process, next)
}

// calls returns the requests of the test's operators as they reached the API server.
func (o *observation) calls() []intercept.Call {
	o.mu.Lock()
	behind := maps.Clone(o.proxied)
	o.mu.Unlock()
	direct := slices.DeleteFunc(o.operators.Calls(), func(c intercept.Call) bool { return behind[c.Process] })
	return append(direct, o.upstream.Calls()...)
}

// exclude excludes an object from the timeline, because testkit created it.
func (o *observation) exclude(object client.Object) {
	if o == nil {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.internal[object.GetUID()] = true
}

// defaultObjects are the objects that Kubernetes creates in each namespace.
var defaultObjects = map[string]bool{"ServiceAccount default": true, "ConfigMap kube-root-ca.crt": true}

// history returns the states of all objects so far.
func (o *observation) history() []history.Change {
	o.mu.Lock()
	defer o.mu.Unlock()
	var all []history.Change
	for _, l := range o.histories {
		all = append(all, l.Changes()...)
	}
	return all
}

// changesOf returns the changes of one object, the oldest first. A test with several K sees a cluster-scoped object from the
// begin of the first on.
func (o *observation) changesOf(kind schema.GroupKind, key types.NamespacedName) []history.Change {
	if key.Namespace != "" {
		return slices.DeleteFunc(o.history(), func(c history.Change) bool {
			return c.Object.GroupVersionKind().GroupKind() != kind || client.ObjectKeyFromObject(c.Object) != key
		})
	}
	o.mu.Lock()
	logs := slices.Clone(o.histories)
	o.mu.Unlock()
	if len(logs) == 0 {
		return nil
	}
	return logs[0].ClusterScoped(kind, key.Name)
}

// idle reports whether the operators have no request in flight and wrote nothing for the given time.
func (o *observation) idle(quiet time.Duration) bool {
	busy, idle := o.operators.Busy()
	_, userIdle := o.user.Busy()
	if busy || min(idle, userIdle) < quiet {
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

// end marks the end of the test. Later events belong to the cleanup.
func (o *observation) end() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.ended.IsZero() {
		return
	}
	if o.failed() {
		at := time.Since(o.began)
		o.entries = append(o.entries, report.Entry{At: at, Lane: laneTest, Text: "the test ends: it has failed", Bad: true})
	}
	o.ended = time.Now()
	for _, l := range o.histories {
		o.changes = append(o.changes, l.Changes()...)
	}
	o.changes = slices.DeleteFunc(o.changes, func(c history.Change) bool {
		return o.internal[c.Object.GetUID()] || defaultObjects[c.Object.GetKind()+" "+c.Object.GetName()]
	})
	slices.SortStableFunc(o.changes, func(a, b history.Change) int { return a.At.Compare(b.At) })
}

// timeline merges all records until the end of the test.
func (o *observation) timeline() []report.Entry {
	o.mu.Lock()
	defer o.mu.Unlock()
	entries := slices.Clone(o.entries)
	entries = append(entries, timeline.Requests(o.until(o.operators), o.operators.Began().Sub(o.began))...)
	writes := slices.DeleteFunc(o.until(o.user), func(c intercept.Call) bool { return !c.IsWrite() })
	for _, e := range timeline.Requests(writes, o.user.Began().Sub(o.began)) {
		e.Lane = laneTest
		e.Bad = false // a rejected request may be the purpose of the test
		entries = append(entries, e)
	}
	entries = append(entries, timeline.Changes(o.changes, o.began)...)
	over := o.ended.Sub(o.began)
	entries = slices.DeleteFunc(entries, func(e report.Entry) bool { return !o.ended.IsZero() && e.At > over })
	if len(o.namespaces) == 1 { // one namespace needs no prefix
		for i, e := range entries {
			entries[i].Text = strings.ReplaceAll(e.Text, " "+o.namespaces[0]+"/", " ")
		}
	}
	timeline.Sort(entries)
	return entries
}

// until returns the calls that were sent before the end of the test, in their state at that time.
func (o *observation) until(w *intercept.Interceptor) []intercept.Call {
	calls := w.Calls()
	if o.ended.IsZero() {
		return calls
	}
	over := o.ended.Sub(w.Began())
	for i, c := range calls {
		if c.Ended == 0 || c.Ended > over {
			calls[i].Code = 0
			calls[i].Reached = false
			calls[i].Lost = "no answer yet"
		}
	}
	return slices.DeleteFunc(calls, func(c intercept.Call) bool {
		return c.Began > over || c.Verb == "watch" && c.Code == 0 // it was being opened
	})
}

// log records a line of an operator's log.
func (o *observation) log(process int, l logLine) {
	if process > 1 {
		l.text = fmt.Sprintf("[process %d] %s", process, l.text)
	}
	o.enter(report.Entry{Lane: report.Log, Text: l.text, Detail: l.more, Bad: l.bad})
}

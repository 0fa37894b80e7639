package explore

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/homeostat-dev/homeostat/testkit/internal/fault"
	"github.com/homeostat-dev/homeostat/testkit/internal/intercept"
	"github.com/homeostat-dev/homeostat/testkit/internal/report"
	"github.com/homeostat-dev/homeostat/testkit/internal/space"
)

// processes manages the operator's processes in a run: start, end and restart. It is safe for concurrent use.
type processes struct {
	subject  Subject
	plan     *fault.Plan
	space    *space.Space
	operator *intercept.Interceptor
	out      *outcome
	restarts sync.WaitGroup

	mu               sync.Mutex
	byNumber         map[int]Process
	all              []Process // every process that was started
	killed           map[int]bool
	started          int
	restarting       int
	exits            int
	startFailed      bool // ends the scenario
	deletedWhileDown bool // the operator was killed, and is restarted only after the custom resources were deleted
	identity         *identity
	identified       int // the number of the process with this identity
}

// toleratedExits is the number of exits that an operator may have in a run with a fault. A real cluster restarts it, too.
const toleratedExits = 3

// start starts one more process and reports success.
func (ps *processes) start() bool {
	ps.mu.Lock()
	ps.started++
	number := ps.started
	ps.mu.Unlock()
	ps.out.logStep(fmt.Sprintf("the operator starts (process %d)", number))
	p, err := ps.subject.Start(ps.space, Start{
		Number: number, LeaderElection: ps.plan.HasLeaderElection(),
		Transport: func(next http.RoundTripper) http.RoundTripper {
			return ps.captureIdentity(number, next, ps.operator.Transport(number, next))
		},
	})
	if err != nil {
		switch {
		case errors.Is(err, ErrNoElection):
			ps.out.setUntriedReason(ps.plan, err.Error())
		case errors.Is(err, space.ErrFailed):
			ps.mu.Lock()
			ps.startFailed = true
			ps.mu.Unlock()
		default:
			ps.out.abort(fmt.Errorf("starting the operator: %w", err))
		}
		return false
	}
	ps.mu.Lock()
	ps.byNumber[number] = p
	ps.all = append(ps.all, p)
	ps.mu.Unlock()
	ps.operator.ResetIdleTime()
	go ps.superviseProcess(number, p)
	return true
}

// superviseProcess starts another process when one exits by itself.
func (ps *processes) superviseProcess(number int, p Process) {
	select {
	case <-p.Done():
	case <-ps.space.Context().Done():
		return
	}
	ps.mu.Lock()
	meant := ps.killed[number]
	ps.killed[number] = true
	if !meant {
		ps.exits++
		ps.restarting++
	}
	exits := ps.exits
	ps.mu.Unlock()
	if meant || ps.space.Context().Err() != nil {
		return
	}
	defer func() {
		ps.mu.Lock()
		defer ps.mu.Unlock()
		ps.restarting--
	}()
	ps.out.addEntry(report.Entry{Lane: report.Operator, Text: fmt.Sprintf("process %d ends by itself", number), Bad: true})
	ps.removeProcess(number)
	if late := ps.leaseDelay(number); late >= slowLease && number != ps.operator.Paused() {
		ps.out.setUntriedReason(ps.plan, fmt.Sprintf("the operator lost its Lease, because a request for it took %v: "+
			"the machine is too busy", late.Round(time.Millisecond)))
		ps.out.setDiscarded(!ps.plan.IsCombined())
		ps.space.Cancel()
		return
	}
	if ps.out.enabled(oracleExit) && (ps.plan.Fault == "none" || exits > toleratedExits) {
		ps.out.addViolation(oracleExit, "the operator ended by itself", "")
		ps.space.Cancel() // without an operator, the scenario would wait in vain
		return
	}
	ps.start()
}

// slowLease is the duration of a request for the Lease from which on a process may end, because it could not renew the Lease
// in time. A fault delays these requests of a paused process only.
const slowLease = 500 * time.Millisecond

// leaseDelay returns the longest duration of a process's requests for the Lease of testkit's leader election, or 0.
func (ps *processes) leaseDelay(number int) time.Duration {
	var longest time.Duration
	if !ps.plan.HasLeaderElection() {
		return 0
	}
	now := time.Since(ps.operator.Began())
	for _, c := range ps.operator.Calls() {
		if c.Process == number && intercept.IsLease(c.Request) {
			longest = max(longest, cmp.Or(c.Ended, now)-c.Began)
		}
	}
	return longest
}

// crash kills a process from within one of its requests, and starts the next one. The process sends no further request.
func (ps *processes) crash(number int, p *fault.Plan) {
	ps.mu.Lock()
	killed := ps.killed[number]
	if !killed {
		ps.killed[number] = true // first: a process that is disconnected may end by itself before it is killed
		ps.restarting++
	}
	ps.mu.Unlock()
	ps.operator.Disconnect(number)
	if killed {
		return
	}
	ps.out.logFault(p, "the operator is killed")
	ps.restarts.Go(func() {
		ps.replaceProcess(number)
		ps.mu.Lock()
		ps.restarting--
		ps.mu.Unlock()
		ps.operator.ResetIdleTime()
	})
}

// replaceProcess kills a disconnected process and starts the next one, unless another replica takes over or the start is due
// after the deletion of the custom resources.
func (ps *processes) replaceProcess(number int) {
	for ps.process(number) == nil { // the process is killed during its start
		select {
		case <-time.After(time.Millisecond):
		case <-ps.space.Context().Done():
			return
		}
	}
	ps.process(number).Kill()
	ps.removeProcess(number)
	switch {
	case ps.plan.HasLeaderElection(): // the other replica takes over
	case ps.plan.DeletesEarly && !ps.out.isTornDown():
		ps.mu.Lock()
		ps.deletedWhileDown = true
		ps.mu.Unlock()
	default:
		ps.start()
	}
}

func (ps *processes) process(number int) Process {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	return ps.byNumber[number]
}

func (ps *processes) removeProcess(number int) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	delete(ps.byNumber, number)
}

func (ps *processes) running() map[int]Process {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	return maps.Clone(ps.byNumber)
}

func (ps *processes) endProcess(number int, how func()) {
	ps.mu.Lock()
	ps.killed[number] = true
	ps.mu.Unlock()
	if ps.operator.Paused() == number {
		ps.operator.Disconnect(number) // it cannot end while its requests are held
	}
	how()
	ps.removeProcess(number)
}

// restart stops all processes gracefully and starts one.
func (ps *processes) restart() bool {
	for number, p := range ps.running() {
		ps.out.logStep(fmt.Sprintf("the operator is stopped (process %d)", number))
		ps.endProcess(number, p.Stop)
	}
	return ps.start()
}

// killAll kills all processes.
func (ps *processes) killAll() {
	for number, p := range ps.running() {
		ps.endProcess(number, func() {
			ps.operator.Disconnect(number)
			p.Kill()
		})
	}
}

// isRunning reports whether the operator has a process and none has ended.
func (ps *processes) isRunning() bool {
	ps.mu.Lock()
	restarting := ps.restarting
	ps.mu.Unlock()
	if restarting > 0 {
		return false
	}
	running := ps.running()
	for _, p := range running {
		select {
		case <-p.Done():
			return false
		default:
		}
	}
	return len(running) > 0
}

// areIdleFor reports whether each process is known to do nothing for this time unless it receives an event.
func (ps *processes) areIdleFor(d time.Duration) bool {
	for _, p := range ps.running() {
		if p, ok := p.(interface{ IsIdleFor(d time.Duration) bool }); !ok || !p.IsIdleFor(d) {
			return false
		}
	}
	return true
}

// areReconciling reports whether a process other than the paused one is known to be reconciling. It may send no request for
// a while, because its function computes or waits for an external system.
func (ps *processes) areReconciling(paused int) bool {
	for number, p := range ps.running() {
		if number == paused {
			continue
		}
		if p, ok := p.(interface{ IsReconciling() bool }); ok && p.IsReconciling() {
			return true
		}
	}
	return false
}

func (ps *processes) isDeletedWhileDown() bool {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	return ps.deletedWhileDown && !ps.out.isTornDown()
}

// captureIdentity stores the identity of the first request of the newest process: the connections of a program end with it.
func (ps *processes) captureIdentity(number int, next, observed http.RoundTripper) http.RoundTripper {
	return roundTrip(func(req *http.Request) (*http.Response, error) {
		ps.mu.Lock()
		if ps.identified < number {
			ps.identified = number
			header := http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json"}}
			for name, values := range req.Header {
				if name == "Authorization" || strings.HasPrefix(name, "Impersonate-") {
					header[name] = slices.Clone(values)
				}
			}
			ps.identity = &identity{next: next, server: url.URL{Scheme: req.URL.Scheme, Host: req.URL.Host}, header: header}
		}
		ps.mu.Unlock()
		return observed.RoundTrip(req)
	})
}

// hasFailedStart reports whether a start failed the scenario.
func (ps *processes) hasFailedStart() bool {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	return ps.startFailed
}

// count returns the number of processes that were started.
func (ps *processes) count() int {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	return ps.started
}

// ever returns all processes that were started.
func (ps *processes) ever() []Process {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	return slices.Clone(ps.all)
}

// credentials returns the identity of the operator, or nil before its first request.
func (ps *processes) credentials() *identity {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	return ps.identity
}

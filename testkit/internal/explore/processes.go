package explore

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"time"

	"github.com/homeostat-dev/homeostat/testkit/internal/report"
	"github.com/homeostat-dev/homeostat/testkit/internal/space"
)

// This file manages the operator's processes in a run: start, end and restart.

// start starts one more process and reports success.
func (r *run) start() bool {
	r.mu.Lock()
	r.started++
	number := r.started
	r.mu.Unlock()
	r.logStep(fmt.Sprintf("the operator starts (process %d)", number))
	p, err := r.x.Subject.Start(r.space, Start{
		Number: number, Elect: r.plan.Elect,
		Transport: func(next http.RoundTripper) http.RoundTripper {
			return r.captureIdentity(next, r.operator.Transport(number, next))
		},
	})
	if err != nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		switch {
		case errors.Is(err, ErrNoElection):
			r.untriedReason = err.Error()
		case errors.Is(err, space.ErrFailed):
			r.startFailed.Store(true)
		default:
			r.infraErr = fmt.Errorf("starting the operator: %w", err)
		}
		return false
	}
	r.mu.Lock()
	r.processes[number] = p
	r.allProcesses = append(r.allProcesses, p)
	r.mu.Unlock()
	r.operator.Touch()
	go r.superviseProcess(number, p)
	return true
}

// toleratedExits is the number of exits that an operator may have in a run with a fault. A real cluster restarts it, too.
const toleratedExits = 3

// superviseProcess starts another process when one exits by itself.
func (r *run) superviseProcess(number int, p Process) {
	select {
	case <-p.Done():
	case <-r.space.Context().Done():
		return
	}
	r.mu.Lock()
	meant := r.killed[number]
	r.killed[number] = true
	if !meant {
		r.exits++
		r.restarting++
	}
	exits := r.exits
	r.mu.Unlock()
	if meant || r.space.Context().Err() != nil {
		return
	}
	defer func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.restarting--
	}()
	r.addEntry(report.Entry{Lane: report.Operator, Text: fmt.Sprintf("process %d ends by itself", number), Bad: true})
	r.removeProcess(number)
	if r.x.oracleEnabled(oracleExit) && (r.plan.Fault == "none" || exits > toleratedExits) {
		r.addViolation(oracleExit, "the operator ended by itself", "")
		r.space.Cancel() // without an operator, the scenario would wait in vain
		return
	}
	r.start()
}

// crash kills a process from within one of its requests, and starts the next one. The process sends no further request.
func (r *run) crash(number int) {
	r.operator.Sever(number)
	r.mu.Lock()
	if r.killed[number] {
		r.mu.Unlock()
		return
	}
	r.killed[number] = true
	r.restarting++
	r.mu.Unlock()
	r.logFault("the operator is killed")
	r.wg.Go(func() {
		r.replaceProcess(number)
		r.mu.Lock()
		r.restarting--
		r.mu.Unlock()
		r.operator.Touch()
	})
}

// replaceProcess kills a severed process and starts the next one, unless another replica takes over or the start is due after
// the deletion of the custom resources.
func (r *run) replaceProcess(number int) {
	for r.process(number) == nil { // the process is killed during its start
		select {
		case <-time.After(time.Millisecond):
		case <-r.space.Context().Done():
			return
		}
	}
	r.process(number).Kill()
	r.removeProcess(number)
	switch {
	case r.plan.Elect: // the other replica takes over
	case r.plan.DeletesEarly && !r.isTornDown():
		r.mu.Lock()
		r.deletedWhileDown = true
		r.mu.Unlock()
	default:
		r.start()
	}
}

func (r *run) process(number int) Process {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.processes[number]
}

func (r *run) removeProcess(number int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.processes, number)
}

func (r *run) running() map[int]Process {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.processes)
}

func (r *run) endProcess(number int, how func()) {
	r.mu.Lock()
	r.killed[number] = true
	r.mu.Unlock()
	how()
	r.removeProcess(number)
}

// restart stops all processes gracefully and starts one.
func (r *run) restart() bool {
	for number, p := range r.running() {
		r.logStep(fmt.Sprintf("the operator is stopped (process %d)", number))
		r.endProcess(number, p.Stop)
	}
	return r.start()
}

// killAll kills all processes.
func (r *run) killAll() {
	for number, p := range r.running() {
		r.operator.Sever(number)
		r.endProcess(number, p.Kill)
	}
}

package explore

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"time"

	"github.com/homeostat-dev/homeostat/testkit/internal/report"
)

// This file is about the incarnations of the operator in a run: how they start, end and are started again.

// start starts one more incarnation and reports whether that worked.
func (r *run) start() bool {
	r.mu.Lock()
	r.started++
	number := r.started
	r.mu.Unlock()
	r.say(fmt.Sprintf("the operator starts (process %d)", number))
	p, err := r.x.Subject.Start(r.k, Start{
		Number: number, Elect: r.plan.elect,
		Transport: func(next http.RoundTripper) http.RoundTripper {
			return r.remember(next, r.wire.Transport(number, next))
		},
	})
	if err != nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		if errors.Is(err, ErrNoElection) {
			r.plan.untried = err.Error()
		} else {
			r.broken = fmt.Errorf("starting the operator: %w", err)
		}
		return false
	}
	r.mu.Lock()
	r.processes[number] = p
	r.everyone = append(r.everyone, p)
	r.mu.Unlock()
	r.wire.Touch()
	go r.watchOver(number, p)
	return true
}

// tolerated is how often an operator may end by itself in a run with a fault. Whatever runs operators starts them again.
const tolerated = 3

// watchOver starts another incarnation when one ends by itself.
func (r *run) watchOver(number int, p Process) {
	select {
	case <-p.Done():
	case <-r.probe.ctx.Done():
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
	if meant || r.probe.ctx.Err() != nil {
		return
	}
	defer func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.restarting--
	}()
	r.enter(report.Entry{Lane: report.Operator, Text: fmt.Sprintf("process %d ends by itself", number), Bad: true})
	r.forget(number)
	if r.x.has(oracleExit) && (r.plan.fault == "none" || exits > tolerated) {
		r.violate(oracleExit, "the operator ended by itself", "")
		r.probe.cancel() // nobody is there to bring about what the scenario waits for
		return
	}
	r.probe.do(func() { r.start() })
}

// crash kills an incarnation from within one of its requests, and starts the next one. No further request leaves it.
func (r *run) crash(number int) {
	r.wire.Sever(number)
	r.mu.Lock()
	if r.killed[number] {
		r.mu.Unlock()
		return
	}
	r.killed[number] = true
	r.restarting++
	r.mu.Unlock()
	r.note("the operator is killed")
	r.wg.Go(func() {
		r.probe.do(func() {
			for r.process(number) == nil { // it is killed while it starts
				select {
				case <-time.After(time.Millisecond):
				case <-r.probe.ctx.Done():
					return
				}
			}
			r.process(number).Kill()
			r.forget(number)
			switch {
			case r.plan.elect: // the other one goes on
			case r.plan.early && !r.isEnded():
				r.mu.Lock()
				r.dead = true
				r.mu.Unlock()
			default:
				r.start()
			}
		})
		r.mu.Lock()
		r.restarting--
		r.mu.Unlock()
		r.wire.Touch()
	})
}

func (r *run) process(number int) Process {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.processes[number]
}

func (r *run) forget(number int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.processes, number)
}

func (r *run) running() map[int]Process {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.processes)
}

func (r *run) end(number int, how func()) {
	r.mu.Lock()
	r.killed[number] = true
	r.mu.Unlock()
	r.probe.do(how)
	r.forget(number)
}

// restart ends all incarnations in order and starts one.
func (r *run) restart() bool {
	for number, p := range r.running() {
		r.say(fmt.Sprintf("the operator is stopped (process %d)", number))
		r.end(number, p.Stop)
	}
	return r.start()
}

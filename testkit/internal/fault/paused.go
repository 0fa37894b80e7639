package fault

import (
	"fmt"
	"net/http"
	"time"

	"github.com/homeostat-dev/homeostat/testkit/internal/baseline"
	"github.com/homeostat-dev/homeostat/testkit/internal/intercept"
)

var failoverPaused = Fault{
	Name: "failover-paused",
	Doc: "The leader of two replicas is paused at a write for longer than its Lease, and goes on when the other one has done " +
		"its work.",
	Long: true,
	Plan: func(in *Input) []Plan {
		best, order := map[string]lateWrite{}, []string(nil)
		for i, t := range in.Calls {
			if !t.Writes || t.Versioned || t.Step < 1 || t.Step > len(in.Steps) || skipReason(t) != "" {
				continue // the API server rejects a versioned write that is late
			}
			key := t.Verb + " " + t.Kind.String() + "/" + t.Subresource
			w := planLateWrite(in, i, t)
			if known, ok := best[key]; !ok {
				order = append(order, key)
			} else if known.value > w.value {
				continue
			}
			best[key] = w
		}
		plans := make([]Plan, 0, len(order))
		for _, key := range order {
			plans = append(plans, best[key].plan(in))
		}
		return plans
	},
}

// lateWrite is a write that reaches the API server at the end of a step.
type lateWrite struct {
	baseline.Target

	place  int
	resume int // the step at whose end the write arrives, from 0
	value  int // the higher, the more the write can spoil
}

// planLateWrite returns the late write for the i-th request. It arrives after the next step, because what it contains may
// then be out of date, unless that step deletes an object of the user: the operator need not clean up after it any more.
func planLateWrite(in *Input, i int, t baseline.Target) lateWrite {
	w := lateWrite{Target: t, place: i, resume: t.Step - 1}
	next := t.Step < len(in.Steps) && t.Step < len(in.Checkpoints)
	for name := range in.UserObjects {
		if !next {
			break
		}
		_, was := in.Checkpoints[t.Step-1][name]
		_, is := in.Checkpoints[t.Step][name]
		next = is || !was
	}
	if next {
		w.resume++
		w.value = 1
	}
	exists := false
	if w.resume < len(in.Checkpoints) {
		_, exists = in.Checkpoints[w.resume][t.Kind.String()+"/"+t.Object]
	}
	switch {
	case t.Verb == "create" && !exists, t.Verb == "delete" && exists, next && isWrittenAgain(in, t):
		w.value = 2
	}
	return w
}

// isWrittenAgain reports whether the operator changes the object of the write in the next step by a similar one.
func isWrittenAgain(in *Input, t baseline.Target) bool {
	for _, u := range in.Calls {
		if u.Step == t.Step+1 && u.Effective && u.Group() == t.Group() && t.Verb != "create" {
			return true
		}
	}
	return false
}

func (w lateWrite) plan(in *Input) Plan {
	return Plan{
		Name: "failover-paused/" + w.ID(), Fault: "failover-paused", Target: w.ID(), place: w.place,
		ExtraQuiet: true, SkipCounts: true, Replicas: 2,
		Summary: fmt.Sprintf("two replicas ran, and the leader was paused at the %s, which was carried out after step %q, when "+
			"the other one had done its work", w.Target, in.Steps[w.resume]),
		OnRequest: func(r Run, _ *http.Request, c *intercept.Call) (*http.Response, error) {
			switch {
			case leader(r.Operator().Calls()) != c.Process:
				r.MarkUntried("a process that does not lead sends the request")
			case r.Operator().Pause(c.Process):
				r.LogFault("the leader is paused before its request is carried out")
			}
			return nil, nil
		},
		AfterIdle: func(r Run, at int) {
			if at == w.resume && resume(r, at) {
				r.Converge(at)
			}
		},
	}
}

// takeover is the maximum time until another process leads. A Lease lasts two seconds.
const takeover = 10 * time.Second

// resume lets the paused process go on when another one leads, and returns whether it did. First, only what it had sent
// before the pause arrives, as if it ended then. Later, it goes on with what it had read before, until it has nothing to do,
// and ends: it has lost the Lease.
func resume(r Run, step int) bool {
	old := r.Operator().Paused()
	if old == 0 {
		return false
	}
	defer r.Crash(old)
	if !awaitOtherLeader(r, old) {
		r.MarkUntried("no other process became the leader")
		return false
	}
	r.LogFault("the request of the paused process is carried out")
	r.Operator().SendHeld()
	if !r.Converge(step) {
		return false
	}
	r.LogFault("the paused process goes on, and believes that it leads")
	r.Operator().Resume()
	r.WaitIdle()
	return true
}

// awaitOtherLeader waits until another process leads, and reports whether one does.
func awaitOtherLeader(r Run, old int) bool {
	end := time.After(takeover)
	for {
		if now := leader(r.Operator().Calls()); now != 0 && now != old {
			return true
		}
		select {
		case <-time.After(10 * time.Millisecond):
		case <-end:
			return false
		case <-r.Space().Context().Done():
			return false
		}
	}
}

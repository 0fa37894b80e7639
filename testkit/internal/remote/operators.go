package remote

import (
	"context"
	"net/http"
	"time"

	"github.com/creachadair/jrpc2"

	"github.com/homeostat-dev/homeostat/testkit"
	"github.com/homeostat-dev/homeostat/testkit/internal/intercept"
	"github.com/homeostat-dev/homeostat/testkit/kubelet"
	"github.com/homeostat-dev/homeostat/testkit/recorder"
)

// start starts a program as an operator. The answer is its number in the test, from 1.
func (s *Server) start(_ context.Context, p struct {
	Test    string   `json:"test"`
	Command []string `json:"command"`
	Env     []string `json:"env"`
	Folder  string   `json:"folder"`
},
) (number int, err error) {
	err = s.on(p.Test, func(t *test) error {
		op := t.kit.StartProgram(testkit.Program{Args: p.Command, Env: p.Env, Dir: p.Folder}, testkit.ClusterWide())
		t.mu.Lock()
		defer t.mu.Unlock()
		t.operators = append(t.operators, op)
		number = len(t.operators)
		return nil
	})
	return number, err
}

// An operator names an operator of a test.
type operator struct {
	Test     string `json:"test"`
	Operator int    `json:"operator"`
}

// instance returns an operator by its number. It is nil if there is none.
func (t *test) instance(number int) *testkit.Instance {
	t.mu.Lock()
	defer t.mu.Unlock()
	if number < 1 || number > len(t.operators) {
		return nil
	}
	return t.operators[number-1]
}

func (s *Server) onOperator(p operator, f func(op *testkit.Instance) error) error {
	return s.on(p.Test, func(t *test) error {
		op := t.instance(p.Operator)
		if op == nil {
			return jrpc2.Errorf(jrpc2.InvalidParams, "test %s has no operator %d", p.Test, p.Operator)
		}
		return f(op)
	})
}

// stop stops an operator gracefully.
func (s *Server) stop(_ context.Context, p operator) error {
	return s.onOperator(p, func(op *testkit.Instance) error { op.Stop(); return nil })
}

// kill kills an operator.
func (s *Server) kill(_ context.Context, p operator) error {
	return s.onOperator(p, func(op *testkit.Instance) error { op.Kill(); return nil })
}

// wait waits until an operator has ended, for example by a fault.
func (s *Server) wait(_ context.Context, p struct {
	operator

	Timeout float64 `json:"timeout"` // in seconds
},
) error {
	return s.onOperator(p.operator, func(op *testkit.Instance) error {
		select {
		case <-op.Done():
			return nil
		case <-time.After(seconds(p.Timeout)):
			return jrpc2.Errorf(failed, "the operator has not ended within %v", seconds(p.Timeout))
		}
	})
}

// idle waits until the operators of a test have sent no request, and its objects have not changed, for a quiet time.
func (s *Server) idle(_ context.Context, p struct {
	Test    string  `json:"test"`
	Quiet   float64 `json:"quiet"`   // in seconds
	Timeout float64 `json:"timeout"` // in seconds
},
) error {
	return s.on(p.Test, func(t *test) error {
		ctx, cancel := context.WithTimeout(t.ctx, seconds(p.Timeout))
		defer cancel()
		if t.interceptor.Idle(ctx, seconds(p.Quiet)) != nil {
			return jrpc2.Errorf(failed, "the operator was never idle for %v within %v", seconds(p.Quiet), seconds(p.Timeout))
		}
		return nil
	})
}

// watches ends the operators' watches of a kind: break is a lost connection, close a regular end, and expire makes the
// operators list again. The answer is the number of watches.
func (s *Server) watches(_ context.Context, p struct {
	Test  string `json:"test"`
	Kind  kind   `json:"kind"`
	Cause string `json:"cause"`
},
) (n int, err error) {
	err = s.on(p.Test, func(t *test) error {
		switch kind := intercept.GroupResource(p.Kind); p.Cause {
		case "break":
			n = t.interceptor.Break(kind)
		case "close":
			n = t.interceptor.Close(kind)
		case "expire":
			n = t.interceptor.Expire(kind)
		default:
			return jrpc2.Errorf(jrpc2.InvalidParams, "there is no cause %q; there are break, close and expire", p.Cause)
		}
		return nil
	})
	return n, err
}

// A kind is a resource in a group.
type kind struct {
	Group    string `json:"group"`
	Resource string `json:"resource"`
}

// outage makes the API server answer 503 to all requests of the operators, until its second call.
func (s *Server) outage(_ context.Context, p struct {
	Test string `json:"test"`
	Ends bool   `json:"ends"`
},
) (obstructed int, err error) {
	err = s.on(p.Test, func(t *test) error {
		if p.Ends {
			obstructed = t.interceptor.Clear()
			return nil
		}
		t.interceptor.Obstruct(func(req *http.Request, _ *intercept.Call) (*http.Response, bool, error) {
			return refusal(req, http.StatusServiceUnavailable), true, nil
		})
		return nil
	})
	return obstructed, err
}

// A request is one request of an operator.
type request struct {
	Verb        string `json:"verb"`
	Group       string `json:"group"`
	Resource    string `json:"resource"`
	Subresource string `json:"subresource"`
	Namespace   string `json:"namespace"`
	Name        string `json:"name"`
	Code        int    `json:"code"`
}

// requests returns the requests of an operator so far, without watches and leader election.
func (s *Server) requests(_ context.Context, p operator) (all []request, err error) {
	all = []request{}
	err = s.onOperator(p, func(op *testkit.Instance) error {
		for _, r := range op.Requests() {
			all = append(all, convert(r))
		}
		return nil
	})
	return all, err
}

func convert(r recorder.Request) request {
	return request{
		Verb: r.Verb, Group: r.Group, Resource: r.Resource, Subresource: r.Subresource, Namespace: r.Namespace, Name: r.Name,
		Code: r.Code,
	}
}

// addFault injects a fault at requests of the test's operators. The answer is its number.
func (s *Server) addFault(_ context.Context, p struct {
	Test string `json:"test"`

	injection
},
) (number int, err error) {
	err = s.on(p.Test, func(t *test) error {
		number, err = t.faults.add(&p.injection)
		return err
	})
	return number, err
}

// endFault removes a fault, or all with number 0. The answer is the number of requests that had it.
func (s *Server) endFault(_ context.Context, p struct {
	Test  string `json:"test"`
	Fault int    `json:"fault"`
},
) (hits int, err error) {
	err = s.on(p.Test, func(t *test) error {
		hits = t.faults.end(p.Fault)
		return nil
	})
	return hits, err
}

var modes = map[string]kubelet.Mode{
	"succeeded": kubelet.Succeeded, "failed": kubelet.Failed, "crash-loop": kubelet.CrashLoop, "evicted": kubelet.Evicted,
}

// failPods makes pods on simulated nodes fail in a mode of package kubelet.
func (s *Server) failPods(_ context.Context, p struct {
	Test   string `json:"test"`
	Labels string `json:"labels"`
	Mode   string `json:"mode"`
	// ExitCode ends the containers once, in place of a mode.
	ExitCode *int32 `json:"exitCode"`
},
) error {
	return s.on(p.Test, func(t *test) error {
		mode, ok := modes[p.Mode]
		if p.ExitCode != nil {
			mode, ok = kubelet.ExitedWith(*p.ExitCode), true
		}
		if !ok {
			return jrpc2.Errorf(jrpc2.InvalidParams, "there is no mode %q of pods; there are succeeded, failed, crash-loop and "+
				"evicted, or an exit code", p.Mode)
		}
		t.kit.Kubelet.Fail(p.Labels, mode)
		return nil
	})
}

// healPods reverts failPods.
func (s *Server) healPods(_ context.Context, p struct {
	Test   string `json:"test"`
	Labels string `json:"labels"`
},
) error {
	return s.on(p.Test, func(t *test) error {
		t.kit.Kubelet.Heal(p.Labels)
		return nil
	})
}

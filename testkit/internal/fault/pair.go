package fault

import (
	"fmt"
	"net/http"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/homeostat-dev/homeostat/testkit/internal/baseline"
	"github.com/homeostat-dev/homeostat/testkit/internal/intercept"
)

var pairErrors = Fault{
	Name: "pair-errors",
	Doc:  "A write fails with 500, and so does the next write.",
	Long: true,
	Plan: func(in *Input) []Plan {
		return atEachKind(in, func(t baseline.Target) Plan {
			return Plan{
				Name: "pair-errors/" + t.ID(), Fault: "pair-errors",
				Summary: fmt.Sprintf("the %s was answered with an internal error (500) and not carried out, nor was the next write", t),
				OnRequest: func(r Run, req *http.Request, _ *intercept.Call) (*http.Response, error) {
					r.LogFault("the API server answers an internal error (500)")
					r.Operator().Obstruct(failFirst(r, intercept.Call.IsWrite))
					return Reject(req, internalError), nil
				},
			}
		})
	},
}

var pairCrashWrite = Fault{
	Name: "pair-crash-write",
	Doc:  "The operator is killed right after a write, and the first write of its next process fails with 500.",
	Long: true,
	Plan: planPairCrash("pair-crash-write", "write", intercept.Call.IsWrite),
}

var pairCrashRead = Fault{
	Name: "pair-crash-read",
	Doc:  "The operator is killed right after a write, and the first read of each object by its next process fails with 500.",
	Long: true,
	Plan: planPairCrash("pair-crash-read", "read of each object", func(c intercept.Call) bool { return c.Verb == "get" }),
}

// planPairCrash returns a planner of crashes after which the first request of a kind fails.
func planPairCrash(fault, what string, fails func(intercept.Call) bool) func(in *Input) []Plan {
	return func(in *Input) []Plan {
		return atEachKind(in, func(t baseline.Target) Plan {
			return Plan{
				Name: fault + "/" + t.ID(), Fault: fault,
				Summary: fmt.Sprintf("the operator was killed right after the %s, and the first %s of its next process was answered "+
					"with an internal error (500)", t, what),
				OnResponse: func(r Run, c *intercept.Call, resp *http.Response) (*http.Response, error) {
					killed := c.Process
					r.Operator().Obstruct(failFirst(r, func(c intercept.Call) bool { return c.Process != killed && fails(c) }))
					return crash(r, c, resp)
				},
			}
		})
	}
}

// atEachKind returns a plan for the last effective write of each verb and kind: earlier ones are repeated in later steps.
func atEachKind(in *Input, plan func(t baseline.Target) Plan) []Plan {
	last, order := map[string]int{}, []string(nil)
	for i, t := range in.Calls {
		if !t.Writes || skipReason(t) != "" {
			continue
		}
		key := t.Verb + " " + t.Kind.String() + "/" + t.Subresource
		if _, known := last[key]; !known {
			order = append(order, key)
		}
		last[key] = i
	}
	plans := make([]Plan, 0, len(order))
	for _, key := range order {
		i := last[key]
		t := in.Calls[i]
		p := plan(t)
		p.Target = t.ID()
		p.Step = t.Step
		p.place = i
		p.ExtraQuiet = true
		p.SkipCounts = true
		p.KeepsObjects = true
		p.ShortGroup = "pair"
		plans = append(plans, p)
	}
	return plans
}

var internalError = metav1.Status{
	Message: "injected by testkit", Reason: metav1.StatusReasonInternalError, Code: http.StatusInternalServerError,
}

// failFirst returns an obstruction of the first write that fails selects, or of the first read of each object.
func failFirst(r Run, fails func(intercept.Call) bool) intercept.Obstruction {
	var failed sync.Map
	return func(req *http.Request, c *intercept.Call) (*http.Response, bool, error) {
		if intercept.IsLease(c.Request) || c.Resource == "" || c.Resource == "events" || !fails(*c) {
			return nil, false, nil
		}
		read := "" // all writes have one key
		if !c.IsWrite() {
			read = c.Resource + "/" + c.Namespace + "/" + c.Name
		}
		if _, known := failed.LoadOrStore(read, true); known {
			return nil, false, nil
		}
		r.LogFault("the API server answers an internal error (500) again")
		return Reject(req, internalError), true, nil
	}
}

package fault

import (
	"fmt"
	"net/http"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/homeostat-dev/homeostat/testkit/internal/baseline"
	"github.com/homeostat-dev/homeostat/testkit/internal/intercept"
	"github.com/homeostat-dev/homeostat/testkit/internal/webhookconfig"
)

// admissionDelay is the time by which a slow webhook answers late.
const admissionDelay = 500 * time.Millisecond

var webhookRefused = Fault{
	Name: "webhook-refused",
	Doc:  "A write is rejected, because the API server cannot call its admission webhook.",
	Plan: func(in *Input) []Plan {
		return atAdmissions(in, "webhook-refused", "was rejected, because its admission webhook was not served",
			func(r Run) bool {
				r.LogFault("the admission webhook is not served")
				return true
			})
	},
}

var webhookSlow = Fault{
	Name: "webhook-slow",
	Doc:  "The admission webhook of a write answers late.",
	Plan: func(in *Input) []Plan {
		return atAdmissions(in, "webhook-slow", fmt.Sprintf("was admitted by a webhook that answered %v late", admissionDelay),
			func(r Run) bool {
				r.LogFault(fmt.Sprintf("the admission webhook answers %v late", admissionDelay))
				select {
				case <-time.After(admissionDelay):
				case <-r.Space().Context().Done():
				}
				return false
			})
	},
}

// atAdmissions returns the plans for each write of the operator that webhooks admit.
func atAdmissions(in *Input, fault, summary string, by func(r Run) (refuse bool)) []Plan {
	var plans []Plan
	for i, t := range in.Calls {
		of, ok := admissionOf(in, t)
		if !ok {
			continue
		}
		if why := skipReason(t); why != "" {
			plans = append(plans, skipped(fault, t.ID(), why, i))
			continue
		}
		plans = append(plans, Plan{
			Name: fault + "/" + t.ID(), Fault: fault, Target: t.ID(), Step: t.Step, place: i, ExtraQuiet: true,
			Summary: fmt.Sprintf("the %s %s", t, summary),
			OnRequest: func(r Run, _ *http.Request, c *intercept.Call) (*http.Response, error) {
				r.Space().Webhooks().Obstruct(of, c.Name, func() bool { return by(r) })
				return nil, nil //nolint:nilnil // the request passes
			},
			OnResponse: func(r Run, _ *intercept.Call, resp *http.Response) (*http.Response, error) {
				if r.Space().Webhooks().Clear() {
					r.MarkUntried("no webhook was called for the request")
				}
				return resp, nil
			},
		})
	}
	return plans
}

// admissionOf returns how webhooks see a write, and whether they do.
func admissionOf(in *Input, t baseline.Target) (of webhookconfig.Admission, ok bool) {
	of.Resource = schema.GroupResource{Group: t.Kind.Group, Resource: t.Kind.Resource}
	of.Subresource = t.Subresource
	switch {
	case t.Verb == "create" || t.Creates:
		of.Operation = admissionv1.Create
	case t.Verb == "delete":
		of.Operation = admissionv1.Delete
	default:
		of.Operation = admissionv1.Update
	}
	return of, t.Writes && in.Admitted[of]
}

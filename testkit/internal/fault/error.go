package fault

import (
	"fmt"
	"net/http"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/homeostat-dev/homeostat/testkit/internal/intercept"
)

var error500 = failure{
	name: "error-500", text: "an internal error (500)",
	code: http.StatusInternalServerError, reason: metav1.StatusReasonInternalError, reads: true,
}.fault()

var error503 = failure{
	name: "error-503", text: "503 Service Unavailable",
	code: http.StatusServiceUnavailable, reason: metav1.StatusReasonServiceUnavailable,
}.fault()

var error429 = failure{
	name: "error-429", text: "429 Too Many Requests with Retry-After",
	code: http.StatusTooManyRequests, reason: metav1.StatusReasonTooManyRequests,
}.fault()

// failure is an error that an API server returns occasionally.
type failure struct {
	name, text string
	code       int32
	reason     metav1.StatusReason
	reads      bool // injected at reads as well
}

func (f failure) fault() Fault {
	return Fault{Name: f.name, Doc: "A request fails with " + f.text + ", and is not carried out.", Plan: f.plan}
}

func (f failure) plan(in *Input) []Plan {
	var plans []Plan
	isRead := map[string]bool{} // by verb and kind
	for i, t := range in.Calls {
		read := t.Verb + " " + t.Kind.String()
		switch why := skipReason(t); {
		case why != "":
			plans = append(plans, skipped(f.name, t.ID(), why, i))
		case !t.Writes && !f.reads:
			plans = append(plans, skipped(f.name, t.ID(), "a failed read is repeated after every kind of error", i))
		default:
			first := !t.Writes && !isRead[read] // operators read each kind by code of its own
			isRead[read] = isRead[read] || first
			plans = append(plans, Plan{
				Name: f.name + "/" + t.ID(), Fault: f.name, Target: t.ID(), Step: t.Step, place: i, ExtraQuiet: true, Required: first,
				Summary: fmt.Sprintf("the %s was answered with %s and not carried out", t, f.text),
				OnRequest: func(r Run, req *http.Request, _ *intercept.Call) (*http.Response, error) {
					r.LogFault("the API server answers " + f.text)
					return Reject(req, metav1.Status{Message: "injected by testkit", Reason: f.reason, Code: f.code}), nil
				},
			})
		}
	}
	return plans
}

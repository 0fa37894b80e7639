package fault

import (
	"fmt"
	"net/http"

	"github.com/homeostat-dev/homeostat/testkit/internal/intercept"
)

var lostResponse = Fault{
	Name: "lost-answer",
	Doc:  "A write is carried out, and its response is lost.",
	Plan: func(in *Input) []Plan {
		var plans []Plan
		for i, t := range in.Calls {
			if !t.Writes {
				continue
			}
			if why := skipReason(t); why != "" {
				plans = append(plans, skipped("lost-answer", t.ID(), why, i))
				continue
			}
			plans = append(plans, Plan{
				Name: "lost-answer/" + t.ID(), Fault: "lost-answer", Target: t.ID(), Step: t.Step, place: i,
				ExtraQuiet: true,
				Summary:    fmt.Sprintf("the %s was carried out, but its answer never arrived", t),
				OnResponse: func(r Run, _ *intercept.Call, resp *http.Response) (*http.Response, error) {
					_ = resp.Body.Close()
					r.LogFault("the answer is lost")
					return nil, errLost
				},
			})
		}
		return plans
	},
}

// lostError is the error of a client when the connection breaks after the request was sent.
type lostError struct{}

func (lostError) Error() string   { return "the connection was broken before the answer arrived" }
func (lostError) Timeout() bool   { return true }
func (lostError) Temporary() bool { return true }

var errLost error = lostError{}

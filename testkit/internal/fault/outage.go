package fault

import (
	"fmt"
	"net/http"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/homeostat-dev/homeostat/testkit/internal/intercept"
)

// The durations of outages. Leader elections survive them.
const (
	outageTime   = 5 * time.Second
	restartTime  = time.Second
	responseTime = 500 * time.Millisecond // of a slow API server
)

var outageRefused = Fault{
	Name: "outage-refused",
	Doc:  "The API server answers every request with 503 for 5 seconds. Open watches stay.",
	Long: true,
	Plan: func(in *Input) []Plan {
		return planOutage(in, "outage-refused", "every request was answered with 503 Service Unavailable for 5 seconds",
			func(r Run) { obstruct(r, refuse) }, outageTime)
	},
}

var outageSlow = Fault{
	Name: "outage-slow",
	Doc:  "The API server answers every request half a second late for 5 seconds.",
	Long: true,
	Plan: func(in *Input) []Plan {
		return planOutage(in, "outage-slow", "every request was answered half a second late for 5 seconds",
			func(r Run) { obstruct(r, delay) }, outageTime)
	},
}

var outageRestarted = Fault{
	Name: "outage-restarted",
	Doc:  "The API server is restarted: all watches break, and every request is answered with 503 for a second.",
	Long: true,
	Plan: func(in *Input) []Plan {
		return planOutage(in, "outage-restarted", "the API server was restarted", func(r Run) {
			obstruct(r, refuse)
			for _, kind := range in.Opened {
				r.Operator().Break(kind)
			}
		}, restartTime)
	},
}

// planOutage returns a plan for the step with most writes. The outage begins before the step.
func planOutage(in *Input, fault, text string, begin func(r Run), lasts time.Duration) []Plan {
	step := busiestStep(in)
	if step < 0 {
		return nil
	}
	return []Plan{{
		Name: fault + "@" + slug(in.Steps[step]), Fault: fault, Step: step + 1, place: step,
		ExtraQuiet: true, MergesEvents: true, SkipCounts: true, KeepsObjects: true, ShortGroup: "outage",
		Summary: fmt.Sprintf("during step %q %s", in.Steps[step], text),
		Before: func(r Run, at int) {
			if at == step {
				if step == 0 {
					awaitWatches(r, in.Opened)
				}
				begin(r)
			}
		},
		During: func(r Run, at int) {
			if at != step {
				return
			}
			select {
			case <-time.After(lasts):
			case <-r.Space().Context().Done():
			}
			if r.Operator().Clear() == 0 {
				r.MarkUntried("the operator sent no request meanwhile")
			}
			r.LogFault("the API server works again")
			r.Operator().ResetIdleTime()
		},
	}}
}

// busiestStep returns the step with most effective writes, or -1 if there are none. Of equal steps it is the last, which
// finds a filled cache.
func busiestStep(in *Input) int {
	writes, busiest := make([]int, len(in.Steps)), -1
	for _, t := range in.Calls {
		if at := t.Step - 1; at >= 0 && at < len(writes) && t.Writes && t.Effective {
			writes[at]++
		}
	}
	for at, n := range writes {
		if n > 0 && (busiest < 0 || n >= writes[busiest]) {
			busiest = at
		}
	}
	return busiest
}

func obstruct(r Run, by intercept.Obstruction) {
	r.LogFault("the API server stops working")
	r.Operator().Obstruct(by)
}

// refuse answers a request with 503.
func refuse(req *http.Request, _ *intercept.Call) (*http.Response, bool, error) {
	status := metav1.Status{
		Message: "injected by testkit", Reason: metav1.StatusReasonServiceUnavailable, Code: http.StatusServiceUnavailable,
	}
	return Reject(req, status), true, nil
}

// delay delays a request.
func delay(req *http.Request, _ *intercept.Call) (*http.Response, bool, error) {
	select {
	case <-time.After(responseTime):
		return nil, true, nil
	case <-req.Context().Done():
		return nil, true, req.Context().Err()
	}
}

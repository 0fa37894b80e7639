package fault

import (
	"fmt"
	"net/http"
	"time"

	"github.com/homeostat-dev/homeostat/testkit/internal/baseline"
	"github.com/homeostat-dev/homeostat/testkit/internal/external"
)

// exchangeDelay is the time by which a slow external service answers late.
const exchangeDelay = 500 * time.Millisecond

var externalRefused = Fault{
	Name: "external-refused",
	Doc:  "An external service refuses a request with 503, or the connection breaks before it has the request.",
	Plan: func(in *Input) []Plan {
		return atExchanges(in, func(e baseline.Exchange) []Plan {
			unavailable := planExchange("external-refused", e, "was answered with 503, and not handled",
				func(r Run, _ int, x *external.Exchange) {
					r.LogFault("the external service answers 503")
					x.Refuse(http.StatusServiceUnavailable)
				})
			disconnected := planExchange("external-refused", e, "did not reach the service",
				func(r Run, _ int, x *external.Exchange) {
					r.LogFault("the connection to the external service breaks")
					x.Lost = true
				})
			disconnected.Name += ":disconnected"
			return []Plan{unavailable, disconnected}
		})
	},
}

var externalSlow = Fault{
	Name: "external-slow",
	Doc:  "An external service handles a request, and answers late.",
	Plan: func(in *Input) []Plan {
		return atExchanges(in, func(e baseline.Exchange) []Plan {
			return []Plan{planExchange("external-slow", e, fmt.Sprintf("was answered %v late", exchangeDelay),
				func(r Run, _ int, x *external.Exchange) {
					x.Serve()
					r.LogFault(fmt.Sprintf("the external service answers %v late", exchangeDelay))
					select {
					case <-time.After(exchangeDelay):
					case <-r.Space().Context().Done():
					}
				})}
		})
	},
}

var externalLost = Fault{
	Name: "external-lost",
	Doc:  "An external service handles a request, and its answer is lost.",
	Plan: func(in *Input) []Plan {
		return atExchanges(in, func(e baseline.Exchange) []Plan {
			return []Plan{planExchange("external-lost", e, "was handled, but its answer never arrived",
				func(r Run, _ int, x *external.Exchange) {
					x.Serve()
					r.LogFault("the answer of the external service is lost")
					x.Lost = true
				})}
		})
	},
}

// crashesBeforeExchange returns the plans of fault crash-before at requests to external services.
func crashesBeforeExchange(in *Input) []Plan {
	return atExchanges(in, func(e baseline.Exchange) []Plan {
		return []Plan{planExchange("crash-before", e, "was not sent: the operator was killed right before, and started again",
			func(r Run, process int, x *external.Exchange) {
				r.Crash(process)
				x.Lost = true
			})}
	})
}

// crashesAfterExchange returns the plans of fault crash-after at requests to external services.
func crashesAfterExchange(in *Input) []Plan {
	return atExchanges(in, func(e baseline.Exchange) []Plan {
		return []Plan{planExchange("crash-after", e, "was handled, and the operator was killed right after, and started again",
			func(r Run, process int, x *external.Exchange) {
				x.Serve()
				r.Crash(process)
				x.Lost = true
			})}
	})
}

func planExchange(
	fault string, e baseline.Exchange, summary string, do func(r Run, process int, x *external.Exchange),
) Plan {
	return Plan{
		Name: fault + "/" + e.ID(), Fault: fault, Exchange: e.ID(), Step: e.Step, ExtraQuiet: true,
		Summary: fmt.Sprintf("the %s %s", e, summary), OnExchange: do,
	}
}

// atExchanges returns the plans for each request to an external service that is worth a run. A short exploration
// loses the answer of the first POST: its repetition may create a second entry.
func atExchanges(in *Input, plan func(e baseline.Exchange) []Plan) []Plan {
	var plans []Plan
	posted := false
	for i, e := range in.Exchanges {
		if e.Number > maxRepeats {
			continue
		}
		first := e.Method == http.MethodPost && !posted
		posted = posted || first
		for _, p := range plan(e) {
			p.place = i
			p.Required = first && (p.Fault == "external-lost" || p.Fault == "crash-after")
			plans = append(plans, p)
		}
	}
	return plans
}

package remote

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/creachadair/jrpc2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/homeostat-dev/homeostat/testkit"
	"github.com/homeostat-dev/homeostat/testkit/internal/fault"
	"github.com/homeostat-dev/homeostat/testkit/internal/intercept"
)

// An injection is a fault at some requests of an operator.
type injection struct {
	// Action is what happens: see actions.
	Action string `json:"action"`
	// Verb, Resource, Subresource and Name select requests. Empty means any; without a verb it is any write. The resource is
	// a plural, such as deployments, and may have a group: deployments.apps.
	Verb        string `json:"verb"`
	Resource    string `json:"resource"`
	Subresource string `json:"subresource"`
	Name        string `json:"name"`
	// After is the number of matching requests that pass before. Times is the number of requests with the fault; 0 means all.
	After int `json:"after"`
	Times int `json:"times"`
	// Code is the HTTP status of a refusal; 0 means 500. Seconds is the length of a delay.
	Code    int32   `json:"code"`
	Seconds float64 `json:"seconds"`

	number  int
	matched int
}

// actions are the faults.
var actions = []string{"refuse", "lose", "delay", "kill-before", "kill-after"}

// faults holds the faults of a test. It is a hook for the requests of its operators.
type faults struct {
	mu      sync.Mutex
	all     []*injection
	count   int
	process func(number int) *testkit.Instance
}

// reasons are the reasons that the API server gives with a code.
var reasons = map[int32]metav1.StatusReason{
	http.StatusForbidden: metav1.StatusReasonForbidden, http.StatusNotFound: metav1.StatusReasonNotFound,
	http.StatusConflict: metav1.StatusReasonConflict, http.StatusUnprocessableEntity: metav1.StatusReasonInvalid,
	http.StatusTooManyRequests: metav1.StatusReasonTooManyRequests, http.StatusGatewayTimeout: metav1.StatusReasonTimeout,
	http.StatusInternalServerError: metav1.StatusReasonInternalError,
	http.StatusServiceUnavailable:  metav1.StatusReasonServiceUnavailable,
}

// Before implements intercept.Hook.
func (f *faults) Before(req *http.Request, c *intercept.Call) (*http.Response, error) {
	i := f.match(c)
	if i == nil {
		return nil, nil //nolint:nilnil // the request passes
	}
	switch i.Action {
	case "refuse":
		return refusal(req, i.Code), nil
	case "delay":
		select {
		case <-time.After(seconds(i.Seconds)):
		case <-req.Context().Done():
		}
		return nil, nil //nolint:nilnil // the request passes
	case "kill-before":
		return nil, f.kill(req.Context(), c)
	default:
		c.Target = i.Action
		return nil, nil //nolint:nilnil // the fault is at the response
	}
}

func refusal(req *http.Request, code int32) *http.Response {
	return fault.Reject(req, metav1.Status{Message: "injected by testkit", Reason: reasons[code], Code: code})
}

// After implements intercept.Hook.
func (f *faults) After(req *http.Request, c *intercept.Call, resp *http.Response) (*http.Response, error) {
	switch c.Target {
	case "lose":
		_ = resp.Body.Close()
		return nil, lostError{}
	case "kill-after":
		_ = resp.Body.Close()
		return nil, f.kill(req.Context(), c)
	default:
		return resp, nil
	}
}

// lostError is the error of a request whose response is lost.
type lostError struct{}

// Error implements error.
func (lostError) Error() string { return "the connection was broken before the answer arrived" }

// kill kills the operator that sent a request. The request never ends for it.
func (f *faults) kill(ctx context.Context, c *intercept.Call) error {
	if op := f.process(c.Process); op != nil {
		go op.Kill() // it ends the request
		<-ctx.Done()
	}
	return intercept.ErrDisconnected
}

// match returns the first fault at a request, and counts the request.
func (f *faults) match(c *intercept.Call) (hit *injection) {
	if c.Verb == "watch" || intercept.IsLease(c.Request) || c.Resource == "" {
		return nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, i := range f.all {
		if !i.selects(c) {
			continue
		}
		i.matched++
		if hit == nil && i.matched > i.After && (i.Times == 0 || i.matched <= i.After+i.Times) {
			hit = i
		}
	}
	return hit
}

func (i *injection) selects(c *intercept.Call) bool {
	resource, group, grouped := strings.Cut(i.Resource, ".")
	switch {
	case i.Verb == "" && !c.IsWrite(), i.Verb != "" && i.Verb != c.Verb, i.Name != "" && i.Name != c.Name:
		return false
	case i.Resource == "":
		return true
	default:
		return resource == c.Resource && (!grouped || group == c.Group) && i.Subresource == c.Subresource
	}
}

func (f *faults) add(i *injection) (int, error) {
	switch {
	case !slices.Contains(actions, i.Action):
		return 0, jrpc2.Errorf(jrpc2.InvalidParams, "there is no fault %q; there are %s", i.Action, strings.Join(actions, ", "))
	case strings.Contains(i.Resource, "/"):
		return 0, jrpc2.Errorf(jrpc2.InvalidParams, "resource %q: name the subresource apart", i.Resource)
	}
	if i.Code == 0 {
		i.Code = http.StatusInternalServerError
	}
	if strings.HasPrefix(i.Action, "kill") {
		i.Times = 1
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.count++
	i.number = f.count
	f.all = append(f.all, i)
	return i.number, nil
}

// end removes a fault, or all if number is 0. It returns the number of requests that had it.
func (f *faults) end(number int) (hits int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.all = slices.DeleteFunc(f.all, func(i *injection) bool {
		if number != 0 && i.number != number {
			return false
		}
		n := max(0, i.matched-i.After)
		if i.Times > 0 {
			n = min(n, i.Times)
		}
		hits += n
		return true
	})
	return hits
}

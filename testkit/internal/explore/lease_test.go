package explore

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/homeostat-dev/homeostat/testkit/internal/fault"
	"github.com/homeostat-dev/homeostat/testkit/internal/intercept"
	"github.com/homeostat-dev/homeostat/testkit/internal/space"
)

// endedProcess is a process that has ended.
type endedProcess struct{}

func (endedProcess) Kill() {}
func (endedProcess) Stop() {}
func (endedProcess) Done() <-chan struct{} {
	done := make(chan struct{})
	close(done)
	return done
}

// An operator that ends, because the API server was too slow for it to renew its Lease, has no bug: the plan is untried.
func TestSlowLease(t *testing.T) {
	t.Parallel()
	const lease, other = "/apis/coordination.k8s.io/v1/namespaces/a/leases/b", "/api/v1/namespaces/a/configmaps/b"
	for name, test := range map[string]struct {
		path    string
		delay   time.Duration
		untried bool
	}{
		"late":          {lease, slowLease, true},
		"in time":       {lease, 0, false},
		"other request": {other, slowLease, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			plan := &fault.Plan{Name: "failover@create", Fault: "failover", Replicas: 2}
			ps := &processes{
				plan: plan, space: space.New(t.Context(), "a"), operator: intercept.New(nil),
				out: &outcome{
					enabled: func(string) bool { return true }, injected: map[string]bool{}, untriedReasons: map[string]string{},
				},
				byNumber: map[int]Process{}, killed: map[int]bool{}, exits: toleratedExits,
			}
			server := roundTrip(func(*http.Request) (*http.Response, error) {
				time.AfterFunc(test.delay, ps.space.Cancel)
				<-ps.space.Context().Done()
				return nil, ps.space.Context().Err()
			})
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPut, "http://127.0.0.1"+test.path, nil)
			if err != nil {
				t.Fatal(err)
			}
			resp, err := ps.operator.Transport(1, server).RoundTrip(req)
			if err == nil {
				t.Fatalf("the request is answered: %v", resp.Body.Close())
			}
			ps.space = space.New(t.Context(), "a")
			ps.superviseProcess(1, endedProcess{})
			reason := ps.out.untriedReason(plan)
			if got := strings.Contains(reason, "lost its Lease"); got != test.untried || got != ps.out.discarded {
				t.Errorf("the plan is untried: %t (%q), discarded: %t; want %t", got, reason, ps.out.discarded, test.untried)
			}
			if exit := len(ps.out.violations) == 1; exit == test.untried {
				t.Errorf("the exit is a violation: %t, want %t", exit, !test.untried)
			}
		})
	}
}

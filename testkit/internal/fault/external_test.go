package fault_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/homeostat-dev/homeostat/testkit/internal/baseline"
	"github.com/homeostat-dev/homeostat/testkit/internal/fault"
)

// Each request to an external service has a plan of each fault, and a crash before and after it. Repetitions have none.
func TestPlansOfExchanges(t *testing.T) {
	t.Parallel()
	post := baseline.Exchange{Service: 1, Method: "POST", Path: "/teams/a/members", Number: 1, Step: 1}
	get := baseline.Exchange{Service: 2, Method: "GET", Path: "/", Number: 4, Step: 1}
	in := &fault.Input{Baseline: &baseline.Baseline{Exchanges: []baseline.Exchange{post, get}}}
	var got []string
	for _, p := range fault.Plans(in) {
		if p.Exchange != "" {
			got = append(got, p.Name)
		}
	}
	want := []string{
		"crash-before/external-post-teams.a.members#1", "crash-after/external-post-teams.a.members#1",
		"external-refused/external-post-teams.a.members#1",
		"external-refused/external-post-teams.a.members#1:disconnected",
		"external-slow/external-post-teams.a.members#1", "external-lost/external-post-teams.a.members#1",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("plans (-want +got):\n%s", diff)
	}
	if got := get.ID(); got != "external2-get#4" {
		t.Errorf("a request to the root of the second service is %s", got)
	}
}

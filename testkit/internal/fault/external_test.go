package fault_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/homeostat-dev/homeostat/testkit/internal/baseline"
	"github.com/homeostat-dev/homeostat/testkit/internal/fault"
)

// A short exploration tries whether the first creation is repeated.
func TestRequiredPlansOfExchanges(t *testing.T) {
	t.Parallel()
	put := baseline.Exchange{Service: 1, Method: "PUT", Path: "/teams/a", Number: 1, Step: 1}
	post := baseline.Exchange{Service: 1, Method: "POST", Path: "/teams", Number: 1, Step: 1}
	second := baseline.Exchange{Service: 1, Method: "POST", Path: "/teams", Number: 2, Step: 1}
	in := &fault.Input{Baseline: &baseline.Baseline{Exchanges: []baseline.Exchange{put, post, second}}}
	var got []string
	for _, p := range fault.Plans(in) {
		if p.Required && p.Exchange != "" {
			got = append(got, p.Name)
		}
	}
	if diff := cmp.Diff([]string{"crash-after/external-post-teams#1", "external-lost/external-post-teams#1"}, got); diff != "" {
		t.Errorf("plans (-want +got):\n%s", diff)
	}
}

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

package environment

import (
	"os"
	"testing"

	"github.com/homeostat-dev/homeostat/testkit/cluster"
	"github.com/homeostat-dev/homeostat/testkit/internal/process"
)

// Neither a private environment nor one with real nodes outlasts the test binary of a package.
func TestEnvironmentsThatLast(t *testing.T) {
	t.Parallel()
	if parent, err := process.Command(os.Getppid()); err != nil || parent != "go" {
		t.Skipf("this test binary is started by %s, not by the go command: %v", parent, err)
	}
	for _, tt := range []struct {
		req  Request
		want bool
	}{
		{Request{Tier: cluster.API, UntilGoCommandEnds: true}, true},
		{Request{Tier: cluster.Workloads, UntilGoCommandEnds: true}, true},
		{Request{Tier: cluster.API, UntilGoCommandEnds: true, Private: true}, false},
		{Request{Tier: cluster.Real, UntilGoCommandEnds: true}, false},
		{Request{Tier: cluster.API}, false},
	} {
		h, err := newLeaseRequest(tt.req)
		if err != nil {
			t.Fatal(err)
		}
		if got := h.Until != nil; got != tt.want {
			t.Errorf("%+v lasts until the go command ends: %t, want %t", tt.req, got, tt.want)
		}
	}
}

package baseline_test

import (
	"testing"

	"github.com/homeostat-dev/homeostat/testkit/internal/baseline"
)

func TestPaths(t *testing.T) {
	t.Parallel()
	paths := baseline.LearnPaths(
		[]string{"/teams", "/teams/tm_a8x", "/teams/tm_a8x/members/mb_1q", "/teams/fixed", "/debug"},
		[]string{"/teams", "/teams/tm_9zz", "/teams/tm_9zz", "/teams/tm_9zz/members/mb_7w", "/teams/fixed"},
		[]string{"/teams/fixed", "/teams", "/teams/tm_k2l", "/teams/tm_k2l/members/mb_0o"},
	)
	for path, want := range map[string]string{
		"/teams":                       "/teams",
		"/teams/fixed":                 "/teams/fixed",
		"/teams/tm_new":                "/teams/$ID",
		"/teams/tm_new/members/mb_new": "/teams/$ID/members/$ID",
		"/teams/tm_new/owners/mb_new":  "/teams/tm_new/owners/mb_new",
		"/teams/":                      "/teams/",
		"/debug":                       "/debug", // one run only
	} {
		if got := paths.Canonical(path); got != want {
			t.Errorf("Canonical(%q) = %q, want %q", path, got, want)
		}
	}
	if got := (baseline.Paths{}).Canonical("/teams/tm_new"); got != "/teams/tm_new" {
		t.Errorf("the zero value changes the path to %q", got)
	}
}

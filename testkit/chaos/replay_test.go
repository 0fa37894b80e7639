package chaos

import "testing"

func TestReplay(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ plan, want string }{
		"a plan is a subtest": {
			"crash-after/create-pods-web#1", `go test -run '^TestFaults$/^crash-after$/^create-pods-web#1$' .`,
		},
		"spaces are underscores, as in names of subtests": {
			"drift-down/web scaled", `go test -run '^TestFaults$/^drift-down$/^web_scaled$' .`,
		},
		"combined plans are selected by the seed": {
			"error-500/a#1 + lag/pods@edit", `go test -run '^TestFaults$' . -short -testkit.seed=7`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := replay("TestFaults", tc.plan, 7); got != tc.want {
				t.Errorf("replay returned %q, want %q", got, tc.want)
			}
		})
	}
}

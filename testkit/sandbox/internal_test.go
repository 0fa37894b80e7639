package sandbox

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestLocalize(t *testing.T) {
	t.Parallel()
	local := map[string]string{"bind": "127.0.0.1:1", "leader-elect": "false"}
	tests := map[string]struct {
		reason string
		args   []string
		want   []string
	}{
		"Absent":   {"nobody knows whether the program has the flag", []string{"--x=1"}, []string{"--x=1"}},
		"Inline":   {"the value is replaced", []string{"--bind=:8080"}, []string{"--bind=127.0.0.1:1"}},
		"Separate": {"so is one of its own", []string{"--bind", ":8080", "y"}, []string{"--bind=127.0.0.1:1", "y"}},
		"OneDash":  {"Go's flags take one dash", []string{"-bind=:8080"}, []string{"--bind=127.0.0.1:1"}},
		"Switch":   {"a flag without a value", []string{"--leader-elect", "--x"}, []string{"--leader-elect=false", "--x"}},
		"Word":     {"it only looks like a flag's name", []string{"leader-elect"}, []string{"leader-elect"}},
	}
	for name, tt := range tests {
		if diff := cmp.Diff(tt.want, localize(tt.args, local)); diff != "" {
			t.Errorf("%s (-want +got), because %s:\n%s", name, tt.reason, diff)
		}
	}
}

package sandbox

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestWorthWatching(t *testing.T) {
	t.Parallel()
	for kind, want := range map[schema.GroupKind]bool{
		{Group: "apps", Kind: "Deployment"}:                true,
		{Group: "batch", Kind: "CronJob"}:                  true,
		{Kind: "Pod"}:                                      true,
		{Group: "example.com", Kind: "Widget"}:             true,
		{Kind: "ConfigMap"}:                                false,
		{Kind: "Namespace"}:                                false,
		{Group: "rbac.authorization.k8s.io", Kind: "Role"}: false,
	} {
		if got := worthWatching(kind); got != want {
			t.Errorf("%v: %t, want %t", kind, got, want)
		}
	}
}

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

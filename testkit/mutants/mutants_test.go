package mutants_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/homeostat-dev/homeostat/testkit"
	"github.com/homeostat-dev/homeostat/testkit/mutants"
)

func TestMain(m *testing.M) {
	testkit.Main(m, testkit.Env{
		FS: mutants.Files, CRDs: mutants.CRDs, RBAC: mutants.RBAC, AddToScheme: mutants.AddToScheme,
	})
}

func TestAll(t *testing.T) {
	t.Parallel()
	var classes []string
	for _, m := range mutants.CorrectTwins() {
		classes = append(classes, m.Class)
		if m.Name != m.Class+"/correct" || !m.IsCorrect() {
			t.Errorf("twin %+v", m)
		}
	}
	want := []string{
		"hot-loop", "crash", "stale-cache", "missed-state", "path-dependence", "deletion", "rbac", "drift",
		"foreign-object", "outage", "recreated-input", "stale-pass", "dead-watch", "two-faults",
		"injector", "clock", "every-run", "across-namespaces",
	}
	if diff := cmp.Diff(want, classes); diff != "" {
		t.Errorf("classes with a twin (-want +got):\n%s", diff)
	}
	count, seen := map[string]int{}, map[string]bool{}
	for _, m := range mutants.All() {
		count[m.Class]++
		switch {
		case m.IsCorrect() || seen[m.Name] || !strings.HasPrefix(m.Name, m.Class+"/"):
			t.Errorf("mutant %q of class %q", m.Name, m.Class)
		case !strings.HasSuffix(m.Description, ".") || len(m.Steps) == 0 || m.Setup == nil:
			t.Errorf("mutant %q is not complete", m.Name)
		}
		seen[m.Name] = true
	}
	for _, class := range want {
		if count[class] < 3 {
			t.Errorf("class %s has %d mutants, want at least 3", class, count[class])
		}
	}
}

// TestEnv checks the environment of a package that tests one operator alone, with its own manifests.
func TestEnv(t *testing.T) {
	t.Parallel()
	for _, m := range append(mutants.CorrectTwins(), mutants.All()...) {
		env := m.Env()
		if _, err := env.FS.Open(env.RBAC); err != nil {
			t.Errorf("%s: its roles: %v", m.Name, err)
		}
		if want := fmt.Sprintf("%s/%s.yaml", mutants.RBAC, m.ServiceAccount); env.RBAC != want {
			t.Errorf("%s: its roles are in %s, want %s", m.Name, env.RBAC, want)
		}
	}
}

package explore_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/homeostat-dev/homeostat/testkit"
	"github.com/homeostat-dev/homeostat/testkit/internal/explore"
	"github.com/homeostat-dev/homeostat/testkit/internal/kitadapter"
	"github.com/homeostat-dev/homeostat/testkit/internal/scenario"
)

// A state of never is compared in the version that the scenario names. The API server prefers v2, which has no spec.level.
func TestNeverInFormerVersion(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "scenario.yaml")
	content := `steps:
- name: create
  apply:
    apiVersion: explore.homeostat.dev/v1
    kind: Lamp
    metadata: {name: desk}
    spec: {level: bright}
never:
- {apiVersion: explore.homeostat.dev/v1, kind: Lamp, name: desk, field: spec.level, value: bright}
`
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	read, err := scenario.Read(file)
	if err != nil {
		t.Fatal(err)
	}
	options := explore.Options{
		Opener: kitadapter.Open, Name: "lamps", Seed: 1, Faults: []string{"none"},
		Subject: kitadapter.InProcess(func(k *testkit.K, opts ...testkit.StartOption) explore.Process {
			return k.Start(setupLamps, append(opts, testkit.WithConfig(k.Config))...)
		}),
	}
	options.Script(read)
	r := run(t, options)
	if found := violationsOf(r); !slices.Contains(found, "none/1: never") {
		t.Errorf("the rules %v were violated, want never\n%s", found, text(t, r))
	}
}

package explore_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/homeostat-dev/homeostat/testkit"
	"github.com/homeostat-dev/homeostat/testkit/internal/explore"
	"github.com/homeostat-dev/homeostat/testkit/internal/report"
	"github.com/homeostat-dev/homeostat/testkit/mutants"
)

func TestMain(m *testing.M) {
	testkit.Main(m, testkit.Env{
		FS: mutants.Files, CRDs: mutants.CRDs, RBAC: mutants.RBAC, AddToScheme: mutants.AddToScheme,
	})
}

// of returns what it takes to explore the operator of that name.
func of(t *testing.T, name string) explore.Options {
	t.Helper()
	all := append(mutants.All(), mutants.Correct()...)
	i := slices.IndexFunc(all, func(m mutants.Mutant) bool { return m.Name == name })
	if i < 0 {
		t.Fatalf("there is no operator %s", name)
	}
	m := all[i]
	o := explore.Options{
		Name: name, StopAtFailure: true, Patience: testkit.DefaultTimeout, Parallel: 2, Seed: 1,
		Subject: explore.InProcess(func(k *testkit.K, opts ...testkit.StartOption) explore.Process {
			return k.Start(m.Setup, append(opts, testkit.WithConfig(k.ServiceAccount(m.ServiceAccount)))...)
		}),
	}
	for _, s := range m.Steps {
		o.Steps = append(o.Steps, explore.Step{Name: s.Name, Do: s.Do})
	}
	return o
}

func run(t *testing.T, o explore.Options) *report.Report {
	t.Helper()
	cfg, err := testkit.Config(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	x, err := explore.New(t.Context(), cfg, o)
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	r, err := x.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// found says which oracles spoke up, and under which plan, as "plan: oracle".
func found(r *report.Report) []string {
	var all []string
	for _, run := range r.Failures() {
		for _, v := range run.Violations {
			all = append(all, run.Name+": "+v.Oracle)
		}
	}
	return all
}

func text(t *testing.T, r *report.Report) string {
	t.Helper()
	var b strings.Builder
	if err := report.WriteText(&b, r); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

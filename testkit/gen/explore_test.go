package gen

import (
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/homeostat-dev/homeostat/sdk"
	"github.com/homeostat-dev/homeostat/testkit"
	"github.com/homeostat-dev/homeostat/testkit/mutants"
)

func TestMain(m *testing.M) {
	testkit.Main(m, testkit.Env{
		FS: mutants.Files, CRDs: mutants.CRDs, RBAC: mutants.RBAC, AddToScheme: mutants.AddToScheme,
	})
}

// operator is a mutant or its twin.
type operator struct{ mutants.Mutant }

// SetupWithManager implements testkit.Runnable. The manager's cache sees the test's namespace alone.
func (o operator) SetupWithManager(mgr manager.Manager, _ ...sdk.SetupOption) error {
	return o.Setup(mgr)
}

// of prepares the exploration of the operator of that name.
func of(t *testing.T, name, kind string, opts ...Option) *campaign {
	t.Helper()
	all := append(mutants.All(), mutants.Correct()...)
	i := slices.IndexFunc(all, func(m mutants.Mutant) bool { return m.Name == name })
	if i < 0 {
		t.Fatalf("there is no operator %s", name)
	}
	source := From("../mutants/config/crd/mutants.homeostat.dev_"+kind+".yaml", "testdata/"+kind+".yaml")
	return begin(t, operator{all[i]}, source, append([]Option{As(all[i].ServiceAccount)}, opts...))
}

// Each of these is found, shrunk to what a person would have written who knows the bug, and not in its twin.
func TestFindsWhatDependsOnThePast(t *testing.T) {
	t.Parallel()
	for mutant, test := range map[string]struct {
		reason string
		kind   string
		seed   int64
		want   string
	}{
		"path-dependence/merge": {
			"a setting that was removed stays", "proxies", 1, `
apiVersion: mutants.homeostat.dev/v1
kind: Proxy
metadata:
  name: front
spec:
  settings:
    trace: "on"
--- then
spec: {"settings":{"trace":"on"}} -> unset
`},
	} {
		t.Run(mutant, func(t *testing.T) {
			t.Parallel()
			c := of(t, mutant, test.kind, Steps(20))
			f, how, err := c.explore(t, c.bySeed(t, test.seed, 0))
			if err != nil {
				t.Fatal(err)
			}
			if f == nil {
				t.Fatalf("%s: nothing was found", test.reason)
			}
			t.Logf("\n%s", f.text("", how))
			if got := f.sequence.String(); got != strings.TrimPrefix(test.want, "\n") {
				t.Errorf("%s: it takes\n%s\nwant\n%s", test.reason, got, test.want)
			}
		})
	}
}

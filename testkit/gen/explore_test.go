package gen

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/homeostat-dev/homeostat/testkit"
	"github.com/homeostat-dev/homeostat/testkit/mutants"
)

func TestMain(m *testing.M) {
	testkit.Main(m, testkit.Env{
		FS: mutants.Files, CRDs: mutants.CRDs, RBAC: mutants.RBAC, AddToScheme: mutants.AddToScheme,
		Objects: []client.Object{teamDefinition()},
	})
}

// operator is a mutant or its correct twin.
type operator struct{ mutants.Mutant }

// SetupInNamespaces implements testkit.Runnable. The cache of the manager is limited to the test's namespace.
func (o operator) SetupInNamespaces(mgr manager.Manager, _ ...string) error {
	return o.Setup(mgr)
}

// mutantNamed returns the operator with this name.
func mutantNamed(t testing.TB, name string) operator {
	t.Helper()
	all := slices.Concat(mutants.All(), mutants.CorrectTwins())
	i := slices.IndexFunc(all, func(m mutants.Mutant) bool { return m.Name == name })
	if i < 0 {
		t.Fatalf("there is no operator %s", name)
	}
	return operator{all[i]}
}

// source returns the custom resource of these operators.
func source(plural string) Source {
	return From("../mutants/config/crd/mutants.homeostat.dev_"+plural+".yaml", "testdata/"+plural+".yaml")
}

// credentials creates the Secret that the sample of an Archive refers to.
func credentials(k *testkit.K) {
	k.Apply(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "signing"}, Data: map[string][]byte{"key": []byte("secret")}})
}

// Each bug is found, and shrunk to the manifests that an expert would write.
func TestFindsAndShrinks(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("it explores three operators and their twins")
	}
	for name, test := range map[string]struct {
		reason string
		op     testkit.Runnable
		as     string
		plural string
		oracle string
		want   string // without the first line
	}{
		"merge": {
			reason: "a setting that was removed stays", op: mutantNamed(t, "path-dependence/merge"), as: "proxy",
			plural: "proxies", oracle: oracleFresh, want: `
kind: Proxy
metadata:
  name: front
spec:
  settings:
    trace: "on"
--- then
spec: {"settings":{"trace":"on"}} -> unset
`,
		},
		"keep-optional": {
			reason: "an object that is no longer desired stays", op: mutantNamed(t, "path-dependence/keep-optional"), as: "proxy",
			plural: "proxies", oracle: oracleFresh, want: `
kind: Proxy
metadata:
  name: front
spec:
  metrics: true
--- then
spec: {"metrics":true} -> unset
`,
		},
		"frozen-once": {
			reason: "an immutable field keeps its old value", op: mutantNamed(t, "path-dependence/frozen-once"), as: "proxy",
			plural: "proxies", oracle: oracleFresh, want: `
kind: Proxy
metadata:
  name: front
spec:
  frozen: true
--- then
spec: {"frozen":true} -> unset
`,
		},
		"no-delete": {
			reason: "a permission that only a change needs", op: mutantNamed(t, "rbac/no-delete"), as: "website-no-delete",
			plural: "websites", oracle: "forbidden", want: `
kind: Website
metadata:
  name: home
spec:
  exposed: true
--- then
spec: {"exposed":true} -> unset
`,
		},
		"panic": {
			reason: "an unexpected manifest causes a panic", op: setup(panicky), as: "proxy",
			plural: "proxies", oracle: "panic", want: `
kind: Proxy
metadata:
  name: front
spec:
  frozen: true
`,
		},
		"stubborn": {
			reason: "the operator must recover after a bad manifest", op: setup(givesUp), as: "backup",
			plural: "backups", oracle: oracleFresh, want: `
kind: Backup
metadata:
  name: nightly
--- then
spec: unset -> {}
`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := mustPrepare(t, test.op, source(test.plural), []Option{
				ServiceAccount(test.as), QuietPeriod(300 * time.Millisecond), ShrinkTimeout(5 * time.Minute),
			})
			f, how, err := c.explore(t, c.bySeed(t, 1, 0))
			if err != nil {
				t.Fatal(err)
			}
			if f == nil {
				t.Fatalf("%s: nothing was found", test.reason)
			}
			t.Logf("\n%s", f.text("", how))
			if f.oracle != test.oracle {
				t.Errorf("%s: oracle %s found it, want %s", test.reason, f.oracle, test.oracle)
			}
			_, got, _ := strings.Cut(f.sequence.String(), "\n")
			if want := strings.TrimPrefix(test.want, "\n"); got != want {
				t.Errorf("%s: the sequence is\n%s\nwant\n%s", test.reason, got, want)
			}
		})
	}
}

// An operator that fails on the sample is not explored.
func TestRejectsFailingSample(t *testing.T) {
	t.Parallel()
	for mutant, test := range map[string]struct{ reason, plural, want string }{
		"hot-loop/last-sync-time": {"it never becomes idle", "backups", "writes-at-rest"},
		"rbac/no-status":          {"it lacks a permission", "websites", "forbidden"},
	} {
		t.Run(mutant, func(t *testing.T) {
			t.Parallel()
			op := mutantNamed(t, mutant)
			c, err := prepare(t, op, source(test.plural), []Option{ServiceAccount(op.ServiceAccount), Timeout(3 * time.Second)})
			if err != nil {
				t.Fatal(err)
			}
			if err := c.checkSample(t.Context()); err == nil || !strings.Contains(err.Error(), test.want+": ") {
				t.Errorf("%s: the error is %v, want the name of oracle %s in it", test.reason, err, test.want)
			}
		})
	}
}

// Operators without a known bug pass with every seed.
func TestCorrectTwinsPass(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("it explores three operators and their twins")
	}
	for class, test := range map[string]struct {
		plural string
		seeds  int
	}{
		"path-dependence": {"proxies", 3},
		"hot-loop":        {"backups", 1},
		"stale-cache":     {"caches", 1},
		"deletion":        {"archives", 1},
		"missed-state":    {"routes", 1},
		"drift":           {"websites", 1},
	} {
		t.Run(class, func(t *testing.T) {
			t.Parallel()
			op := mutantNamed(t, class+"/correct")
			Explore(t, op, source(test.plural), Seed(1), Sequences(test.seeds), Steps(8), ServiceAccount(op.ServiceAccount),
				BeforeRun(credentials))
		})
	}
}

func FuzzProxies(f *testing.F) {
	op := mutantNamed(f, "path-dependence/correct")
	Fuzz(f, op, source("proxies"), ServiceAccount(op.ServiceAccount), Sequences(1))
}

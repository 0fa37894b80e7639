package rbac_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"
	"testing/fstest"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/homeostat-dev/homeostat/testkit"
)

// inner makes this test binary one of a package whose Env has the rules of that name.
const inner = "RBAC_TEST_RULES"

// The rules of a marker, which reads and marks ConfigMaps, and superfluous rules.
const (
	exact = `[{apiGroups: [""], resources: [configmaps], verbs: [list, watch, patch]}]`
	loose = `[{apiGroups: [""], resources: [configmaps, secrets], verbs: [list, watch, patch]},
  {apiGroups: [apps], resources: ["*"], verbs: [get]}]`
)

func TestMain(m *testing.M) {
	env := testkit.Env{RBAC: "policy.yaml", NoUnusedRules: true}
	rules := exact
	switch os.Getenv(inner) {
	case "":
		env.NoUnusedRules = false
		rules = loose
	case "loose":
		rules = loose
	case "rights", "missing rights":
		rules = loose
		env.Rights = map[string]string{"rights": "testdata/rights.go", "missing rights": "package_test.go"}[os.Getenv(inner)]
	case "excused":
		rules = strings.Replace(loose, "configmaps, secrets", "configmaps", 1)
		env.AllowedUnusedRules = map[string]string{"get *.apps": "to show that it can be said"}
	case "superfluous excuse":
		env.AllowedUnusedRules = map[string]string{"get oranges": "by mistake"}
	case "no policy":
		env.RBAC = ""
	}
	env.FS = fstest.MapFS{"policy.yaml": {Data: []byte(policyHead + "  " + rules)}}
	testkit.Main(m, env)
}

func setupMarker(mgr manager.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).For(&corev1.ConfigMap{}).Complete(reconcile.Func(
		func(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
			mark := client.RawPatch("application/merge-patch+json", []byte(`{"data":{"marked":"true"}}`))
			cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: req.Namespace, Name: req.Name}}
			return reconcile.Result{}, client.IgnoreNotFound(mgr.GetClient().Patch(ctx, cm, mark))
		}))
}

func mark(t *testing.T) *testkit.K {
	t.Helper()
	k := testkit.New(t)
	k.Start(setupMarker)
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "x"}}
	k.Apply(cm)
	k.Eventually(cm, testkit.Match("marked", func(cm *corev1.ConfigMap) bool { return cm.Data["marked"] != "" }))
	return k
}

func TestMarker(t *testing.T) {
	t.Parallel()
	mark(t)
}

func TestPackageUnusedRules(t *testing.T) {
	t.Parallel()
	if os.Getenv(inner) != "" {
		t.Skip("this process runs the inner package")
	}
	tests := map[string]struct {
		reason string
		rules  string
		args   []string
		code   int
		want   []string
	}{
		"Exact": {"each permission is needed", "exact", nil, 0, nil},
		"Loose": {
			"the rights are named, and the roles which grant them", "loose", nil, 1,
			[]string{
				"list secrets (ClusterRole op) was needed by no request", "patch secrets", "watch secrets",
				"get *.apps (ClusterRole op) is too wide, and no request needed any of it", "Remove them",
			},
		},
		"LooseButOnlySomeTests": {"the others may need them", "loose", []string{"-test.run=TestMarker"}, 0, nil},
		"LooseButShort":         {"tests may be left out", "loose", []string{"-test.short"}, 0, nil},
		"Rights":                {"the loose ones are those of another operator", "rights", nil, 0, nil},
		"MissingRights": {
			"it would check nothing", "missing rights", nil, 1,
			[]string{"Env.Rights: package_test.go has no marker +kubebuilder:rbac"},
		},
		"Excused": {"there is a reason", "excused", nil, 0, nil},
		"SuperfluousExcuse": {
			"it would outlive its reason", "superfluous excuse", nil, 1,
			[]string{`Env.AllowedUnusedRules excuses "get oranges", which Env.RBAC does not grant: remove it.`},
		},
		"NoPolicy": {"it is a mistake", "no policy", nil, 1, []string{"Env.NoUnusedRules needs Env.RBAC"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cmd := exec.Command(os.Args[0], tt.args...)
			cmd.Env = append(os.Environ(), inner+"="+tt.rules)
			out, err := cmd.CombinedOutput()
			code := 0
			if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
				code = exit.ExitCode()
			} else if err != nil {
				t.Fatal(err)
			}
			if code != tt.code {
				t.Errorf("exit code %d, want %d, because %s:\n%s", code, tt.code, tt.reason, out)
			}
			for _, want := range tt.want {
				if !strings.Contains(string(out), want) {
					t.Errorf("it does not print %q, although %s:\n%s", want, tt.reason, out)
				}
			}
			if tt.code == 0 && strings.Contains(string(out), "testkit:") {
				t.Errorf("it reports a finding, although %s:\n%s", tt.reason, out)
			}
		})
	}
}

// A fake is a test that is expected to fail.
type fake struct {
	testing.TB

	said string
}

func (f *fake) Helper()           {}
func (f *fake) Error(args ...any) { f.said, _ = args[0].(string) }

func TestUnusedRulesPerTest(t *testing.T) {
	t.Parallel()
	if os.Getenv(inner) != "" {
		t.Skip("other rules are in use")
	}
	f := &fake{TB: t}
	k := testkit.New(f)
	k.Start(setupMarker)
	k.NoUnusedRules()
	for _, want := range []string{"patch configmaps (ClusterRole op)", "list secrets", "the operators of this test"} {
		if !strings.Contains(f.said, want) {
			t.Errorf("it does not print %q: %s", want, f.said)
		}
	}
}

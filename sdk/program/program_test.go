package program

import (
	"context"
	"errors"
	"flag"
	"io"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/homeostat-dev/homeostat/sdk"
	"github.com/homeostat-dev/homeostat/sdk/conditions"
)

// testObject is an object of an operator's kind.
type testObject struct {
	corev1.ConfigMap
	status conditions.Status
}

func (o *testObject) CommonStatus() *conditions.Status { return &o.status }

// TestProgramFlags checks that additional flags are read from arguments and environment before the operators are made.
func TestProgramFlags(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		args []string
		env  map[string]string
		want string
	}{
		"default":                {want: "none"},
		"variable":               {env: map[string]string{"RULE_NAME": "a"}, want: "a"},
		"flag wins":              {args: []string{"--rule-name=b"}, env: map[string]string{"RULE_NAME": "a"}, want: "b"},
		"with a flag of the SDK": {args: []string{"--workers=3", "--rule-name=b"}, want: "b"},
		"empty variable":         {env: map[string]string{"RULE_NAME": ""}, want: "none"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var rule, got string
			noRule := errors.New("--rule-name: there is no such rule")
			program := &Program{
				Name:      "web",
				Flags:     func(fs *flag.FlagSet) { fs.StringVar(&rule, "rule-name", "none", "which rule") },
				Operators: func() ([]Runnable, error) { got = rule; return nil, noRule },
			}
			err := program.run(t.Context(), test.args, lookupIn(test.env), io.Discard, t.Output())
			if _, ok := errors.AsType[*usageError](err); !ok || !errors.Is(err, noRule) {
				t.Errorf("got %v, want the error of Operators as a usage error", err)
			}
			if got != test.want {
				t.Errorf("the operators are made with %q, want %q", got, test.want)
			}
		})
	}
}

// TestCustomDryRun checks that --dry-run is rejected for a controller without the function DryRun.
func TestCustomDryRun(t *testing.T) {
	t.Parallel()
	kubeconfig := kubeconfigFile(t, unreachable)
	custom := &CustomController{Name: "roll"}
	program := &Program{Name: "roll", Operators: func() ([]Runnable, error) { return []Runnable{custom}, nil }}
	args := []string{"--dry-run", "--kubeconfig=" + kubeconfig}
	var out strings.Builder
	err := program.run(t.Context(), args, lookupIn(nil), &out, t.Output())
	if _, ok := errors.AsType[*usageError](err); !ok || !strings.Contains(err.Error(), "--dry-run: roll") {
		t.Errorf("got %v, want a usage error that names flag and controller", err)
	}
	custom.DryRun = func(_ context.Context, cfg *rest.Config, namespaces []string, out io.Writer) error {
		_, err := io.WriteString(out, cfg.Host+" "+strings.Join(namespaces, ","))
		return err
	}
	args = append(args, "--watch-namespaces=a,b")
	if err := program.run(t.Context(), args, lookupIn(nil), &out, t.Output()); err != nil {
		t.Fatal(err)
	}
	if got, want := out.String(), "https://127.0.0.1:1 a,b"; got != want {
		t.Errorf("output %q, want %q", got, want)
	}
}

// unreachable is a kubeconfig of a cluster that does not respond.
const unreachable = `{apiVersion: v1, kind: Config, clusters: [{name: c, cluster: {server: "https://127.0.0.1:1"}}],` +
	` contexts: [{name: c, context: {cluster: c}}], current-context: c}`

func kubeconfigFile(t *testing.T, content string) (file string) {
	t.Helper()
	file = filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func addTestObject(scheme *runtime.Scheme) error {
	scheme.AddKnownTypeWithName(schema.GroupVersionKind{Group: "test", Version: "v1", Kind: "Test"}, &testObject{})
	return nil
}

// TestStartupErrors checks that an error at the start is one sentence with its fix, with and without --dry-run. It is not
// parallel, because a program sets the loggers of the process.
func TestStartupErrors(t *testing.T) {
	const noResponse = "the API server at https://127.0.0.1:1 does not answer: " +
		"dial tcp 127.0.0.1:1: connect: connection refused: start it, or name another with --kubeconfig"
	for name, test := range map[string]struct {
		reason, kubeconfig, says string
		args                     []string
		outsidePod               bool
		usage                    bool
	}{
		"a kubeconfig without a cluster": {
			reason: "the message names the file, and no foreign variable", kubeconfig: "{}", usage: true,
			says: "no cluster to work on: FILE names none: correct --kubeconfig or KUBECONFIG",
		},
		"a kubeconfig that contradicts itself": {
			reason:     "the message has the contradiction",
			kubeconfig: "{apiVersion: v1, kind: Config, current-context: c}", usage: true,
			says: "no cluster to work on: reading FILE: invalid configuration: " +
				"[context was not found for specified context: c, cluster has no server defined] (set --kubeconfig or KUBECONFIG)",
		},
		"a cluster that does not respond": {
			reason: "it may respond later, so it is no usage error", kubeconfig: unreachable, says: noResponse,
		},
		"a dry run on a cluster that does not respond": {
			reason: "the message is the same", kubeconfig: unreachable, args: []string{"--dry-run"},
			says: noResponse,
		},
		"leader election outside of a cluster": {
			reason: "the message names the missing flag, before any request", kubeconfig: unreachable,
			args: []string{"--leader-elect"}, usage: true, outsidePod: true,
			says: "--leader-elect: the program does not run in a cluster, whose namespace it would take: " +
				"set --leader-election-namespace to that of the Lease (see --help)",
		},
		"leader election in a namespace": {
			reason: "the flags are complete", kubeconfig: unreachable, says: noResponse,
			args: []string{"--leader-elect", "--leader-election-namespace=a"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := os.Stat(namespaceFile); err == nil && test.outsidePod {
				t.Skip("the test runs in a pod, so there is a default namespace")
			}
			op := &sdk.Operator[*testObject]{
				Name: "web", AddToScheme: addTestObject, Owns: []client.Object{&corev1.Secret{}},
				Reconcile: func(context.Context, *sdk.Pass[*testObject]) error { return nil },
			}
			program := &Program{Name: "web", Operators: func() ([]Runnable, error) { return []Runnable{op}, nil }}
			file := kubeconfigFile(t, test.kubeconfig)
			err := program.run(t.Context(), append(test.args, "--kubeconfig="+file), lookupIn(nil), io.Discard, t.Output())
			if err == nil {
				t.Fatal("no error")
			}
			if got := strings.ReplaceAll(err.Error(), file, "FILE"); got != test.says {
				t.Errorf("%s: error\n%s\nwant\n%s", test.reason, got, test.says)
			}
			if _, usage := errors.AsType[*usageError](err); usage != test.usage {
				t.Errorf("%s: usage error: %t, want %t", test.reason, usage, test.usage)
			}
		})
	}
}

// TestVersion checks that the version distinguishes two builds.
func TestVersion(t *testing.T) {
	t.Parallel()
	from := func(version string, settings ...debug.BuildSetting) *debug.BuildInfo {
		return &debug.BuildInfo{Main: debug.Module{Version: version}, Settings: settings}
	}
	revision := debug.BuildSetting{Key: "vcs.revision", Value: "4f921dbe"}
	modified := debug.BuildSetting{Key: "vcs.modified", Value: "true"}
	for want, info := range map[string]*debug.BuildInfo{
		"v1.2.3":                       from("v1.2.3"),
		"v1.2.3 (4f921dbe)":            from("v1.2.3", revision, debug.BuildSetting{Key: "vcs.modified", Value: "false"}),
		"(devel) (4f921dbe, modified)": from("(devel)", revision, modified),
		"(devel)":                      from(""),
		"(unknown)":                    nil,
	} {
		if got := version(info, info != nil); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	var out strings.Builder
	program := &Program{Name: "web"}
	if err := program.run(t.Context(), []string{"--version"}, lookupIn(nil), &out, t.Output()); err != nil {
		t.Fatal(err)
	}
	if want := "web " + version(debug.ReadBuildInfo()) + "\n"; out.String() != want {
		t.Errorf("output %q, want %q", out.String(), want)
	}
}

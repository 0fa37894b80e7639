package sdk

import (
	"context"
	"errors"
	"flag"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/client-go/rest"
)

// A program's own flags come from the arguments or the environment, as all others, and its operators are made with them.
func TestFlagsOfAProgram(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		args []string
		env  map[string]string
		want string
	}{
		"default":                 {want: "none"},
		"variable":                {env: map[string]string{"RULE_NAME": "a"}, want: "a"},
		"flag wins":               {args: []string{"--rule-name=b"}, env: map[string]string{"RULE_NAME": "a"}, want: "b"},
		"one of ours beside it":   {args: []string{"--workers=3", "--rule-name=b"}, want: "b"},
		"a variable set to empty": {env: map[string]string{"RULE_NAME": ""}, want: "none"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var rule, got string
			refused := errors.New("--rule-name: there is no such rule")
			program := &Program{
				Name:      "web",
				Flags:     func(fs *flag.FlagSet) { fs.StringVar(&rule, "rule-name", "none", "which rule") },
				Operators: func() ([]Runnable, error) { got = rule; return nil, refused },
			}
			err := program.run(t.Context(), test.args, lookupIn(test.env), io.Discard, t.Output())
			if _, ok := errors.AsType[*usageError](err); !ok || !errors.Is(err, refused) {
				t.Errorf("got %v, want the error of Operators as one of usage", err)
			}
			if got != test.want {
				t.Errorf("the operators are made with %q, want %q", got, test.want)
			}
		})
	}
}

// A controller that cannot say what it would do refuses to be asked, and one that can is asked.
func TestDryRunOfACustomController(t *testing.T) {
	t.Parallel()
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	const content = `{apiVersion: v1, kind: Config, clusters: [{name: c, cluster: {server: "https://127.0.0.1:1"}}],` +
		` contexts: [{name: c, context: {cluster: c}}], current-context: c}`
	if err := os.WriteFile(kubeconfig, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	custom := &Custom{Name: "roll"}
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
		t.Errorf("it prints %q, want %q", got, want)
	}
}

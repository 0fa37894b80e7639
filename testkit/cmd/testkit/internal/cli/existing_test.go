package cli_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestExistingCluster checks that an existing cluster is used only if named, and that installed operators stay.
func TestExistingCluster(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t)
	// The existing cluster is the one of this command.
	script := `"$0" up --detach --context testkit "$1"; echo "code $?"
		"$0" up --detach "$1" || echo "refused"
		"$0" down; kubectl get widget sample -o name --namespace=default`
	cmd := w.command("exec", "--", "sh", "-c", script, os.Args[0], widget)
	programs := strings.TrimSpace(w.run("assets").out)
	cmd.Env = append(cmd.Env, "PATH="+programs+":"+os.Getenv("PATH"), "KUBECACHEDIR="+t.TempDir())
	check(t, "up", w.wait(cmd), 0, "code 0", "using the cluster of context testkit at https://127.0.0.1:", "refused",
		"a sandbox is already running, in the cluster of context testkit; stop it first: testkit down",
		"what was installed stays in the cluster of context testkit: to remove it", "widget.testkit.homeostat.dev/sample")
}

// TestKubeconfigIsIgnored checks that KUBECONFIG, which may be a production cluster, is not used by default.
func TestKubeconfigIsIgnored(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t)
	file := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(file, []byte("clusters: ["), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := w.command("up", "--detach", widget)
	cmd.Env = append(cmd.Env, "KUBECONFIG="+file)
	check(t, "up", w.wait(cmd), 0, "KUBECONFIG is ignored, for this is a cluster of its own", "testkit up --context NAME",
		"control plane ready at", "Everything is ready")
}

// TestUnknownContext checks that an unusable context is reported at once, before anything is built.
func TestUnknownContext(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t)
	file := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(file, []byte(`{"contexts": [{"name": "b"}, {"name": "a"}]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	broken := filepath.Join(t.TempDir(), "broken")
	if err := os.WriteFile(broken, []byte("clusters: ["), 0o600); err != nil {
		t.Fatal(err)
	}
	for kubeconfig, want := range map[string]string{
		"/no/such": "testkit: up: there is no kubeconfig, in which context mine could be: KUBECONFIG=/no/such does not exist; " +
			"name a file that does in KUBECONFIG\n",
		"/no/such:" + file: "testkit: up: there is no context mine: KUBECONFIG=/no/such:" + file + " has a, b\n",
		broken:             "testkit: up: reading KUBECONFIG=" + broken + ": ",
	} {
		cmd := w.command("up", "--context", "mine", widget)
		cmd.Env = append(cmd.Env, "KUBECONFIG="+kubeconfig)
		got := w.wait(cmd)
		check(t, kubeconfig, got, 2, want)
		if strings.Count(got.err, "\n") != 1 {
			t.Errorf("%s: more than one line: %q", kubeconfig, got.err)
		}
	}
}

package cli_test

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestBare checks that a bare sandbox has no operators, and that an operator installed by the user works.
func TestBare(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t)
	check(t, "up in no cluster of its own", w.run("up", "--bare", "--context", "mine", widget), 2, "--nodes and --bare are for")
	up := w.run("up", "--bare", "--detach", widget)
	absolute, err := filepath.Abs(widget)
	if err != nil {
		t.Fatal(err)
	}
	install := "kubectl apply --server-side -k " + absolute + "/config/default"
	check(t, "up", up, 0, "export KUBECONFIG=", "its pods run as processes here: "+install+"\n", "To stop it: testkit down")
	kubectl := w.kubectl()
	if got := kubectl("get", "namespaces,crds", "--output=name"); strings.Contains(got.out, "widget") {
		t.Errorf("something is installed: %s", got.out)
	}

	check(t, "install", kubectl(strings.Fields(install)[1:]...), 0, "deployment.apps/widget-operator serverside-applied")
	check(t, "rollout", kubectl("--namespace=widget-system", "rollout", "status", "deployment/widget-operator"), 0,
		"successfully rolled out")
	check(t, "sample", kubectl("apply", "--namespace=default", "-f", absolute+"/config/samples"), 0, "widget.testkit")
	check(t, "wait", kubectl("--namespace=default", "wait", "--for=condition=Ready", "widget/sample"), 0, "condition met")

	check(t, "up again", w.run("up", "--bare", "--detach", widget), 0, "it is already running", install)
	check(t, "up with all installed", w.run("up", "--detach", widget), 1,
		"a cluster is already running, in which nothing was installed; stop it first: testkit down")
	view := newWatcher(t, w.command("up", "--bare", widget))
	view.wait("Widget default/sample SIZE=3 READY=True CONDITIONS=Ready")
	view.interrupt()
	view.end()

	ids := w.processes()
	check(t, "down", w.run("down"), 0, "stopped")
	for _, id := range ids {
		if id.Alive() {
			t.Errorf("after down pid %d still runs", id.PID)
		}
	}
	allEnded(t, ids)
}

// TestBareInForeground checks that an operator installed later appears in the table.
func TestBareInForeground(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t)
	w.env = append(w.env, "MAKELEVEL=1")
	lines := newWatcher(t, w.command("up", "--bare", widget))
	lines.wait("its pods run as processes here: make deploy OPERATOR=widget")
	kubectl := w.kubectl()
	check(t, "install", kubectl("apply", "--server-side", "-k", widget+"/config/default"), 0)
	check(t, "wait", kubectl("wait", "--for=condition=Established", "crd/widgets.testkit.homeostat.dev"), 0)
	check(t, "sample", kubectl("apply", "--namespace=default", "-f", widget+"/config/samples"), 0)
	lines.wait("Widget default/sample SIZE=3 READY=True CONDITIONS=Ready")
	check(t, "remove", kubectl("delete", "-k", widget+"/config/default", "--ignore-not-found", "--wait=false"), 0)
	lines.wait(": building operator widget")
	lines.wait(" runs as system:serviceaccount:widget-system:widget-operator (pid ")
	lines.wait(" has ended")
	lines.wait("Widget default/sample is gone")
	ids := w.processes()
	lines.interrupt()
	if code := lines.end(); code != 0 {
		t.Errorf("Ctrl-C ended with code %d\n%s", code, lines.text())
	}
	allEnded(t, ids)
	w.nothingLeft()
}

// kubectl returns a function that runs kubectl in the running cluster.
func (w *workspace) kubectl() func(args ...string) result {
	w.t.Helper()
	kubeconfig := strings.TrimSpace(w.run("kubeconfig").out)
	program := filepath.Join(strings.TrimSpace(w.run("assets").out), "kubectl")
	cache := w.t.TempDir()
	return func(args ...string) result {
		w.t.Helper()
		cmd := exec.Command(program, args...)
		cmd.Env = []string{"KUBECONFIG=" + kubeconfig, "HOME=" + cache}
		return w.wait(cmd)
	}
}

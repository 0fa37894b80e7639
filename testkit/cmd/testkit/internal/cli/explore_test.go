package cli_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

// python is the interpreter of Debian's Python packages.
const python = "/usr/bin/python3"

// operators is the folder of the operators in Python.
const operators = "../../../../internal/explore/testdata/python"

func needPython(t *testing.T) {
	t.Helper()
	if out, err := exec.CommandContext(t.Context(), python, "-c", "import kubernetes").CombinedOutput(); err != nil {
		if os.Getenv("CI") != "" || os.Getenv("TESTKIT_REQUIRE_PYTHON") == "1" {
			t.Fatalf("%s has no package kubernetes: apt-get install python3-kubernetes (%v: %s)", python, err, out)
		}
		t.Skipf("%s has no package kubernetes: apt-get install python3-kubernetes", python)
	}
}

// explorePython returns the arguments that explore a Python operator with the given plans only.
func explorePython(folder, program string, more ...string) []string {
	dir := filepath.Join(operators, folder)
	args := []string{
		"explore", "--crd", filepath.Join(operators, "crd.yaml"), "--rbac", filepath.Join(dir, "rbac.yaml"),
		"--scenario", filepath.Join(dir, "scenario.yaml"),
	}
	return append(append(args, more...), "--", python, filepath.Join(dir, program))
}

// write creates a file and returns its path.
func write(t *testing.T, dir, name, text string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

const configMap = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\n"

func TestExploreRejectsBadInput(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t)
	dir := t.TempDir()
	crd, err := os.ReadFile(filepath.Join(operators, "crd.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	good := write(t, dir, "s.yaml", "steps:\n- name: create\n  apply: x.yaml\n")
	write(t, dir, "x.yaml", configMap)
	plain := write(t, dir, "plain", "#!/bin/sh\n")
	tests := map[string]struct {
		reason string
		args   []string
		want   string
	}{
		"Command":  {"nothing to run", []string{"--scenario", good}, "explore: which operator? Write: testkit explore"},
		"Scenario": {"nothing to do", []string{"--", "true"}, "explore: what is to happen to the operator? Write: testkit"},
		"Flag":     {"a typing error", []string{"--crds", "x"}, "explore: flag provided but not defined: -crds; see"},
		"Fault": {
			"a typing error",
			[]string{"--scenario", good, "--fault", "crsh", "--", "true"},
			"explore: --fault=crsh: there is no such fault: choose from crash-before, ",
		},
		"Oracle": {
			"a typing error",
			[]string{"--scenario", good, "--without", "x", "--", "true"},
			"explore: --without=x: there is no such oracle: choose from scenario, end-state, ",
		},
		"Report": {
			"nothing writes it",
			[]string{"--scenario", good, "--report", "x.pdf", "--", "true"},
			"explore: --report=x.pdf: name a file that ends in .html, ",
		},
		"Folder": {
			"it would be a pity afterwards",
			[]string{"--scenario", good, "--report", "/no/such/x.html", "--", "true"},
			"explore: --report=/no/such/x.html: there is no folder /no/such: make it, or name another one",
		},
		"Webhooks": {
			"another file",
			[]string{"--scenario", good, "--webhooks", filepath.Join(dir, "x.yaml"), "--", "true"},
			"explore: --webhooks=" + dir + "/x.yaml: it has neither a ValidatingWebhookConfiguration nor a Mutating",
		},
		"Program": {
			"a typing error",
			[]string{"--scenario", good, "--", "no-such-program"},
			"explore: there is no program no-such-program: install it, or correct its path",
		},
		"Path": {
			"a typing error",
			[]string{"--scenario", good, "--", "/no/such/program"},
			"explore: there is no program /no/such/program: install it, or correct its path",
		},
		"Executable": {
			"a script without the bit",
			[]string{"--scenario", good, "--", plain},
			"explore: " + plain + " is not executable: make it so with chmod +x, or put its interpreter in front of it",
		},
		"QuietPeriod": {
			"a typing error",
			[]string{"--scenario", good, "--quiet-period", "0s", "--", "true"},
			"explore: --quiet-period=0s: give a time that is longer than nothing",
		},
		"Budget": {
			"a typing error",
			[]string{"--scenario", good, "--budget", "-1s", "--", "true"},
			"explore: --budget=-1s: give a time that is longer than nothing",
		},
		"OldName": {
			"it was renamed",
			[]string{"--scenario", good, "--patience", "1s", "--", "true"},
			"explore: flag provided but not defined: -patience; see",
		},
		"Continue": {
			"it is no report",
			[]string{"--scenario", good, "--continue", good, "--", "true"},
			"explore: --continue=" + good + ": this is no JSON report: give one that was written with --report FILE.json",
		},
		"FurtherNamespace": {
			"the scenario does not have it",
			[]string{"--scenario", good, "--", "true", "--to={namespace:team-a}"},
			"explore: {namespace:team-a}: the scenario has no such namespace: write namespaces: [team-a] into " + good,
		},
		"Account": {
			"an account without roles has no rights",
			[]string{"--scenario", good, "--service-account", "x", "--", "true"},
			"explore: --service-account=x: its roles are not known: give their files with --rbac",
		},
		"NoAccount": {
			"a file without an account",
			[]string{"--scenario", good, "--rbac", dir + "/x.yaml", "--", "true"},
			"explore: " + dir + "/x.yaml: finding the operator's ServiceAccount: the files have none: name one with",
		},
		"NoCRD": {
			"another file",
			[]string{"--scenario", good, "--crd", dir + "/x.yaml", "--", "true"},
			"explore: " + dir + "/x.yaml:1: ConfigMap x is no CustomResourceDefinition: give a file that holds one",
		},
		"MissingCRD": {
			"a typing error",
			[]string{"--scenario", good, "--crd", "/no/such.yaml", "--", "true"},
			"explore: there is no file or folder /no/such.yaml: correct the path",
		},
		"WrongCRD": {
			"the line is that of the field",
			[]string{"--scenario", good, "--crd", write(t, dir, "crd.yaml", strings.Replace(string(crd),
				"type: integer\n                minimum", "type: int\n                minimum", 1)), "--", "true"},
			"explore: " + dir + "/crd.yaml:40: the CustomResourceDefinition pages.testkit.homeostat.dev is not valid: " +
				"spec.versions[0].schema.openAPIV3Schema.properties[spec].properties[port].",
		},
		"UnknownField": {
			"a typing error",
			[]string{"--scenario", good, "--crd", write(t, dir, "typo.yaml",
				strings.Replace(string(crd), "scope:", "scop:", 1)), "--", "true"},
			"explore: " + dir + "/typo.yaml:1: the CustomResourceDefinition pages.testkit.homeostat.dev is not valid: " +
				`strict decoding error: unknown field "spec.scop"`,
		},
		"NotYAML": {
			"a bracket is missing",
			[]string{"--scenario", write(t, dir, "bad.yaml", "steps: [\n"), "--", "true"},
			"explore: " + dir + "/bad.yaml:",
		},
		"Mistake": {
			"the first of two",
			[]string{"--scenario", write(t, dir, "two.yaml", "steps:\n- nam: x\n- nam: y\n"), "--", "true"},
			"explore: " + dir + `/two.yaml:2: unknown field "nam" in steps[0]: ` +
				"its fields are name, namespace, apply, patch, delete and wait",
		},
	}
	for name, tt := range tests {
		got := w.run(append([]string{"explore"}, tt.args...)...)
		check(t, name+", because "+tt.reason, got, 2, "testkit: "+tt.want)
		if lines := strings.Count(got.err, "\n"); lines != 1 || got.out != "" {
			t.Errorf("%s: more than one sentence: %q %q", name, got.out, got.err)
		}
	}
}

// TestExploreRejectsInfeasibleInput checks mistakes that only the API server or the program itself can detect. Each is
// reported in one sentence, and nothing is left.
func TestExploreRejectsInfeasibleInput(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, dir, "kind.yaml", "apiVersion: example.com/v1\nkind: Nothing\nmetadata: {name: x}\n")
	write(t, dir, "page.yaml",
		"apiVersion: testkit.homeostat.dev/v1\nkind: Page\nmetadata: {name: x}\nspec:\n  text: x\n  port: 0\n")
	write(t, dir, "x.yaml", configMap)
	about := func(name, file string) string {
		return write(t, dir, name, "steps:\n- name: create\n  apply: "+file+"\n")
	}
	tests := map[string]struct {
		reason string
		args   []string
		want   string
	}{
		"Kind": {
			"its CRD was forgotten",
			[]string{"--scenario", about("a.yaml", "kind.yaml"), "--", "true"},
			"explore: " + dir + "/kind.yaml:2: the API server knows no Nothing in example.com/v1: correct it, or add its " +
				"CustomResourceDefinition",
		},
		"Value": {
			"the API server refuses it",
			[]string{
				"--scenario", about("b.yaml", "page.yaml"), "--crd", filepath.Join(operators, "crd.yaml"), "--", "true",
			},
			"explore: " + dir + "/page.yaml:6: the API server refuses Page x: spec.port: ",
		},
		"Ends": {
			"a wrong argument",
			[]string{"--scenario", about("c.yaml", "x.yaml"), "--", "sh", "-c", "echo no such flag; exit 3"},
			"explore: the operator ended by itself (exit status 3); the last it printed:\n  no such flag\n" +
				"It has asked the API server for nothing before",
		},
		"Silent": {
			"it does not use the kubeconfig",
			[]string{"--scenario", about("d.yaml", "x.yaml"), "--timeout", "2s", "--", "sleep", "1000"},
			"explore: the operator has asked the API server for nothing within 2s: make it use the kubeconfig in KUBECONFIG",
		},
	}
	w := newWorkspace(t)
	w.keepControlPlane()
	for name, tt := range tests {
		got := w.run(append([]string{"explore"}, tt.args...)...)
		check(t, name+", because "+tt.reason, got, 2, "testkit: "+tt.want)
	}
}

func TestExplore(t *testing.T) {
	t.Parallel()
	needPython(t)
	w := newWorkspace(t)
	w.keepControlPlane()
	dir := t.TempDir()
	const plan = "crash-after/create-services-example#1"
	got := w.run(explorePython("correct", "pages.py", "--only", plan,
		"--report", dir+"/r.html", "--report", dir+"/r.xml", "--report", dir+"/r.json", "--report", dir+"/r.txt")...)
	check(t, "a correct operator", got, 0, "1/1 passed  "+plan, "pages: 4 runs: 0 failed, 4 passed; seed 1;")
	for _, name := range []string{"r.html", "r.xml", "r.json", "r.txt"} {
		data, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil || !strings.Contains(string(data), "create-services-example#1") {
			t.Errorf("%s: %v, %d bytes without the plan", name, err, len(data))
		}
	}

	got = w.run(explorePython("status-forbidden", "status_forbidden.py", "--fault", "crash", "--stop-at-first")...)
	check(t, "a careless operator", got, 1, "testkit: the first finding:\n", "without --stop-at-first it goes on",
		"forbidden: the operator's roles lack a right that it uses: ",
		`resources: ["pages/status"], verbs: ["update"]`, "To run this alone:", "--only none/1 -- "+python)

	got = w.run(explorePython("correct", "pages.py", "--only", "crash-after/nothing#1")...)
	check(t, "no such plan", got, 2, "--only=crash-after/nothing#1: this operator and scenario have no such plan")
}

// TestExploreSelection checks that a report says what was not tried, and that the next exploration goes on there.
func TestExploreSelection(t *testing.T) {
	t.Parallel()
	needPython(t)
	w := newWorkspace(t)
	w.keepControlPlane()
	file := filepath.Join(t.TempDir(), "r.json")
	got := w.run(explorePython("correct", "pages.py", "--fault", "crash-before", "--sample", "1", "--name", "site",
		"--timeline", "--report", file)...)
	check(t, "one plan", got, 0, "testkit: none/1 passed", "testkit: trying 1 plan", "1/1 passed  crash-before/",
		"only a sample of 1 was requested (", "site: 4 runs: 0 failed, 4 passed; ", "Timeline, ")
	_, tried, _ := strings.Cut(got.err, "1/1 passed  ")
	tried, _, _ = strings.Cut(tried, " ")
	got = w.run(explorePython("correct", "pages.py", "--fault", "crash-before", "--list", "--continue", file)...)
	check(t, "the other plans", got, 0, "\ncrash-before/")
	if tried == "" || strings.Contains(got.out, tried+"\n") {
		t.Errorf("%q was tried, and is in the list of the others:\n%s", tried, got.out)
	}
}

// TestExploreAFixedPort checks that an operator that cannot run twice on a machine is run once at a time.
func TestExploreAFixedPort(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("it explores twice")
	}
	needPython(t)
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := free.Addr().(*net.TCPAddr).Port
	_ = free.Close()
	correct, err := filepath.Abs(filepath.Join(operators, "correct"))
	if err != nil {
		t.Fatal(err)
	}
	program := write(t, t.TempDir(), "metrics.py", fmt.Sprintf(`
import sys, threading
from http.server import BaseHTTPRequestHandler, HTTPServer
server = HTTPServer(("127.0.0.1", %d), BaseHTTPRequestHandler)
threading.Thread(target=server.serve_forever, daemon=True).start()
sys.path.append(%q)
import pages
pages.main()
`, port, correct))
	w := newWorkspace(t)
	args := explorePython("correct", "", "--only", "crash-after/create-configmaps-example#1")
	got := w.run(append(args[:len(args)-1], program)...)
	const said = "the operator ended by itself where several of it ran at once"
	check(t, "a fixed port", got, 0, "testkit: "+said+": trying again, one at a time", "note: "+said,
		"as with --parallel 1", "4 runs: 0 failed, 4 passed")
}

func TestExploreInterrupted(t *testing.T) {
	t.Parallel()
	needPython(t)
	for name, test := range map[string]struct {
		end  func(l *watcher)
		code int
	}{
		"CtrlC": {func(l *watcher) { l.interrupt() }, 128 + int(syscall.SIGINT)},
		"Kill":  {func(l *watcher) { l.kill() }, -1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorkspace(t)
			lines := newWatcher(t, w.command(explorePython("correct", "pages.py")...))
			lines.wait("1/")
			ids := w.processes()
			test.end(lines)
			if code := lines.end(); code != test.code {
				t.Errorf("exit code %d, want %d\n%s", code, test.code, lines.text())
			}
			allEnded(t, ids)
			if name == "CtrlC" {
				lines.wait("testkit: stopping")
			}
			var left []string
			none := func(context.Context) (bool, error) {
				left = operatorsOf(t, w)
				return len(left) == 0, nil
			}
			// The end of a killed command is noticed by the operators' watchdogs.
			if wait.PollUntilContextTimeout(t.Context(), 10*time.Millisecond, timeout, true, none) != nil {
				t.Errorf("operators are left: %s", left)
			}
		})
	}
}

// operatorsOf returns the environments of the running operators of a workspace.
func operatorsOf(t *testing.T, w *workspace) []string {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		t.Fatal(err)
	}
	kubeconfig := regexp.MustCompile(regexp.QuoteMeta(w.dir) + `\S*kubeconfig`)
	return slices.DeleteFunc(files, func(file string) bool {
		data, err := os.ReadFile(file)
		return err != nil || !kubeconfig.Match(data) || !strings.Contains(string(data), "PYTHONUNBUFFERED")
	})
}

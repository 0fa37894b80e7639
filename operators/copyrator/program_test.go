package copyrator_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	v1 "github.com/homeostat-dev/homeostat/operators/copyrator/api/v1"
	"github.com/homeostat-dev/homeostat/testkit"
	kubeconfig "github.com/homeostat-dev/homeostat/testkit/cluster"
)

// programVariable makes this test binary be the operator's program.
const programVariable = "COPYRATOR_TEST_PROGRAM"

// program is the operator in a process of its own.
type program struct {
	*exec.Cmd

	mu   sync.Mutex
	logs bytes.Buffer
}

func (p *program) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.logs.Write(b)
}

func (p *program) said() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.logs.String()
}

// launch starts the program. What it says goes to one place.
func launch(t *testing.T, k *testkit.K, env []string, args ...string) *program {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	data, err := kubeconfig.Kubeconfig(k.Config)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
	p := &program{Cmd: exec.CommandContext(t.Context(), self, append([]string{"--kubeconfig=" + file}, args...)...)}
	p.Env = append([]string{programVariable + "=1", "HOME=" + t.TempDir()}, env...)
	p.Stdout, p.Stderr = p, p
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	return p
}

// The flags of the article work from the command line and from the environment: the namespace is where rules may read all,
// and the name is that of the rule to follow.
func TestFlagsOfTheArticle(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.op.Stop()
	source, target := c.namespace("source"), c.namespace("target")
	c.Apply(configMap(source, "x", "one"))
	ours, other := c.rule("main-rule"), c.rule("other")
	for _, r := range []*v1.CopyratorRule{ours, other} {
		r.SourceNamespace, r.TargetNamespaces = v1.Names{List: []string{source}, Single: true}, []string{target}
		c.Apply(r)
	}
	p := launch(t, c.K, []string{"RULE_NAME=none"}, "--namespace="+c.Namespace, "--rule-name="+ours.Name)
	c.Eventually(ours, testkit.Ready(), synced(1))
	c.Eventually(at(target, "x"), value("one"))
	c.Get(other)
	if len(other.Status.Conditions) > 0 || len(other.Finalizers) > 0 {
		t.Errorf("the other rule has conditions %v and finalizers %v", other.Status.Conditions, other.Finalizers)
	}
	if err := p.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := p.Wait(); err != nil {
		t.Errorf("it ends with %v:\n%s", err, p.said())
	}

	// Of another namespace it is only one rule among others.
	c.Delete(at(target, "x"))
	p = launch(t, c.K, []string{"NAMESPACE=default", "RULE_NAME=" + ours.Name})
	c.Eventually(ours, testkit.Reason(v1.ConditionAuthorized, "False", "NotGranted"))
	c.gone(at(target, "x"))
	if err := p.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = p.Wait()
}

// A wrong flag is one sentence and exit code 2.
func TestWrongFlags(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	for flag, says := range map[string]string{
		"--namespace=Not a name": "--namespace=", "--exclude-namespaces=a,[b": `"[b"`, "--rule-name=A": `"A"`,
		"--allow-source-namespaces=a,B": `"B"`,
	} {
		p := launch(t, k, nil, flag)
		_ = p.Wait()
		if got := p.said(); p.ProcessState.ExitCode() != 2 || !strings.Contains(got, says) || strings.Count(got, "\n") != 1 {
			t.Errorf("%s: exit code %d and\n%s", flag, p.ProcessState.ExitCode(), got)
		}
	}
}

// Many large copies take no more of the operator's memory than a few: neither sources nor copies are kept. It has a control
// plane of its own and runs alone, because what it writes keeps the others from being watched.
func TestMemoryDoesNotGrowWithTheContent(t *testing.T) { //nolint:paralleltest // see above
	sources, namespaces := 30, 10
	if testing.Short() {
		sources, namespaces = 12, 6
	}
	few, many := peak(t, 3, 2), peak(t, sources, namespaces)
	more := sources*(namespaces+1) - 3*3
	t.Logf("the operator took %d MiB at most for 9 MB to copy and be copied, and %d MiB for %d MB more", few, many, more)
	if many-few > more/3 {
		t.Errorf("it took %d MiB more for %d MB more", many-few, more)
	}
}

// peak makes the operator copy that many sources of 1 MB to that many namespaces and returns the most memory that its
// process has taken, in MiB.
func peak(t *testing.T, sources, namespaces int) int {
	t.Helper()
	c := clusterOn(t, testkit.New(t, testkit.Private()))
	c.op.Stop()
	for i := range sources {
		c.Apply(configMap(c.Namespace, fmt.Sprintf("source-%02d", i), strings.Repeat("x", 1000*1000)))
	}
	for i := range namespaces {
		c.namespace(strconv.Itoa(i))
	}
	rule := c.rule("r")
	c.Apply(rule)
	p := launch(t, c.K, nil, "--namespace="+c.Namespace, "--rule-name="+rule.Name)
	c.Eventually(rule, testkit.Ready(), synced(int32(sources*namespaces)))
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.Process.Pid))
	if err != nil {
		t.Skip("there is no /proc here:", err)
	}
	_, rest, _ := strings.Cut(string(status), "VmHWM:")
	kib, err := strconv.Atoi(strings.Fields(rest)[0])
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = p.Wait()
	c.Delete(rule)
	c.start()
	c.gone(rule)
	return kib / 1024
}

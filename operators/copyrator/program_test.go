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
	"time"

	v1 "github.com/homeostat-dev/homeostat/operators/copyrator/api/v1"
	"github.com/homeostat-dev/homeostat/testkit"
	kubeconfig "github.com/homeostat-dev/homeostat/testkit/cluster"
)

// programVariable makes this test binary run the operator's program.
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

func (p *program) output() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.logs.String()
}

// startProgram starts the program and collects its output.
func startProgram(t *testing.T, k *testkit.K, env []string, args ...string) *program {
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
	p.Stdout = p
	p.Stderr = p
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	return p
}

// The flags of the article work on the command line and in the environment: the namespace with full read permissions, and
// the name of the rule.
func TestArticleFlags(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.op.Stop()
	source, target := c.namespace("source"), c.namespace("target")
	c.Apply(configMap(source, "x", "one"))
	ours, other := c.rule("main-rule"), c.rule("other")
	for _, r := range []*v1.CopyratorRule{ours, other} {
		r.SourceNamespace = v1.Names{List: []string{source}, Single: true}
		r.TargetNamespaces = []string{target}
		c.Apply(r)
	}
	p := startProgram(t, c.K, []string{"RULE_NAME=none"}, "--namespace="+c.Namespace, "--rule-name="+ours.Name)
	c.Eventually(ours, testkit.Ready(), synced(1))
	c.Eventually(configMapRef(target, "x"), hasValue("one"))
	c.Get(other)
	if len(other.Status.Conditions) > 0 || len(other.Finalizers) > 0 {
		t.Errorf("the other rule has conditions %v and finalizers %v", other.Status.Conditions, other.Finalizers)
	}
	if err := p.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := p.Wait(); err != nil {
		t.Errorf("it ends with %v:\n%s", err, p.output())
	}

	// In another namespace the rule has no special permission.
	c.Delete(configMapRef(target, "x"))
	p = startProgram(t, c.K, []string{"NAMESPACE=default", "RULE_NAME=" + ours.Name})
	c.Eventually(ours, testkit.Reason(v1.ConditionAuthorized, "False", "NotGranted"))
	c.waitGone(configMapRef(target, "x"))
	if err := p.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = p.Wait()
}

// An invalid flag gives one sentence and exit code 2.
func TestWrongFlags(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	for flag, says := range map[string]string{
		"--namespace=Not a name": "--namespace=", "--exclude-namespaces=a,[b": `"[b"`, "--rule-name=A": `"A"`,
		"--allow-source-namespaces=a,B": `"B"`,
	} {
		p := startProgram(t, k, nil, flag)
		_ = p.Wait()
		if got := p.output(); p.ProcessState.ExitCode() != 2 || !strings.Contains(got, says) || strings.Count(got, "\n") != 1 {
			t.Errorf("%s: exit code %d and\n%s", flag, p.ProcessState.ExitCode(), got)
		}
	}
}

// Memory does not grow with the number of large copies: neither sources nor copies are kept. The test has a control plane
// of its own and runs alone, because its writes would block the watches of other tests.
func TestMemoryDoesNotGrowWithTheContent(t *testing.T) {
	sources, namespaces := 30, 10
	if testing.Short() {
		sources, namespaces = 12, 6
	}
	few, many := peakMemory(t, 3, 2), peakMemory(t, sources, namespaces)
	more := sources*(namespaces+1) - 3*3
	t.Logf("the operator took %d MiB at most for 9 MB to copy and be copied, and %d MiB for %d MB more", few, many, more)
	if many-few > more/3 {
		t.Errorf("it took %d MiB more for %d MB more", many-few, more)
	}
}

// peakMemory runs the operator with that many sources of 1 MB and that many namespaces. It returns the peak memory of the
// process in MiB.
func peakMemory(t *testing.T, sources, namespaces int) int {
	t.Helper()
	c := clusterOn(t, testkit.New(t, testkit.Private()))
	c.Timeout = 2 * time.Minute // for writes of up to 300 MB
	c.op.Stop()
	for i := range sources {
		c.Apply(configMap(c.Namespace, fmt.Sprintf("source-%02d", i), strings.Repeat("x", 1000*1000)))
	}
	for i := range namespaces {
		c.namespace(strconv.Itoa(i))
	}
	rule := c.rule("r")
	c.Apply(rule)
	p := startProgram(t, c.K, nil, "--namespace="+c.Namespace, "--rule-name="+rule.Name)
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
	c.waitGone(rule)
	return kib / 1024
}

package e2e

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/homeostat-dev/homeostat/sdk/program"
	"github.com/homeostat-dev/homeostat/testkit"
	"github.com/homeostat-dev/homeostat/testkit/cluster"
)

// operatorVariable makes this test binary run an operator: with the value 1 for the usual sites, otherwise for those of the
// API version that it names.
const operatorVariable = "SDK_E2E_OPERATOR"

// slowPass is the duration of a reconcile of a site with the text "slow".
const slowPass = 500 * time.Millisecond

func runOperatorIfAsked() {
	version := os.Getenv(operatorVariable)
	if version == "" {
		return
	}
	op := operator(func(ctx context.Context, p *pass) error {
		_, _ = fmt.Fprintf(os.Stdout, "pass over %s: %s\n", p.Object.Name, p.Object.Spec.Text)
		switch p.Object.Spec.Text {
		case "slow":
			<-time.After(slowPass)
		case "endless":
			<-time.After(time.Hour)
		case "panic":
			panic("the text says so")
		}
		return oneChild(ctx, p)
	})
	op.Owns = []client.Object{&corev1.ConfigMap{}}
	if gv, err := schema.ParseGroupVersion(version); err == nil && gv.Group != "" {
		op.AddToScheme = siteOf(gv)
	}
	program.Main(op)
}

// A programProcess is an operator in a process of its own.
type programProcess struct {
	t   *testing.T
	cmd *exec.Cmd

	mu     sync.Mutex
	lines  []string // of the standard output
	stderr bytes.Buffer
	read   chan struct{} // closed after all output was read
}

// run starts the program. The program is killed after the test if it still runs.
func run(t *testing.T, env []string, args ...string) *programProcess {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p := &programProcess{t: t, cmd: exec.CommandContext(t.Context(), self, args...), read: make(chan struct{})}
	p.cmd.Env = append([]string{operatorVariable + "=1", "HOME=" + t.TempDir()}, env...)
	p.cmd.Stderr = &lockedWriter{mu: &p.mu, to: &p.stderr}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(p.read)
		for scanner := bufio.NewScanner(out); scanner.Scan(); {
			p.mu.Lock()
			p.lines = append(p.lines, scanner.Text())
			p.mu.Unlock()
		}
	}()
	return p
}

// runOn starts the program for the test's namespace.
func runOn(t *testing.T, k *testkit.K, args ...string) *programProcess {
	t.Helper()
	return run(t, nil, append([]string{"--kubeconfig=" + kubeconfig(t, k), "--watch-namespaces=" + k.Namespace}, args...)...)
}

// kubeconfig writes a kubeconfig for the test's cluster and returns its path.
func kubeconfig(t *testing.T, k *testkit.K) (file string) {
	t.Helper()
	data, err := cluster.Kubeconfig(k.Config)
	if err != nil {
		t.Fatal(err)
	}
	file = filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// lockedWriter is a writer that is safe for concurrent use.
type lockedWriter struct {
	mu *sync.Mutex
	to io.Writer
}

func (w *lockedWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.to.Write(p)
}

// message reports whether the program has printed this line.
func (p *programProcess) printed(line string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Contains(p.lines, line)
}

func (p *programProcess) waitFor(k *testkit.K, line string) {
	p.t.Helper()
	k.Wait(fmt.Sprintf("the program prints %q", line), func(context.Context) error {
		if p.printed(line) {
			return nil
		}
		return errors.New(p.errors())
	})
}

// errors returns what the program wrote to the standard error.
func (p *programProcess) errors() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stderr.String()
}

// exit waits until the program ends by itself and returns its exit code.
func (p *programProcess) exit() int {
	p.t.Helper()
	<-p.read
	var failure *exec.ExitError
	if err := p.cmd.Wait(); err != nil && !errors.As(err, &failure) {
		p.t.Fatal(err)
	}
	return p.cmd.ProcessState.ExitCode()
}

// freeAddress returns a loopback address with an unused port. The port is not one of those that the kernel assigns: another
// process would get it before the program listens.
func freeAddress(t *testing.T) string {
	t.Helper()
	for t.Context().Err() == nil {
		address := net.JoinHostPort("127.0.0.1", strconv.Itoa(20000+rand.IntN(10000)))
		if l, err := net.Listen("tcp", address); err == nil {
			_ = l.Close()
			return address
		}
	}
	t.Fatal("no port is free")
	return ""
}

func TestWrongUsage(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		reason  string
		env     []string
		args    []string
		code    int
		message string // one line on the standard error
	}{
		"unknown flag": {
			"a typo", nil, []string{"--worker=3"}, 2, "flag provided but not defined: --worker (see --help)",
		},
		"bad value": {
			"it names the flag", nil,
			[]string{"--workers=many"},
			2,
			`--workers="many": it must be a whole number (see --help)`,
		},
		"bad variable": {
			"it names the variable",
			[]string{"SHUTDOWN_TIMEOUT=soon"},
			nil, 2,
			`environment variable SHUTDOWN_TIMEOUT="soon": it must be a duration, such as 5s or 10m (see --help)`,
		},
		"impossible value": {
			"it says what is possible", nil,
			[]string{"--workers=0"},
			2,
			`--workers="0": it must be at least 1 (see --help)`,
		},
		"argument": {
			"a flag without its dashes", nil,
			[]string{"workers=3"},
			2,
			`unexpected argument "workers=3": only flags are taken (see --help)`,
		},
		"no such kubeconfig": {
			"it names the file", nil,
			[]string{"--kubeconfig=missing.yaml"},
			2,
			"missing.yaml does not exist: correct --kubeconfig or KUBECONFIG",
		},
		"no kubeconfig": {
			"it names the file that would have been read",
			[]string{"HOME=/nonexistent"},
			nil, 2,
			"no cluster to work on: the program does not run in one, and /nonexistent/.kube/config names none: " +
				"set --kubeconfig or KUBECONFIG",
		},
		"a pod without its token": {
			"it names what is missing",
			[]string{"HOME=/nonexistent", "KUBERNETES_SERVICE_HOST=10.0.0.1", "KUBERNETES_SERVICE_PORT=443"},
			nil, 2,
			"no cluster to work on: open /var/run/secrets/kubernetes.io/serviceaccount/token: no such file or directory: " +
				"let the pod mount the token of its ServiceAccount, or set --kubeconfig",
		},
		"help": {"it is not a mistake", nil, []string{"--help"}, 0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := run(t, c.env, c.args...)
			if code := p.exit(); code != c.code {
				t.Errorf("%s: exit code %d, want %d", c.reason, code, c.code)
			}
			if got := strings.TrimRight(p.errors(), "\n"); c.message != "" && got != c.message {
				t.Errorf("%s: standard error\n%s\nwant\n%s", c.reason, got, c.message)
			}
		})
	}
}

func TestUnreachableClusterIsNoUsageError(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	k.Config.Host = "https://" + freeAddress(t)
	p := runOn(t, k)
	if code := p.exit(); code != 1 {
		t.Errorf("exit code %d, want 1: %s", code, p.errors())
	}
	lines := strings.Split(strings.TrimSpace(p.errors()), "\n")
	last := lines[len(lines)-1]
	if !strings.HasPrefix(last, "Error: the API server at "+k.Config.Host+" does not answer: ") {
		t.Errorf("the last line is %q", last)
	}
}

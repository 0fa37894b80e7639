package operatorproc_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/homeostat-dev/homeostat/testkit"
	"github.com/homeostat-dev/homeostat/testkit/internal/operatorproc"
	"github.com/homeostat-dev/homeostat/testkit/internal/proxy"
	"github.com/homeostat-dev/homeostat/testkit/internal/scenario"
)

// python is the interpreter of Debian's packages. Another one may precede it in PATH.
const python = "/usr/bin/python3"

// needPython skips the test if the operators cannot run, unless they are required.
func needPython(t *testing.T) {
	t.Helper()
	switch message, required := missingPython(python, os.Getenv); {
	case message == "":
	case required:
		t.Fatal(message)
	default:
		t.Skip(message)
	}
}

// missingPython returns instructions if the interpreter lacks the package, and whether this fails the test.
func missingPython(interpreter string, getenv func(string) string) (message string, required bool) {
	required = getenv("CI") != "" || getenv("TESTKIT_REQUIRE_PYTHON") == "1"
	if out, err := exec.Command(interpreter, "-c", "import kubernetes").CombinedOutput(); err != nil {
		message = fmt.Sprintf("this test needs the kubernetes package of %s: install it, on Debian with "+
			"`apt-get install python3-kubernetes` (%v: %s)", interpreter, err, strings.TrimSpace(string(out)))
	}
	return message, required
}

func TestMissingPython(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		reason string
		env    map[string]string
		want   bool
	}{
		"Laptop":   {"the package is optional on a developer's machine", nil, false},
		"CI":       {"a test that is always skipped tests nothing", map[string]string{"CI": "true"}, true},
		"Required": {"the test is required", map[string]string{"TESTKIT_REQUIRE_PYTHON": "1"}, true},
		"Not":      {"the test is not required", map[string]string{"TESTKIT_REQUIRE_PYTHON": "0"}, false},
	}
	for name, tt := range tests {
		message, required := missingPython("/no/such/python3", func(key string) string { return tt.env[key] })
		if required != tt.want || !strings.HasPrefix(message, "this test needs the kubernetes package of /no/such/python3") {
			t.Errorf("%s: %v %q, want %v, because %s", name, required, message, tt.want, tt.reason)
		}
	}
}

// A subject is an operator in Python behind a proxy with faults.
type subject struct {
	t        *testing.T
	k        *testkit.K
	command  operatorproc.Command
	scenario *scenario.Scenario
	proxy    *proxy.Proxy
	number   int
	heard    sync.Map // processes that have sent a request

	mu      sync.Mutex
	current *operatorproc.Process
	log     []string
	changed chan struct{} // closed and replaced when a line is added
}

// newSubject prepares the operator in this folder. The optional fault wraps the transport of its requests.
func newSubject(t *testing.T, name string, fault func(http.RoundTripper) http.RoundTripper) *subject {
	t.Helper()
	needPython(t)
	dir := filepath.Join(pythonOperators, name)
	program, err := filepath.Abs(filepath.Join(dir, strings.ReplaceAll(name, "-", "_")+".py"))
	if name == "correct" {
		program, err = filepath.Abs(filepath.Join(dir, "pages.py"))
	}
	if err != nil {
		t.Fatal(err)
	}
	s := &subject{t: t, k: testkit.New(t), changed: make(chan struct{})}
	s.k.Timeout = shortTimeout
	if s.scenario, err = scenario.Read(filepath.Join(dir, "scenario.yaml")); err != nil {
		t.Fatal(err)
	}
	s.proxy, err = proxy.Start(t.Context(), proxy.Options{
		Target: s.k.ServiceAccount("pages-" + name), Namespace: s.k.Namespace,
		Wrap: func(next http.RoundTripper) http.RoundTripper {
			if fault != nil {
				next = fault(next)
			}
			return roundTrip(func(req *http.Request) (*http.Response, error) {
				s.heard.Store(proxy.User(req.Context()), true)
				return next.RoundTrip(req)
			})
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.proxy.Close)
	s.command = operatorproc.Command{
		Args:       []string{python, program},
		Namespace:  s.k.Namespace,
		Kubeconfig: filepath.Join(t.TempDir(), "kubeconfig"),
		Dir:        t.TempDir(),
	}
	return s
}

// start starts a process and waits for its first request: Python takes a while.
func (s *subject) start() *operatorproc.Process {
	s.t.Helper()
	s.number++
	if err := s.proxy.WriteKubeconfig(s.command.Kubeconfig, s.user()); err != nil {
		s.t.Fatal(err)
	}
	i, err := operatorproc.Start(s.command, s.report)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() {
		_ = i.Kill()
		if s.t.Failed() {
			s.t.Logf("the log of process %s:\n%s", s.user(), strings.Join(s.lines(), "\n"))
		}
	})
	s.mu.Lock()
	s.current = i
	s.mu.Unlock()
	pollUntil(s.t, "the operator asks for something", func() bool {
		s.must(i.Err())
		_, heard := s.heard.Load(s.user())
		return heard
	})
	return i
}

func (s *subject) user() string { return fmt.Sprintf("process-%d", s.number) }

// crash kills the process and closes its connections.
func (s *subject) crash() {
	s.mu.Lock()
	i := s.current
	s.mu.Unlock()
	if err := i.Kill(); err != nil {
		s.t.Error(err)
	}
	if err := i.Err(); err != nil {
		s.t.Errorf("before it was killed: %v", err)
	}
	s.proxy.Revoke(s.user())
}

func (s *subject) report(line operatorproc.Line) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.log = append(s.log, line.Text)
	close(s.changed)
	s.changed = make(chan struct{})
}

func (s *subject) lines() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.log...)
}

// awaitLog waits until the text occurs in the given number of lines.
func (s *subject) awaitLog(text string, times int) {
	s.t.Helper()
	over := time.After(s.k.Timeout)
	for {
		s.mu.Lock()
		changed, n := s.changed, 0
		for _, line := range s.log {
			if strings.Contains(line, text) {
				n++
			}
		}
		s.mu.Unlock()
		if n >= times {
			return
		}
		select {
		case <-changed:
		case <-over:
			s.t.Fatalf("waiting until the operator prints %q %d times: not within %v", text, times, s.k.Timeout)
		}
	}
}

// do performs the first steps of the scenario.
func (s *subject) do(steps int) error {
	for i := range steps {
		if err := s.scenario.Steps[i].Do(s.t.Context(), s.k.Client, s.k.Namespace); err != nil {
			return err
		}
	}
	return nil
}

func (s *subject) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

// stopInOrder stops the process gracefully.
func (s *subject) stopInOrder(i *operatorproc.Process) {
	s.t.Helper()
	if err := i.Stop(shortTimeout); err != nil {
		s.t.Fatal(err)
	}
	if i.Exit().Forced || i.Err() != nil {
		s.t.Errorf("after SIGTERM it ended with %v, %v", i.Exit(), i.Err())
	}
}

func folders(t *testing.T) []string {
	t.Helper()
	scenarios, err := filepath.Glob(filepath.Join(pythonOperators, "*", "scenario.yaml"))
	if err != nil || len(scenarios) != 7 {
		t.Fatalf("there are %d operators, %v", len(scenarios), err)
	}
	names := make([]string, 0, len(scenarios))
	for _, file := range scenarios {
		names = append(names, filepath.Base(filepath.Dir(file)))
	}
	return names
}

// Without a fault, the faulty operators pass their scenarios, too.
func TestPythonHappyPath(t *testing.T) {
	t.Parallel()
	for _, name := range folders(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSubject(t, name, nil)
			i := s.start()
			s.must(s.do(len(s.scenario.Steps)))
			s.stopInOrder(i)
			for _, line := range s.lines() {
				if strings.Contains(line, "Traceback") {
					t.Errorf("it printed a traceback:\n%s", strings.Join(s.lines(), "\n"))
					break
				}
			}
		})
	}
}

// The namespace and the cluster may be given by flags as well.
func TestPythonFlags(t *testing.T) {
	t.Parallel()
	s := newSubject(t, "correct", nil)
	s.command.Args = append(s.command.Args, "--namespace={namespace}", "--kubeconfig", "{kubeconfig}")
	s.command.Env = []string{"NAMESPACE=elsewhere", "KUBECONFIG=/nowhere"}
	s.start()
	s.must(s.do(1))
}

var errLost = errors.New("lost")

// A roundTrip is a RoundTripper.
type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

func isWrite(req *http.Request) bool { return req.Method != http.MethodGet }

func isWatch(req *http.Request) bool { return req.URL.Query().Has("watch") }

// crasher calls crash after the n-th write, whose response is lost, and then closes crashed.
type crasher struct {
	n       int32
	writes  atomic.Int32
	crash   func()
	crashed chan struct{}
}

func (c *crasher) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTrip(func(req *http.Request) (*http.Response, error) {
		resp, err := next.RoundTrip(req)
		if !isWrite(req) || err != nil || resp.StatusCode >= http.StatusBadRequest || c.writes.Add(1) != c.n {
			return resp, err
		}
		_ = resp.Body.Close()
		go func() {
			defer close(c.crashed)
			c.crash()
		}()
		<-req.Context().Done() // until the connection is closed
		return nil, errLost
	})
}

// pollUntil polls a condition that cannot be watched.
func pollUntil(t *testing.T, what string, done func() bool) {
	t.Helper()
	poll := func(context.Context) (bool, error) { return done(), nil }
	if err := wait.PollUntilContextTimeout(t.Context(), time.Millisecond, shortTimeout, true, poll); err != nil {
		t.Fatalf("waiting until %s: not within %v", what, shortTimeout)
	}
}

package remote

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/creachadair/jrpc2"

	"github.com/homeostat-dev/homeostat/testkit"
	"github.com/homeostat-dev/homeostat/testkit/internal/intercept"
)

// A test is one test of the client. It is the testing.TB of a [testkit.K].
type test struct {
	testing.TB // nil: methods that are not overridden below must not be called

	id, name, replay string
	ctx              context.Context //nolint:containedctx // it ends with the test, not with a call
	cancel           context.CancelFunc
	kit              *testkit.K
	faults           faults
	interceptor      *intercept.Interceptor

	acting sync.Mutex // methods of kit run one at a time

	mu        sync.Mutex
	failures  []string
	hasFailed bool
	log       strings.Builder
	cleanups  []func()
	operators []*testkit.Instance
}

// An opened is the answer to test.open.
type opened struct {
	Test       string `json:"test"`
	Namespace  string `json:"namespace"`
	Kubeconfig string `json:"kubeconfig"`
}

func (s *Server) open(ctx context.Context, p struct {
	Name    string   `json:"name"`
	Replay  string   `json:"replay"`
	Timeout float64  `json:"timeout"` // in seconds
	Without []string `json:"without"`
	Reason  string   `json:"reason"`
},
) (opened, error) {
	s.mu.Lock()
	s.count++
	t := &test{id: strconv.Itoa(s.count), name: p.Name, replay: p.Replay}
	s.mu.Unlock()
	t.faults.process = t.instance
	t.interceptor = intercept.New(&t.faults)
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	t.ctx = ctx
	t.cancel = cancel
	var options []testkit.Option
	if len(p.Without) > 0 {
		rules := make([]testkit.Oracle, len(p.Without))
		for i, rule := range p.Without {
			rules[i] = testkit.Oracle(rule)
		}
		options = append(options, testkit.WithoutOracles(p.Reason, rules...))
	}
	var kubeconfig string
	err := t.do(func() {
		t.kit = testkit.New(t, options...)
		if p.Timeout > 0 {
			t.kit.Timeout = seconds(p.Timeout)
		}
		kubeconfig = t.kit.Kubeconfig()
	})
	if err != nil {
		t.close()
		return opened{}, err
	}
	s.mu.Lock()
	s.tests[t.id] = t
	s.mu.Unlock()
	return opened{Test: t.id, Namespace: t.kit.Namespace, Kubeconfig: kubeconfig}, nil
}

// A closed is the answer to test.close.
type closed struct {
	// Failures are the violations of rules, and failures that were not the answer to a request.
	Failures []string `json:"failures"`
	// Log says what happened. It is empty if the test passed.
	Log string `json:"log"`
}

func (s *Server) close(_ context.Context, p struct {
	Test   string `json:"test"`
	Failed bool   `json:"failed"`
},
) (closed, error) {
	t, err := s.find(p.Test)
	if err != nil {
		return closed{}, err
	}
	s.mu.Lock()
	delete(s.tests, p.Test)
	s.mu.Unlock()
	t.mu.Lock()
	t.hasFailed = t.hasFailed || p.Failed
	t.mu.Unlock()
	return t.close(), nil
}

func (t *test) close() closed {
	t.cancel()
	for {
		t.mu.Lock()
		n := len(t.cleanups)
		if n == 0 {
			defer t.mu.Unlock()
			return closed{Failures: append([]string{}, t.failures...), Log: t.log.String()}
		}
		f := t.cleanups[n-1]
		t.cleanups = t.cleanups[:n-1]
		t.mu.Unlock()
		isolate(f)
	}
}

// isolate runs f in a goroutine of its own, because FailNow ends its goroutine.
func isolate(f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	<-done
}

// do runs an action on the kit. Its failures are the error.
func (t *test) do(f func()) error {
	t.acting.Lock()
	defer t.acting.Unlock()
	t.mu.Lock()
	before, hadFailed := len(t.failures), t.hasFailed
	t.mu.Unlock()
	isolate(f)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.hasFailed = hadFailed // the client says at the end whether its test has failed
	if len(t.failures) == before {
		return nil
	}
	text := strings.Join(t.failures[before:], "\n")
	t.failures = t.failures[:before] // the client knows it
	return jrpc2.Errorf(failed, "%s", text)
}

// on runs an action on the kit of an open test.
func (s *Server) on(id string, f func(t *test) error) error {
	t, err := s.find(id)
	if err != nil {
		return err
	}
	var result error
	if err := t.do(func() { result = f(t) }); err != nil {
		return err
	}
	if result == nil || errors.As(result, new(*jrpc2.Error)) {
		return result
	}
	return jrpc2.Errorf(failed, "%v", result)
}

// Interceptor implements an interface of package testkit: the test's programs send their requests through it.
func (t *test) Interceptor() *intercept.Interceptor { return t.interceptor }

// Replay implements an interface of package testkit.
func (t *test) Replay() string { return t.replay }

// Exemption implements an interface of package testkit.
func (t *test) Exemption(rule string) string {
	return fmt.Sprintf("@pytest.mark.testkit(without=[%q], reason=\"...\")", rule)
}

// Name implements testing.TB, as the methods below do.
func (t *test) Name() string             { return t.name }
func (t *test) Helper()                  {}
func (t *test) Context() context.Context { return t.ctx }

// Cleanup implements testing.TB.
func (t *test) Cleanup(f func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.cleanups = append(t.cleanups, f)
}

// Failed implements testing.TB.
func (t *test) Failed() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.hasFailed
}

func (t *test) fail(text string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.hasFailed = true
	t.failures = append(t.failures, strings.TrimSpace(text))
}

func (t *test) write(text string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.log.WriteString(strings.TrimSpace(text) + "\n")
}

// The methods of testing.TB that report.
func (t *test) Fail()                     { t.fail("it failed") }
func (t *test) FailNow()                  { t.Fail(); runtime.Goexit() }
func (t *test) Error(a ...any)            { t.fail(fmt.Sprintln(a...)) }
func (t *test) Errorf(f string, a ...any) { t.fail(fmt.Sprintf(f, a...)) }
func (t *test) Fatal(a ...any)            { t.Error(a...); runtime.Goexit() }
func (t *test) Fatalf(f string, a ...any) { t.Errorf(f, a...); runtime.Goexit() }
func (t *test) Log(a ...any)              { t.write(fmt.Sprintln(a...)) }
func (t *test) Logf(f string, a ...any)   { t.write(fmt.Sprintf(f, a...)) }
func (t *test) Skip(a ...any)             { t.Fatal(a...) }
func (t *test) Skipf(f string, a ...any)  { t.Fatalf(f, a...) }
func (t *test) SkipNow()                  { t.FailNow() }
func (t *test) Skipped() bool             { return false }

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

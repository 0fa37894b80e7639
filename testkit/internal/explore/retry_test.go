package explore_test

import (
	"strings"
	"testing"
	"time"

	"github.com/homeostat-dev/homeostat/testkit"
	"github.com/homeostat-dev/homeostat/testkit/internal/explore"
	"github.com/homeostat-dev/homeostat/testkit/internal/kitadapter"
	"github.com/homeostat-dev/homeostat/testkit/internal/report"
	"github.com/homeostat-dev/homeostat/testkit/internal/space"
	"github.com/homeostat-dev/homeostat/testkit/mutants"
)

// An exploration measures how long the operator takes to repeat a failed write. A run waits for several retries.
func TestSlowRetryIsLearned(t *testing.T) {
	t.Parallel()
	const after = 3 * time.Second
	m := mutants.SlowRetry(after)
	o := explore.Options{
		Opener: kitadapter.Open, Name: m.Name,
		SelectPlan: func(plan string) bool { return strings.HasPrefix(plan, "error-503/create") },
		Subject: kitadapter.InProcess(func(k *testkit.K, opts ...testkit.StartOption) explore.Process {
			return k.Start(m.Setup, append(opts, testkit.WithConfig(k.ServiceAccount(m.ServiceAccount)))...)
		}),
	}
	for _, s := range m.Steps {
		o.Steps = append(o.Steps, kitadapter.Step(s.Name, s.Do))
	}
	cfg, err := testkit.Config(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	x, err := explore.New(t.Context(), cfg, o)
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	r, err := x.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if got := x.Retry(); got < after {
		t.Errorf("a failed write was repeated after %v, want at least %v", got, after)
	}
	if got := violationsOf(r); len(got) > 0 {
		t.Errorf("violations of a correct operator: %v\n%s", got, text(t, r))
	}
}

// The timeout is three times the time of a retry, and the report has both.
func TestRetryExtendsTimeout(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		retry, timeout time.Duration
		note           string
	}{
		"Quick": {20 * time.Millisecond, 30 * time.Second, ""},
		"Slow":  {time.Minute, 3 * time.Minute, "a failed write was repeated after 1m0s: each run waits up to 3m0s"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			timeout, notes := explore.TimeoutAfterRetry(30*time.Second, test.retry)
			got := strings.Join(notes, "\n")
			if timeout != test.timeout || !strings.HasPrefix(got, test.note) || test.note == "" && got != "" {
				t.Errorf("the timeout is %v with notes %q, want %v and %q", timeout, notes, test.timeout, test.note)
			}
		})
	}
}

// long is a timeout that no run should reach, not even on a busy machine.
const long = 5 * time.Minute

// A run that fails ends soon if the operator has nothing to do.
func TestFailureEndsSoon(t *testing.T) {
	t.Parallel()
	const plan = "drift-edited/configmaps/home"
	o := mutantOptions(t, "drift/no-owns")
	o.Timeout = long
	o.SelectPlan = func(name string) bool { return name == plan }
	failures := run(t, o).Failures()
	if len(failures) == 0 {
		t.Fatal("the mutant is not found")
	}
	if first := failures[0]; first.Name != plan || first.Duration >= long {
		t.Errorf("%s failed after %v, want %s to fail earlier", first.Name, first.Duration, plan)
	}
}

// Otherwise it ends soon if another run has waited in vain in the same state.
func TestSameFailureEndsSoon(t *testing.T) {
	t.Parallel()
	o := mutantOptions(t, "drift/no-owns")
	o.Timeout = 10 * time.Second
	o.Subject = opaqueSubject{o.Subject}
	o.SelectPlan = func(name string) bool { return name == "drift-edited/configmaps/home" }
	cfg, err := testkit.Config(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	x, err := explore.New(t.Context(), cfg, o)
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	if _, err := x.RunBaseline(t.Context()); err != nil {
		t.Fatal(err)
	}
	plans, _ := x.Plans()
	for _, timeout := range []time.Duration{o.Timeout, long} {
		x.Timeout = timeout
		run, err := x.RunPlan(t.Context(), plans[0])
		if err != nil {
			t.Fatal(err)
		}
		if run.Outcome != report.Failed || run.Duration >= long || timeout != long && run.Duration < timeout {
			t.Errorf("with timeout %v the run is %s after %v", timeout, run.Outcome, run.Duration)
		}
	}
}

// opaqueSubject is an operator that does not tell whether it has anything to do, as a program.
type opaqueSubject struct{ explore.Subject }

func (s opaqueSubject) Start(in *space.Space, how explore.Start) (explore.Process, error) {
	p, err := s.Subject.Start(in, how)
	if err != nil {
		return nil, err
	}
	return struct{ explore.Process }{p}, nil
}

package plain_test

import (
	"flag"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/homeostat-dev/homeostat/testkit"
	"github.com/homeostat-dev/homeostat/testkit/mutants"
)

var update = flag.Bool("update", false, "write what is detected to "+golden)

// golden has a line for each mutant that the suites detect, with the test that fails.
const golden = "testdata/detected.txt"

// Without RBAC operators may do everything, as with envtest.
func TestMain(m *testing.M) {
	testkit.Main(m, testkit.Env{FS: mutants.Files, CRDs: mutants.CRDs, AddToScheme: mutants.AddToScheme})
}

// A test is one of a suite. They run in order and build on each other.
type test struct {
	name string
	run  func(k *testkit.K)
}

// suites are those of the classes' operators.
var suites = map[string][]test{
	"hot-loop":        backup,
	"crash":           snapshot,
	"stale-cache":     cache,
	"missed-state":    route,
	"path-dependence": proxy,
	"deletion":        archive,
	"rbac":            website,
	"drift":           website,
}

func TestTwins(t *testing.T) {
	t.Parallel()
	for _, m := range mutants.Correct() {
		t.Run(m.Name, func(t *testing.T) {
			t.Parallel()
			if failed := try(t, m, testkit.DefaultTimeout); failed != "" {
				t.Errorf("a correct operator fails: %s", failed)
			}
		})
	}
}

// What is detected is a measurement: it has to be stable, and neither high nor low.
func TestDetected(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile(golden)
	if err != nil && !*update {
		t.Fatal(err)
	}
	var (
		mu       sync.Mutex
		detected []string
	)
	t.Run("mutants", func(t *testing.T) {
		for _, m := range mutants.All() {
			t.Run(m.Name, func(t *testing.T) {
				t.Parallel()
				patience := testkit.DefaultTimeout
				if strings.Contains(string(data), m.Name+": ") {
					patience = 5 * time.Second // that it fails is known: there is no reason to wait long for it
				}
				if failed := try(t, m, patience); failed != "" {
					mu.Lock()
					defer mu.Unlock()
					name, _, _ := strings.Cut(failed, ":")
					detected = append(detected, m.Name+": "+name+"\n")
					t.Log(failed)
				}
			})
		}
	})
	slices.Sort(detected)
	if *update {
		if err := os.WriteFile(golden, []byte(strings.Join(detected, "")), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	t.Logf("detected %d of %d", len(detected), len(mutants.All()))
	if diff := cmp.Diff(strings.SplitAfter(string(data), "\n"), append(detected, "")); diff != "" {
		t.Errorf("detected (-%s +now):\n%s", golden, diff)
	}
}

// try runs the suite of an operator and returns the test that fails, and why.
func try(t *testing.T, m mutants.Mutant, patience time.Duration) string {
	t.Helper()
	trial := &trial{TB: t}
	done := make(chan struct{})
	go func() {
		defer close(done)
		k := testkit.New(trial)
		k.Timeout = patience
		k.Start(m.Setup)
		for _, test := range suites[m.Class] {
			trial.enter(test.name)
			test.run(k)
		}
		trial.enter("")
	}()
	<-done
	return trial.failure()
}

// A trial is a test whose failure is a result.
type trial struct {
	testing.TB

	mu     sync.Mutex
	stage  string
	failed string
}

func (t *trial) enter(stage string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.stage = stage
}

func (t *trial) failure() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.failed
}

func (t *trial) Errorf(format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.failed == "" {
		t.failed = fmt.Sprintf("%s: %s", t.stage, fmt.Sprintf(format, args...))
	}
}

func (t *trial) Fatalf(format string, args ...any) {
	t.Errorf(format, args...)
	runtime.Goexit()
}

func (t *trial) Fatal(args ...any) { t.Fatalf("%s", fmt.Sprint(args...)) }
func (t *trial) Error(args ...any) { t.Errorf("%s", fmt.Sprint(args...)) }

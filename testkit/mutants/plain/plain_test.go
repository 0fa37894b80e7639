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
	ctrlcache "sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/homeostat-dev/homeostat/testkit"
	"github.com/homeostat-dev/homeostat/testkit/mutants"
)

var update = flag.Bool("update", false, "write what is detected to "+golden)

// golden has a line for each mutant that the suites detect, with the failing test.
const golden = "testdata/detected.txt"

// Without RBAC operators have all permissions, as with envtest.
func TestMain(m *testing.M) {
	testkit.Main(m, testkit.Env{FS: mutants.Files, CRDs: mutants.CRDs, AddToScheme: mutants.AddToScheme})
}

// A test is part of a suite. The tests of a suite run in order and build on each other.
type test struct {
	name string
	run  func(k *testkit.K)
}

// suites holds the suite of each class.
var suites = map[string][]test{
	"hot-loop":        backup,
	"crash":           snapshot,
	"stale-cache":     cache,
	"missed-state":    route,
	"path-dependence": proxy,
	"deletion":        archive,
	"rbac":            website,
	"drift":           website,
	"foreign-object":  bucket,
	"outage":          feed,
	"recreated-input": page,
	"stale-pass":      batch,
	"dead-watch":      mirror,
	"two-faults":      transfer,
	"injector":        sidecar,
	"clock":           timer,
	"every-run":       app,

	"across-namespaces": share,
}

func TestTwins(t *testing.T) {
	t.Parallel()
	for _, m := range mutants.CorrectTwins() {
		t.Run(m.Name, func(t *testing.T) {
			t.Parallel()
			if failed := runSuite(t, m, testkit.DefaultTimeout); failed != "" {
				t.Errorf("a correct operator fails: %s", failed)
			}
		})
	}
}

// byChance lists mutants whose detection depends on the speed of the machine: they err if their cache is late by some
// milliseconds, or if a write is rejected for that reason. The mutant of recreated-input misses the creation
// of the template, but reconciles once more after it has stored its status: it then sees the template if the test has
// created it already.
var byChance = []string{
	"across-namespaces/copies-unseen",
	"foreign-object/deletes-by-name",
	"injector/whole-object",
	"missed-state/on-delete",
	"outage/final-error",
	"recreated-input/no-create-event",
	"stale-pass/collision",
	"stale-pass/prunes-twice",
	"two-faults/no-mark",
}

// TestDetected measures the suites. The result has to be stable.
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
				timeout := testkit.DefaultTimeout
				if strings.Contains(string(data), m.Name+": ") {
					timeout = 10 * time.Second // the failure is expected, so a short timeout suffices
				}
				if failed := runSuite(t, m, timeout); failed != "" {
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
	detected = slices.DeleteFunc(detected, func(line string) bool {
		name, _, _ := strings.Cut(line, ":")
		return slices.Contains(byChance, name)
	})
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

// runSuite runs the suite of an operator and returns the failing test with its reason.
func runSuite(t *testing.T, m mutants.Mutant, timeout time.Duration) string {
	t.Helper()
	tb := &recordingTB{TB: t}
	done := make(chan struct{})
	go func() {
		defer close(done)
		k := testkit.New(tb)
		k.Timeout = timeout
		k.Start(m.Setup, testkit.WithManagerOptions(func(o *manager.Options) {
			if m.ClusterWide { // other tests use the same control plane
				o.Cache.DefaultNamespaces = map[string]ctrlcache.Config{k.Namespace: {}, k.Namespace + "-a": {}}
			}
		}))
		for _, test := range suites[m.Class] {
			tb.enter(test.name)
			test.run(k)
		}
		tb.enter("")
	}()
	<-done
	return tb.failure()
}

// A recordingTB is a testing.TB that records a failure.
type recordingTB struct {
	testing.TB

	mu     sync.Mutex
	stage  string
	failed string
}

func (t *recordingTB) enter(stage string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.stage = stage
}

func (t *recordingTB) failure() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.failed
}

func (t *recordingTB) Errorf(format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.failed == "" {
		t.failed = fmt.Sprintf("%s: %s", t.stage, fmt.Sprintf(format, args...))
	}
}

func (t *recordingTB) Fatalf(format string, args ...any) {
	t.Errorf(format, args...)
	runtime.Goexit()
}

func (t *recordingTB) Fatal(args ...any) { t.Fatalf("%s", fmt.Sprint(args...)) }
func (t *recordingTB) Error(args ...any) { t.Errorf("%s", fmt.Sprint(args...)) }

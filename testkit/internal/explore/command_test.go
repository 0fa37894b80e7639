package explore_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/rest"

	"github.com/homeostat-dev/homeostat/testkit"
	"github.com/homeostat-dev/homeostat/testkit/internal/explore"
	"github.com/homeostat-dev/homeostat/testkit/internal/kitadapter"
	"github.com/homeostat-dev/homeostat/testkit/internal/report"
	"github.com/homeostat-dev/homeostat/testkit/internal/scenario"
	"github.com/homeostat-dev/homeostat/testkit/internal/space"
)

// python is the interpreter of Debian's packages. Another one may precede it in PATH.
const python = "/usr/bin/python3"

func needPython(t *testing.T) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), python, "-c", "import kubernetes").CombinedOutput()
	if err == nil {
		return
	}
	if os.Getenv("CI") != "" || os.Getenv("TESTKIT_REQUIRE_PYTHON") == "1" {
		t.Fatalf("%s has no package kubernetes: apt-get install python3-kubernetes (%v: %s)", python, err, out)
	}
	t.Skipf("%s has no package kubernetes: apt-get install python3-kubernetes", python)
}

// actAs returns a target with the permissions of a ServiceAccount from this package's files.
func actAs(account string) func(s *space.Space) (*rest.Config, error) {
	return func(s *space.Space) (*rest.Config, error) { return kitadapter.ServiceAccount(s, account) }
}

// pythonOptions returns options for the operator in this folder and these plans only.
func pythonOptions(t *testing.T, folder string, plans ...string) explore.Options {
	t.Helper()
	needPython(t)
	dir := filepath.Join(pythonOperators, folder)
	program := filepath.Join(dir, strings.ReplaceAll(folder, "-", "_")+".py")
	if folder == "correct" {
		program = filepath.Join(dir, "pages.py")
	}
	s, err := scenario.Read(filepath.Join(dir, "scenario.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for i := range s.Steps {
		for j := range s.Steps[i].Waits {
			s.Steps[i].Waits[j].Timeout = 10 * time.Second // a failing run waits for this timeout
		}
	}
	o := explore.Options{
		Opener: kitadapter.Open, Name: folder,
		Timeout: testkit.DefaultTimeout, StepQuietPeriod: 300 * time.Millisecond, Parallel: 3, Seed: 1,
		Subject:    &explore.Command{Args: []string{python, program}, Folder: t.TempDir(), Target: actAs("pages-" + folder)},
		SelectPlan: func(plan string) bool { return slices.Contains(plans, plan) },
	}
	o.Script(s)
	return o
}

func TestCorrectOperatorInPython(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("each of its runs starts processes, and there are many")
	}
	plans := []string{
		"conflict/update-configmaps-example#1", "crash-after/create-services-example#1",
		"crash-deleted/create-configmaps-example#1",
		"deleted@edit", "down@edit", "drift-deleted/services/example", "drift-edited/configmaps/example",
		"error-429/update-pages.status-example#2", "failover@edit", "lag/configmaps@edit",
		"lost-answer/create-configmaps-example#1", "missed/pages.testkit.homeostat.dev@create+edit", "watch-closed@create",
		"namespace-deleted@edit", "down@create+edit",
		"watch-broken@edit", "watch-expired@edit",
	}
	r := run(t, pythonOptions(t, "correct", plans...))
	got := map[string]report.Outcome{}
	for _, run := range r.Runs {
		if run.Fault != "none" {
			got[run.Name] = run.Outcome
		}
		if run.Outcome == report.Untried && run.UntriedReason != explore.ErrNoElection.Error() {
			t.Errorf("%s: untried: %s", run.Name, run.UntriedReason)
		}
	}
	want := map[string]report.Outcome{}
	for _, plan := range plans {
		want[plan] = report.Passed
	}
	want["failover@edit"] = report.Untried
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s\n%s", diff, text(t, r))
	}
}

// An operator without watches that applies everything every second and stores the time is correct.
func TestPollingOperatorInPython(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("each of its runs starts processes, and there are many")
	}
	r := run(t, pythonOptions(t, "polls",
		"down@create+edit", "down@edit+delete", "drift-deleted/services/example", "drift-edited/configmaps/example",
		"crash-after/apply-configmaps-example#1", "error-500/list-pages#2", "lost-answer/apply-services-example#1",
		"namespace-deleted@edit",
	))
	tried := 0
	for _, run := range r.Runs {
		if run.Outcome == report.Passed {
			tried++
		}
	}
	if got := violationsOf(r); len(got) > 0 || tried < 9 {
		t.Errorf("%d runs passed, and this was found: %v\n%s", tried, got, text(t, r))
	}
}

// A specific plan and a matching oracle find each bug.
func TestFaultyOperatorsInPython(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("each of its runs starts processes, and there are many")
	}
	for folder, test := range map[string]struct {
		reason string
		plan   string // none: without a fault
		want   string
	}{
		"create-only":      {"it has a handler for created Pages only", "none", "status"},
		"already-exists":   {"409 is success, regardless of the object's content", "down@edit", "scenario"},
		"status-forbidden": {"its Role lacks a permission, and it ignores the 403", "none", "forbidden"},
		"watch-dies":       {"a broken watch ends its thread", "watch-broken@edit", "scenario"},
		"count-in-memory":  {"after a crash it counts from 1 again", "crash-after/update-pages.status-example#2", "end-state"},
	} {
		t.Run(folder, func(t *testing.T) {
			r := run(t, pythonOptions(t, folder, test.plan))
			wanted := func(f string) bool { return strings.HasSuffix(f, ": "+test.want) }
			if got := violationsOf(r); !slices.ContainsFunc(got, wanted) {
				t.Errorf("%s: found %v, want %s\n%s", test.reason, got, test.want, text(t, r))
			}
			for _, failed := range r.Failures() {
				if test.plan != "none" && failed.Name != test.plan || !slices.ContainsFunc(failed.Timeline, func(e report.Entry) bool {
					return e.Lane == report.Log
				}) {
					t.Errorf("%s failed, want %s, with the operator's log", failed.Name, test.plan)
				}
			}
		})
	}
}

// The verdict is the same for an operator in this process and for the same operator as a program behind a proxy.
func TestSameVerdict(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("each of its runs starts processes, and there are many")
	}
	for name, plan := range map[string]string{
		"drift/clobber": "conflict/update-configmaps-home#1",
		"drift/correct": "conflict/update-configmaps-home#1",
		"rbac/wildcard": "none", // without a fault
	} {
		t.Run(name, func(t *testing.T) {
			verdict := func(subject explore.Subject) []string {
				o := mutantOptions(t, name)
				o.SelectPlan = func(p string) bool { return p == plan }
				if subject != nil {
					o.Subject = subject
				}
				var all []string
				for _, run := range run(t, o).Runs {
					all = append(all, run.Name+" "+string(run.Outcome))
					for _, v := range run.Violations {
						all = append(all, run.Name+" "+v.Oracle)
					}
				}
				return all
			}
			inside := verdict(nil)
			outside := verdict(&explore.Command{
				Args: []string{os.Args[0]}, Env: []string{mutantVariable + "=" + name}, Folder: t.TempDir(),
				Target: actAs(mutant(t, name).ServiceAccount),
			})
			if diff := cmp.Diff(inside, outside); diff != "" {
				t.Errorf("(-in this process +behind a proxy):\n%s", diff)
			}
		})
	}
}

// A program reports its panics in its log.
func TestLoggedPanic(t *testing.T) {
	t.Parallel()
	const name = "drift/correct"
	o := mutantOptions(t, name)
	o.Steps = o.Steps[:1]
	o.SelectPlan = func(string) bool { return false }
	o.Subject = &explore.Command{
		Args: []string{"sh", "-c", `echo 'E1126 08:30:06 "Observed a panic" panic="runtime error: index out of range [3]"' >&2
exec "$0"`, os.Args[0]},
		Env: []string{mutantVariable + "=" + name}, Folder: t.TempDir(), Target: actAs(mutant(t, name).ServiceAccount),
	}
	r := run(t, o)
	for _, failed := range r.Runs {
		if len(failed.Violations) != 1 || failed.Violations[0].Oracle != "panic" ||
			failed.Violations[0].Message != "the operator panicked: runtime error: index out of range [3]" {
			t.Errorf("%s: found %v, want the panic\n%s", failed.Name, failed.Violations, text(t, r))
		}
	}
	if len(r.Runs) == 0 || !strings.Contains(text(t, r), "Observed a panic") {
		t.Errorf("the report has %d runs, and does not show the log:\n%s", len(r.Runs), text(t, r))
	}
}

func TestStartErrors(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		reason  string
		args    []string
		timeout time.Duration
		ended   bool
		want    string
	}{
		"NotFound": {
			"the path is wrong",
			[]string{"/no/such/operator"},
			0, false,
			"starting the operator: fork/exec /no/such/operator",
		},
		"Ends": {
			"its output shows the reason",
			[]string{"sh", "-c", "echo no such flag; exit 3"},
			0, true,
			"the operator ended by itself (exit status 3); the last it printed:\n  no such flag\n" +
				"It has asked the API server for nothing before",
		},
		"Silent": {
			"it does not use the kubeconfig",
			[]string{"sleep", "1000"},
			300 * time.Millisecond, false,
			"the operator has asked the API server for nothing within 300ms: make it use the kubeconfig in KUBECONFIG",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg, err := testkit.Config(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			o := mutantOptions(t, "drift/correct")
			o.Subject = &explore.Command{
				Args: test.args, Folder: t.TempDir(), Timeout: test.timeout,
				Target: func(*space.Space) (*rest.Config, error) { return cfg, nil },
			}
			x, err := explore.New(t.Context(), cfg, o)
			if err != nil {
				t.Fatal(err)
			}
			defer x.Close()
			_, err = x.Run(t.Context())
			var start *explore.StartError
			if !errors.As(err, &start) || start.Ended != test.ended || !strings.Contains(err.Error(), test.want) {
				t.Errorf("%s: %v, want %s", test.reason, err, test.want)
			}
		})
	}
}

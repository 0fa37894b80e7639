package sandbox_test

import (
	"context"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/homeostat-dev/homeostat/testkit/assets"
	"github.com/homeostat-dev/homeostat/testkit/cluster"
	"github.com/homeostat-dev/homeostat/testkit/internal/environment"
	"github.com/homeostat-dev/homeostat/testkit/internal/process"
	"github.com/homeostat-dev/homeostat/testkit/internal/readiness"
	"github.com/homeostat-dev/homeostat/testkit/sandbox"
)

func TestMain(m *testing.M) {
	environment.RunHelperProcess()
	log.SetLogger(logr.Discard()) // otherwise controller-runtime warns after half a minute
	os.Exit(m.Run())
}

// timeout is far more than any step takes on an idle machine.
const timeout = 2 * time.Minute

// A journal records the reports and processes of a sandbox.
type journal struct {
	mu    sync.Mutex
	lines []string
	ids   []process.ID
}

func (d *journal) report(line string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lines = append(d.lines, line)
}

func (d *journal) started(id process.ID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.ids = append(d.ids, id)
}

func (d *journal) processes() []process.ID {
	d.mu.Lock()
	defer d.mu.Unlock()
	return append([]process.ID{}, d.ids...)
}

func (d *journal) has(part string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return strings.Contains(strings.Join(d.lines, "\n"), part)
}

func until(t *testing.T, what string, done func() bool) {
	t.Helper()
	poll := func(context.Context) (bool, error) { return done(), nil }
	ctx := context.WithoutCancel(t.Context()) // also used in a cleanup
	if err := wait.PollUntilContextTimeout(ctx, 10*time.Millisecond, timeout, true, poll); err != nil {
		t.Fatalf("waiting until %s: %v", what, err)
	}
}

func load(t *testing.T) *sandbox.Project {
	t.Helper()
	p, err := sandbox.Load(t.Context(), "testdata/widget")
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func start(t *testing.T, existing *sandbox.ExistingCluster) (*sandbox.Sandbox, *journal) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	t.Cleanup(cancel)
	set, err := assets.Find(ctx, assets.Options{Programs: cluster.Programs(cluster.Workloads)})
	if err != nil {
		t.Fatal(err)
	}
	d := &journal{}
	s, err := sandbox.Start(ctx, sandbox.Options{
		Projects: []*sandbox.Project{load(t)}, Assets: set, Existing: existing, Report: d.report, Started: d.started,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Stop(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
		for _, id := range d.processes() {
			if id.Alive() {
				t.Errorf("operator process %d still runs", id.PID)
			}
		}
	})
	return s, d
}

func ready(t *testing.T, s *sandbox.Sandbox) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	if err := errors.Join(s.ApplySamples(ctx), s.WaitReady(ctx)); err != nil {
		t.Fatalf("%v\n%s", err, s.Operators()[0].LogTail())
	}
}

// message returns the message that the operator has written to the status of a Widget.
func message(t *testing.T, s *sandbox.Sandbox, name string) string {
	t.Helper()
	c, err := client.New(s.Config(), client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	w := &unstructured.Unstructured{}
	w.SetGroupVersionKind(s.Samples()[0].GroupVersionKind())
	if err := c.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: name}, w); err != nil {
		t.Fatal(err)
	}
	condition, _ := readiness.Condition(w, readiness.Ready)
	return condition.Message
}

func TestOperatorProcess(t *testing.T) {
	t.Parallel()
	s, d := start(t, nil)
	ready(t, s)
	// Arguments and environment of the Deployment, and the permissions of its ServiceAccount.
	if got, want := message(t, s, "sample"), "hello world from widget-system, secrets forbidden: true"; got != want {
		t.Errorf("the operator says %q, want %q", got, want)
	}
	op := s.Operators()[0]
	if want := "system:serviceaccount:widget-system:widget-operator"; op.User != want {
		t.Errorf("the operator is %s, want %s", op.User, want)
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+op.ProbeAddress+"/readyz", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	if err := resp.Body.Close(); err != nil || resp.StatusCode != http.StatusOK {
		t.Errorf("its probe: %s, %v", resp.Status, err)
	}
	checkTable(t, s)
	checkRestart(t, s, d)
}

func checkTable(t *testing.T, s *sandbox.Sandbox) {
	t.Helper()
	tables, err := s.Tables(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(tables) != 1 || len(tables[0].Rows) != 1 {
		t.Fatalf("tables: %v", tables)
	}
	if got, want := strings.Join(tables[0].Columns, " "), "NAMESPACE NAME SIZE READY CONDITIONS"; got != want {
		t.Errorf("columns %q, want %q", got, want)
	}
	if got, want := strings.Join(tables[0].Rows[0].Cells, " "), "default sample 3 True Ready"; got != want {
		t.Errorf("row %q, want %q", got, want)
	}
}

// checkRestart kills the operator, which has to restart and work.
func checkRestart(t *testing.T, s *sandbox.Sandbox, d *journal) {
	t.Helper()
	changes, err := s.Changes(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	op := s.Operators()[0]
	before := op.Status()
	if err := op.Kill(); err != nil {
		t.Fatal(err)
	}
	until(t, "the operator comes back", func() bool {
		now := op.Status()
		return now.Restarts == 1 && now.PID != 0 && now.PID != before.PID
	})
	for _, want := range []string{"widget ended (signal: killed); it starts again in 1 s", "widget runs again"} {
		until(t, "a report contains "+want, func() bool { return d.has(want) })
	}
	second := s.Samples()[0].DeepCopy()
	second.SetName("second")
	second.SetNamespace("default")
	c, err := client.New(s.Config(), client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Create(t.Context(), second); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(timeout); message(t, s, "second") == ""; {
		if time.Now().After(deadline) {
			t.Fatal("the restarted operator does nothing")
		}
		<-changes
	}
}

func TestExistingCluster(t *testing.T) {
	set, err := assets.Find(t.Context(), assets.Options{Programs: cluster.Programs(cluster.API)})
	if err != nil {
		t.Fatal(err)
	}
	existing, err := cluster.Start(t.Context(), cluster.Options{Binaries: set.Dir})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = existing.Stop() })
	data, err := cluster.Kubeconfig(existing.Config())
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("KUBECONFIG", "/no/such:"+file) // a list with a missing file
	found, err := sandbox.FindExisting("testkit")
	if err != nil {
		t.Fatal(err)
	}
	s, _ := start(t, found)
	mine, err := clientcmd.BuildConfigFromFlags("", s.Kubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	if s.Config().Host != existing.Config().Host || mine.Host != existing.Config().Host {
		t.Errorf("it uses %s and reports %s", s.Config().Host, mine.Host)
	}
	ready(t, s)
	if err := s.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := message(t, s, "sample"); got == "" {
		t.Error("the sample is gone with the sandbox")
	}
	// An operator that is deployed already must not get a competitor.
	c, err := client.New(existing.Config(), client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Create(t.Context(), load(t).Deployment); err != nil {
		t.Fatal(err)
	}
	_, err = sandbox.Start(t.Context(), sandbox.Options{Projects: []*sandbox.Project{load(t)}, Existing: found})
	want := "already runs in this cluster, as Deployment widget-system/widget-operator"
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("a competitor was started: %v", err)
	}
}

func TestWaitReadyReportsUnreadySample(t *testing.T) {
	t.Parallel()
	s, d := start(t, nil)
	ctx, cancel := context.WithTimeout(t.Context(), 6*time.Second)
	defer cancel()
	err := s.WaitReady(ctx) // the sample was not applied
	if want := "waiting for Widget sample: "; !d.has(want) {
		t.Errorf("no report has %q", want)
	}
	if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "Widget sample: ") {
		t.Errorf("%v", err)
	}
}

package database_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/homeostat-dev/homeostat/testkit"
	kubeconfig "github.com/homeostat-dev/homeostat/testkit/cluster"
)

// 1,000 databases become Ready on simulated nodes with the shipped program, and its memory is measured. After a restart the
// program writes nothing and is idle. The test has its own control plane and runs alone. With -short it uses 30 databases.
func TestThousandIdleWithoutRequests(t *testing.T) {
	const limit = 512 // MiB, from config/manager
	n, silence := 1000, 30*time.Second
	if testing.Short() {
		n, silence = 30, 3*time.Second
	}
	k := testkit.New(t, testkit.Private())
	k.Timeout = 15 * time.Minute
	p := launch(t, k)
	began := time.Now()
	for i := range n {
		db := newDatabase(fmt.Sprintf("db-%04d", i))
		db.Namespace = k.Namespace
		db.Spec.Replicas = new(int32(1))
		if err := k.Client.Create(k.Context(), db); err != nil {
			t.Fatal(err)
		}
	}
	for i := range n {
		k.Eventually(newDatabase(fmt.Sprintf("db-%04d", i)), testkit.Ready())
	}
	peak := p.peak(t)
	t.Logf("%d databases were Ready after %s; the program took %d MiB at most", n, time.Since(began), peak)
	if peak >= limit {
		t.Errorf("the program took %d MiB, and is given %d", peak, limit)
	}
	p.end(t)
	op := start(k)
	waitIdle(k, op)
	if w := writes(op); len(w) > 0 {
		t.Errorf("writes after a restart: %v", w)
	}
	expectNoRequests(t, k, op, silence)
}

// program is cmd in its own process.
type program struct {
	*exec.Cmd

	logs bytes.Buffer
}

// launch builds and starts the program for all namespaces.
func launch(t *testing.T, k *testkit.K) *program {
	t.Helper()
	dir := t.TempDir()
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", dir, "./cmd").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	data, err := kubeconfig.Kubeconfig(k.Config)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "kubeconfig")
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
	p := &program{Cmd: exec.CommandContext(t.Context(), filepath.Join(dir, "cmd"), "--kubeconfig="+file)}
	p.Stdout = &p.logs
	p.Stderr = &p.logs
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	return p
}

// peak returns the maximum resident memory in MiB.
func (p *program) peak(t *testing.T) int {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.Process.Pid))
	if err != nil {
		t.Log("there is no /proc here:", err)
		return 0
	}
	_, rest, _ := strings.Cut(string(status), "VmHWM:")
	kib, err := strconv.Atoi(strings.Fields(rest)[0])
	if err != nil {
		t.Fatal(err)
	}
	return kib / 1024
}

// end stops the program as the kubelet does.
func (p *program) end(t *testing.T) {
	t.Helper()
	if err := p.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := p.Wait(); err != nil {
		t.Errorf("it ends with %v:\n%s", err, p.logs.String())
	}
}

// expectNoRequests fails the test if the operator sends a request within the duration.
func expectNoRequests(t *testing.T, k *testkit.K, op *testkit.Instance, during time.Duration) {
	t.Helper()
	before := len(op.Requests())
	select {
	case <-k.Context().Done():
	case <-time.After(during):
	}
	for _, r := range op.Requests()[before:] {
		t.Errorf("request at steady state: %s", r)
	}
}

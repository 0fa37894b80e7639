package environment_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/homeostat-dev/homeostat/testkit/assets"
	"github.com/homeostat-dev/homeostat/testkit/cluster"
	"github.com/homeostat-dev/homeostat/testkit/internal/environment"
	"github.com/homeostat-dev/homeostat/testkit/internal/manifest"
	"github.com/homeostat-dev/homeostat/testkit/internal/process"
	"github.com/homeostat-dev/homeostat/testkit/internal/socketdir"
)

// The tests are about processes, so this binary has several roles, selected by the environment variable ROLE.
func TestMain(m *testing.M) {
	environment.RunHelperProcess()
	switch os.Getenv("ROLE") {
	case "holder":
		hold()
	case "parent":
		runHolders()
	default:
		os.Exit(m.Run())
	}
}

// A report describes the lease of a holder.
type report struct {
	Host  string
	Dir   string
	Took  time.Duration
	Error string
}

// hold acquires a lease, prints a report, and releases the lease when its input or the environment ends.
func hold() {
	answer := json.NewEncoder(os.Stdout)
	req := environment.Request{
		Tier: cluster.API, Binaries: os.Getenv("BINARIES"), UntilGoCommandEnds: os.Getenv("UNTIL_PARENT") != "",
		Private: os.Getenv("PRIVATE") != "",
	}
	if file := os.Getenv("OBJECTS"); file != "" {
		objects, err := manifest.Read(file)
		if err != nil {
			log.Fatal(err)
		}
		req.Objects = objects
	}
	began := time.Now()
	lease, err := environment.Acquire(context.Background(), req)
	if err != nil {
		_ = answer.Encode(report{Error: err.Error()})
		return
	}
	_ = answer.Encode(report{Host: lease.Config.Host, Dir: lease.Dir, Took: time.Since(began)})
	input := make(chan struct{})
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		close(input)
	}()
	select {
	case <-input:
		if err := lease.ReleaseAndWait(context.Background()); err != nil {
			log.Fatal(err)
		}
	case <-lease.Done():
		_ = answer.Encode(report{Error: lease.Err().Error()})
	}
}

// runHolders runs holders one after the other, as the go command runs test binaries: one for each line of its input.
// The line is added to the holder's environment.
func runHolders() {
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		cmd := exec.Command(os.Getenv("SELF"))
		cmd.Env = append(os.Environ(), "ROLE=holder", "UNTIL_PARENT=1", lines.Text())
		cmd.Stdout = os.Stdout
		cmd.Stderr = os.Stderr // without input it releases its lease at once
		if err := cmd.Run(); err != nil {
			log.Fatal(err)
		}
	}
}

// timeout is far more than any step takes on an idle machine.
const timeout = time.Minute

// A world is a folder for environments of one test.
type world struct {
	t    *testing.T
	root string // empty when no environment runs
	env  []string
}

func newWorld(t *testing.T, env ...string) *world {
	t.Helper()
	set, err := assets.Find(t.Context(), assets.Options{Programs: cluster.Programs(cluster.API)})
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "tk") //nolint:usetesting // the paths of sockets have to be short
	if err != nil {
		t.Fatal(err)
	}
	races := t.TempDir()
	t.Cleanup(func() {
		if found, _ := filepath.Glob(filepath.Join(races, "*")); len(found) > 0 {
			report, _ := os.ReadFile(found[0])
			t.Errorf("a data race in an environment: %s", report)
		}
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	w := &world{t: t, root: filepath.Join(dir, fmt.Sprintf("testkit-%d", os.Getuid()))}
	w.env = append(os.Environ(), append([]string{
		"XDG_RUNTIME_DIR=" + dir, "TMPDIR=" + dir, "BINARIES=" + set.Dir,
		"GORACE=atexit_sleep_ms=0 log_path=" + filepath.Join(races, "race"),
	}, env...)...)
	return w
}

// A holder is a process with a lease.
type holder struct {
	t       *testing.T
	cmd     *exec.Cmd
	stdin   io.WriteCloser
	stdout  io.Reader
	answers *json.Decoder
}

// start runs this binary in a role.
func (w *world) start(program, role string, env ...string) *holder {
	w.t.Helper()
	cmd := exec.Command(program)
	cmd.Env = append(append(w.env, "ROLE="+role), env...)
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		w.t.Fatal(err)
	}
	stdout, writer, err := os.Pipe() // cmd.StdoutPipe would be closed with the end of the process
	if err != nil {
		w.t.Fatal(err)
	}
	cmd.Stdout = writer
	if err := cmd.Start(); err != nil {
		w.t.Fatal(err)
	}
	_ = writer.Close()
	w.t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = stdout.Close()
	})
	return &holder{t: w.t, cmd: cmd, stdin: stdin, stdout: stdout, answers: json.NewDecoder(stdout)}
}

func (w *world) hold(env ...string) *holder {
	w.t.Helper()
	return w.start(os.Args[0], "holder", env...)
}

// report reads the next report of the holder.
func (h *holder) report() report {
	h.t.Helper()
	var r report
	if err := h.answers.Decode(&r); err != nil {
		h.t.Fatalf("reading the report of a holder: %v", err)
	}
	return r
}

// ready waits until the holder has its lease.
func (h *holder) ready() report {
	h.t.Helper()
	r := h.report()
	if r.Error != "" {
		h.t.Fatal(r.Error)
	}
	return r
}

// end makes the holder release its lease and waits for its end.
func (h *holder) end() {
	h.t.Helper()
	if err := h.stdin.Close(); err != nil {
		h.t.Error(err)
	}
	if err := h.cmd.Wait(); err != nil {
		h.t.Error(err)
	}
}

func (h *holder) kill() {
	h.t.Helper()
	if err := h.cmd.Process.Kill(); err != nil {
		h.t.Error(err)
	}
	_ = h.cmd.Wait()
}

// A snapshot is the recorded state of an environment.
type snapshot struct{ socketdir.State }

// environments returns the running environments of this world.
func (w *world) environments() []snapshot {
	w.t.Helper()
	files, err := filepath.Glob(filepath.Join(w.root, "*", "state.json"))
	if err != nil {
		w.t.Fatal(err)
	}
	var all []snapshot
	for _, file := range files {
		data, err := os.ReadFile(file)
		if errors.Is(err, fs.ErrNotExist) {
			continue // it has just ended
		}
		if err != nil {
			w.t.Fatal(err)
		}
		var s snapshot
		if err := json.Unmarshal(data, &s.State); err != nil {
			w.t.Fatal(err)
		}
		all = append(all, s)
	}
	return all
}

// only returns the only running environment.
func (w *world) only() snapshot {
	w.t.Helper()
	all := w.environments()
	if len(all) != 1 {
		w.t.Fatalf("%d environments run, want 1: %v", len(all), all)
	}
	return all[0]
}

func (s snapshot) processes() []process.ID {
	return append([]process.ID{s.Owner}, s.Children...)
}

// remains describes the remains of an environment.
func (w *world) remains(s snapshot) string {
	for _, id := range s.processes() {
		if id.Alive() {
			name, _ := process.Command(id.PID)
			return fmt.Sprintf("%s (pid %d) still runs", name, id.PID)
		}
	}
	for _, dir := range []string{s.Data, w.root} {
		if _, err := os.Stat(dir); err == nil {
			return dir + " still exists"
		}
	}
	return ""
}

// nothingLeft waits until no trace of the environment remains.
func (w *world) nothingLeft(s snapshot) {
	w.t.Helper()
	w.until(func() string { return w.remains(s) })
}

func (w *world) until(complaint func() string) {
	w.t.Helper()
	var last string
	poll := func(context.Context) (bool, error) {
		last = complaint()
		return last == "", nil
	}
	if wait.PollUntilContextTimeout(w.t.Context(), 5*time.Millisecond, timeout, true, poll) != nil {
		w.t.Fatalf("not within %v: %s", timeout, last)
	}
}

func signalProcess(t *testing.T, id process.ID, sig syscall.Signal) {
	t.Helper()
	if !id.Alive() {
		t.Fatalf("process %v does not run", id)
	}
	if err := syscall.Kill(id.PID, sig); err != nil {
		t.Fatal(err)
	}
}

func (s snapshot) component(t *testing.T, name string) process.ID {
	t.Helper()
	for _, id := range s.Children {
		if command, err := process.Command(id.PID); err == nil && strings.HasPrefix(name, command) {
			return id
		}
	}
	t.Fatalf("no %s in %v", name, s)
	return process.ID{}
}

// definition writes a custom resource definition with the given word in its schema.
func definition(t *testing.T, name, word string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "crd.yaml")
	text := strings.NewReplacer("NAME", name, "WORD", word).Replace(`
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: NAMEs.test.homeostat.dev}
spec:
  group: test.homeostat.dev
  scope: Namespaced
  names: {kind: NAME, plural: NAMEs}
  versions:
    - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, description: WORD}}}
`)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

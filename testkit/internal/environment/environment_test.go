package environment_test

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestConcurrentProcessesShareEnvironment(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a, b := w.hold(), w.hold()
	first, second := a.ready(), b.ready()
	if first.Host != second.Host {
		t.Errorf("two control planes: %s and %s", first.Host, second.Host)
	}
	s := w.only()
	a.end()
	// The go command waits until the output of a test is closed by all processes: the environment must not inherit it.
	if _, err := io.Copy(io.Discard, a.stdout); err != nil {
		t.Error(err)
	}
	if c := w.remains(s); c == "" {
		t.Error("the environment ended while it was still leased")
	}
	b.end() // waits until the environment is gone
	if c := w.remains(s); c != "" {
		t.Errorf("after the last lease has ended %s", c)
	}
}

func TestAttach(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "OBJECTS="+definition(t, "thing", "one"))
	first := w.hold()
	t.Logf("started in %v", first.ready().Took)
	var times []time.Duration
	for range 9 {
		h := w.hold()
		times = append(times, h.ready().Took)
		h.end()
	}
	slices.Sort(times)
	t.Logf("joined in %v (median), %v (maximum)", times[len(times)/2], times[len(times)-1])
	if median := times[len(times)/2]; median > time.Second {
		t.Errorf("joining took %v, which is no better than starting", median)
	}
	s := w.only()
	first.end()
	w.nothingLeft(s)
}

func TestKilledHolder(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	h := w.hold()
	h.ready()
	s := w.only()
	h.kill()
	w.nothingLeft(s)
}

func TestKilledWhileStarting(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	h := w.hold()
	var s snapshot
	w.until(func() string {
		if all := w.environments(); len(all) == 1 && len(all[0].Children) > 1 {
			s = all[0]
			return ""
		}
		return "nothing started yet"
	})
	h.kill()
	w.nothingLeft(s)
}

func TestKilledEnvironment(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	h := w.hold()
	before := h.ready()
	dead := w.only()
	signalProcess(t, dead.Owner, syscall.SIGKILL)
	if got := h.report().Error; !strings.Contains(got, "the environment has ended") {
		t.Errorf("the holder got %q", got)
	}
	// The folders remain until another environment is started. Remaining processes are killed then.
	if _, err := os.Stat(dead.Data); err != nil {
		t.Fatalf("this test needs something to clean up: %v", err)
	}
	again := w.hold()
	if after := again.ready(); after.Dir == before.Dir {
		t.Errorf("the dead environment's folder %s is used again", after.Dir)
	}
	w.until(func() string {
		for _, id := range dead.processes() {
			if id.Alive() {
				return "a process of the dead environment still runs"
			}
		}
		return ""
	})
	if _, err := os.Stat(dead.Data); err == nil {
		t.Errorf("%s was not cleaned up", dead.Data)
	}
	s := w.only()
	again.end()
	w.nothingLeft(s)
}

// Orphans survive on systems that do not tie children to their parent: a sleeping process stands in for one.
func TestOrphansAreKilled(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	h := w.hold()
	h.ready()
	dead := w.only()
	orphan, stranger := startSleeper(t), startSleeper(t)
	addComponents(t, w, orphan.id, reused(stranger.id))
	signalProcess(t, dead.Owner, syscall.SIGKILL)
	h.report()

	again := w.hold("PRIVATE=1") // cleanup includes environments of other kinds
	again.ready()
	orphan.ends(t, w)
	if !stranger.id.Alive() {
		t.Error("a process was killed that only had the pid of a former component")
	}
	s := w.only()
	again.end()
	w.nothingLeft(s)
}

func TestComponentEnds(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	h := w.hold()
	h.ready()
	s := w.only()
	signalProcess(t, s.component(t, "kube-apiserver"), syscall.SIGKILL)
	if got := h.report().Error; !strings.Contains(got, "kube-apiserver ended unexpectedly") {
		t.Errorf("the holder got %q", got)
	}
	w.nothingLeft(s)
}

func TestTerminatedEnvironment(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	h := w.hold()
	h.ready()
	s := w.only()
	signalProcess(t, s.Owner, syscall.SIGTERM)
	if got := h.report().Error; !strings.Contains(got, "told to stop") {
		t.Errorf("the holder got %q", got)
	}
	w.nothingLeft(s)
}

func TestObjects(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	plain := w.hold()
	one := w.hold("OBJECTS=" + definition(t, "thing", "one"))
	same := w.hold("OBJECTS=" + definition(t, "thing", "one"))
	host := plain.ready().Host
	if got := one.ready().Host; got != host {
		t.Errorf("objects without a conflict led to another control plane: %s and %s", host, got)
	}
	if got := same.ready().Host; got != host {
		t.Errorf("the same objects led to another control plane: %s and %s", host, got)
	}
	other := w.hold("OBJECTS=" + definition(t, "thing", "two"))
	if got := other.ready().Host; got == host {
		t.Error("two versions of an object share a control plane")
	}
	if n := len(w.environments()); n != 2 {
		t.Errorf("%d environments run, want 2", n)
	}
	for _, h := range []*holder{plain, one, same, other} {
		h.end()
	}
	w.until(func() string {
		if _, err := os.Stat(w.root); err == nil {
			return w.root + " still exists"
		}
		return ""
	})
}

func TestPrivate(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a, b := w.hold(), w.hold("PRIVATE=1")
	if x, y := a.ready().Host, b.ready().Host; x == y {
		t.Errorf("a private control plane is shared: %s", x)
	}
	a.end()
	s := w.only()
	b.end()
	w.nothingLeft(s)
}

// The go command runs one test binary after the other. The environment lasts as long as the go command.
func TestLeaseLastsUntilTheGoCommandEnds(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "SELF="+os.Args[0])
	command := filepath.Join(t.TempDir(), "go") // the name of a process is the name of its file
	if err := os.Symlink(os.Args[0], command); err != nil {
		t.Fatal(err)
	}
	parent := w.start(command, "parent")
	var owner snapshot
	for i := range 3 {
		if _, err := io.WriteString(parent.stdin, "NUMBER="+strconv.Itoa(i)+"\n"); err != nil {
			t.Fatal(err)
		}
		r := parent.ready()
		t.Logf("test binary %d: ready after %v", i, r.Took)
		s := w.only()
		if i > 0 && s.Owner != owner.Owner {
			t.Errorf("test binary %d got another environment: %v and %v", i, owner.Owner, s.Owner)
		}
		owner = s
	}
	if _, err := io.WriteString(parent.stdin, "PRIVATE=1\n"); err != nil {
		t.Fatal(err)
	}
	parent.ready()
	w.until(func() string {
		if n := len(w.environments()); n > 1 {
			return fmt.Sprintf("%d environments run, although no other test binary can use the private one", n)
		}
		return ""
	})
	<-time.After(200 * time.Millisecond) // enough for four polls for the end of the go command
	if c := w.remains(owner); c == "" {
		t.Fatal("the environment ended before the go command did")
	}
	last := w.hold() // as `testkit exec -- go test` does
	last.ready()
	parent.end()
	last.end()
	if left := w.remains(owner); left != "" {
		t.Errorf("the last holder did not wait for the end: %s", left)
	}
}

func TestBrokenProgram(t *testing.T) {
	t.Parallel()
	binaries := t.TempDir()
	for _, name := range []string{"etcd", "kube-apiserver"} {
		script := "#!/bin/sh\necho this is why; exit 3\n"
		if err := os.WriteFile(filepath.Join(binaries, name), []byte(script), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	w := newWorld(t, "BINARIES="+binaries)
	h := w.hold()
	got := h.report().Error
	for _, want := range []string{"kube-apiserver ended before it was ready", "exit status 3", "this is why"} {
		if !strings.Contains(got, want) {
			t.Errorf("the holder got %q, want %q in it", got, want)
		}
	}
	_ = h.cmd.Wait()
	w.until(func() string {
		left, err := os.ReadDir(filepath.Dir(w.root))
		if err != nil || len(left) > 0 {
			return "something is left"
		}
		return ""
	})
}

func TestForeignRoot(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	if err := os.Mkdir(w.root, 0o755); err != nil {
		t.Fatal(err)
	}
	h := w.hold()
	if got := h.report().Error; !strings.Contains(got, "must be a folder that only you can enter") {
		t.Errorf("the holder got %q", got)
	}
	_ = h.cmd.Wait()
}

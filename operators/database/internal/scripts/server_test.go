//go:build linux

package scripts_test

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// A server is a running one.
type server struct {
	pid   int // of run.sh and its process group, which has the server
	home  string
	clean syscall.Signal // STOPSIGNAL of the image
	log   *logs
	ended chan struct{}
	code  int // of run.sh, after ended is closed
}

// logs collects the output of a server.
type logs struct {
	mutex sync.Mutex
	text  bytes.Buffer
}

func (l *logs) Write(p []byte) (int, error) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return l.text.Write(p)
}

func (l *logs) String() string {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return l.text.String()
}

// logged waits for a text in the log of the server, and returns the log. The server replies to a statement before its log
// arrives here.
func (s *server) logged(t *testing.T, text string) string {
	t.Helper()
	for began := time.Now(); !strings.Contains(s.log.String(), text); <-time.After(10 * time.Millisecond) {
		if time.Since(began) > 10*time.Second {
			t.Fatalf("%q is not in the log:\n%s", text, s.log.String())
		}
	}
	return s.log.String()
}

// launch runs the server until it is stopped or the test ends. It does not wait for readiness.
func (m *member) launch() *server {
	m.t.Helper()
	cmd := m.script(context.WithoutCancel(m.t.Context()), "run.sh")
	s := &server{home: m.home(), clean: syscall.SIGTERM, log: &logs{}, ended: make(chan struct{})}
	if m.engine == "postgresql" {
		s.clean = syscall.SIGINT
	}
	cmd.Stdout = s.log
	cmd.Stderr = s.log
	if err := cmd.Start(); err != nil {
		m.t.Fatal(err)
	}
	s.pid = cmd.Process.Pid
	go func() {
		_ = cmd.Wait()
		s.code = cmd.ProcessState.ExitCode()
		close(s.ended)
	}()
	m.t.Cleanup(func() {
		_ = syscall.Kill(-s.pid, syscall.SIGCONT)
		s.stop()
	})
	m.running = s
	return s
}

// start launches the server and waits until it is ready.
func (m *member) start() *server {
	m.t.Helper()
	s := m.launch()
	m.becomes(s, "ready", true)
	return s
}

// becomes waits for the result of a probe.
func (m *member) becomes(s *server, probe string, want bool) {
	m.t.Helper()
	var out []byte
	for deadline := time.Now().Add(2 * time.Minute); time.Now().Before(deadline); <-time.After(50 * time.Millisecond) {
		var err error
		if out, err = m.script(m.t.Context(), "probe.sh", probe).CombinedOutput(); (err == nil) == want {
			return
		}
		select {
		case <-s.ended:
			m.t.Fatalf("the server ended: %s\n%s", m.terminationLog(), s.log)
		default:
		}
	}
	m.t.Fatalf("the probe %s does not become %t: %s\n%s", probe, want, out, s.log)
}

// stop stops the server as the kubelet does.
func (s *server) stop() {
	select {
	case <-s.ended:
		return
	default:
	}
	_ = syscall.Kill(s.pid, s.clean)
	<-s.ended
}

// kill kills all processes of the member, as the loss of a node does.
func (s *server) kill() {
	killProcesses(s.home)
	<-s.ended
}

// killProcesses kills all processes with a working directory below dir, and waits for their end.
func killProcesses(dir string) {
	killed := map[int]bool{}
	for left := true; left; {
		left = false
		processes, _ := filepath.Glob("/proc/[0-9]*")
		for _, p := range processes {
			if cwd, err := os.Readlink(p + "/cwd"); err == nil && strings.HasPrefix(cwd+"/", dir+"/") {
				pid, _ := strconv.Atoi(filepath.Base(p))
				_ = syscall.Kill(pid, syscall.SIGKILL)
				killed[pid], left = true, true
			}
		}
	}
	for pid := range killed {
		_, _ = syscall.Wait4(pid, nil, 0, nil)
	}
}

// TestMain makes this process a subreaper: PostgreSQL takes a zombie for a running process.
func TestMain(m *testing.M) {
	const becomeSubreaper = 36
	if _, _, errno := syscall.RawSyscall(syscall.SYS_PRCTL, becomeSubreaper, 1, 0); errno != 0 {
		panic(errno)
	}
	os.Exit(m.Run())
}

// restarts stops the server with end and starts it again.
func (m *member) restarts(end func(*server)) {
	m.t.Helper()
	end(m.running)
	m.start()
}

// probes checks the current results of the probes.
func (m *member) probes(want map[string]bool) {
	m.t.Helper()
	for probe, want := range want {
		if out, err := m.script(m.t.Context(), "probe.sh", probe).CombinedOutput(); (err == nil) != want {
			m.t.Errorf("the probe %s says %t: %s", probe, err == nil, out)
		} else if want && len(out) > 0 {
			m.t.Errorf("the probe %s is not silent: %s", probe, out)
		}
	}
}

// interrupted kills a script after increasing delays, at least so many times, until it succeeds.
func (m *member) interrupted(name string, atLeast int) {
	m.t.Helper()
	after := 20 * time.Millisecond
	for tries := 0; ; tries++ {
		cmd := m.script(m.t.Context(), name)
		var out bytes.Buffer
		cmd.Stdout = &out
		cmd.Stderr = &out
		if err := cmd.Start(); err != nil {
			m.t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() { ended <- cmd.Wait() }()
		select {
		case err := <-ended:
			if err != nil {
				m.t.Fatalf("try %d: %v\n%s", tries, err, out.String())
			}
			if tries < atLeast {
				m.t.Errorf("it was interrupted %d times only", tries)
			}
			return
		case <-time.After(after):
			killProcesses(m.home())
			if err := <-ended; err == nil {
				return // finished before the signal
			}
		}
		after = after * 3 / 2
	}
}

func (m *member) port() string {
	if p := m.env["PORT"]; p != "" {
		return p
	}
	return m.env["PRIMARY_PORT"]
}

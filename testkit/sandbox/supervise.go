package sandbox

import (
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/homeostat-dev/homeostat/testkit/internal/process"
)

// The pause before a restart doubles from firstPause up to lastPause. It is reset after a run of longEnough.
const (
	firstPause = time.Second
	lastPause  = 30 * time.Second
	longEnough = time.Minute
)

// stopTimeout bounds the graceful end of a program.
const stopTimeout = 10 * time.Second

// A Status is the status of a program's process.
type Status struct {
	// PID is 0 during the pause before a restart.
	PID int `json:"pid"`
	// Restarts counts the restarts of the process.
	Restarts int `json:"restarts"`
}

// supervised is a program that is restarted whenever it ends. It is safe for concurrent use.
type supervised struct {
	name      string // for messages, for example "operator widget"
	program   string
	args, env []string
	dir       string
	logFile   string // contains the output of all runs
	report    func(format string, args ...any)
	started   func(process.ID)
	// began and ended are called for each run, alternately.
	began func()
	ended func(state *os.ProcessState, pause time.Duration)

	mu       sync.Mutex
	process  *process.Process // nil during the pause before a restart
	restarts int
}

// run starts the process once.
func (s *supervised) run() error {
	cmd := exec.Command(s.program, s.args...)
	cmd.Dir = s.dir
	cmd.Env = s.env
	p, err := process.Start(s.name, cmd, s.logFile)
	if err != nil {
		return err
	}
	s.started(p.ID())
	s.mu.Lock()
	s.process = p
	s.mu.Unlock()
	if s.began != nil {
		s.began()
	}
	return nil
}

// supervise restarts the program whenever it ends, until stop is closed. The first run has been started before.
func (s *supervised) supervise(stop <-chan struct{}) {
	for pause := firstPause; ; {
		began := time.Now()
		p := s.current()
		select {
		case <-stop:
			s.end(p)
			return
		case <-p.Done():
		}
		if time.Since(began) > longEnough {
			pause = firstPause
		}
		s.clear()
		s.report("%s ended (%s); it starts again in %g s; its log: %s; its last lines:\n%s",
			s.name, p.Outcome(), pause.Seconds(), s.logFile, lastLines(p.Tail()))
		if s.ended != nil {
			s.ended(p.State(), pause)
		}
		for again := false; !again; {
			select {
			case <-stop:
				return
			case <-time.After(pause):
			}
			pause = min(2*pause, lastPause)
			if err := s.run(); err != nil {
				s.report("%v; it is tried again in %g s", err, pause.Seconds())
				continue
			}
			again = true
		}
		s.report("%s runs again (pid %d)", s.name, s.Status().PID)
	}
}

// lastLines returns the end of a text that says why a program ended. The whole log is in its file.
func lastLines(text string) string {
	const few = 4
	lines := strings.Split(text, "\n")
	return strings.Join(lines[max(0, len(lines)-few):], "\n")
}

func (s *supervised) current() *process.Process {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.process
}

func (s *supervised) clear() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.process = nil
	s.restarts++
}

// end terminates the process, and kills it after stopTimeout.
func (s *supervised) end(p *process.Process) {
	_ = p.Signal(syscall.SIGTERM)
	select {
	case <-p.Done():
	case <-time.After(stopTimeout):
		_ = p.Kill()
	}
}

// Kill ends the process like a crash. It is restarted after a pause. During a pause Kill does nothing.
func (s *supervised) Kill() error {
	if p := s.current(); p != nil {
		return p.Kill()
	}
	return nil
}

// Status returns the current status.
func (s *supervised) Status() Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	status := Status{Restarts: s.restarts}
	if s.process != nil {
		status.PID = s.process.PID()
	}
	return status
}

package sandbox

import (
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"github.com/homeostat-dev/homeostat/testkit/internal/process"
)

// Pauses before a program is started again grow from the first to the last, and start anew when it has run for long
// enough.
const (
	firstPause = time.Second
	lastPause  = 30 * time.Second
	longEnough = time.Minute
)

// stopTimeout is how long a program may take to end in an orderly way.
const stopTimeout = 10 * time.Second

// A Status is what a program's process is up to.
type Status struct {
	// PID is 0 during the pause before a restart.
	PID int `json:"pid"`
	// Restarts counts how often the process has ended.
	Restarts int `json:"restarts"`
}

// supervised is a program that is started again whenever it ends. Its methods may be called from several goroutines.
type supervised struct {
	name      string // for people, for example "operator widget"
	program   string
	args, env []string
	dir       string
	logFile   string // has the output of all its runs
	report    func(format string, args ...any)
	started   func(process.ID)
	// began and ended are told of each run, in turn.
	began func()
	ended func(state *os.ProcessState, pause time.Duration)

	mu       sync.Mutex
	process  *process.Process // nil during the pause before a restart
	restarts int
}

// run starts the process once.
func (s *supervised) run() error {
	cmd := exec.Command(s.program, s.args...)
	cmd.Dir, cmd.Env = s.dir, s.env
	p, err := process.Start(s.name, cmd, s.logFile)
	if err != nil {
		return err //nolint:wrapcheck // says what it was doing
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

// supervise starts the program again whenever it ends, until stop is closed. It has been started once.
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
		s.report("%s ended (%s); it starts again in %g s; its log: %s", s.name, p.Outcome(), pause.Seconds(), s.logFile)
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

// end asks the process to end, and makes it if it does not.
func (s *supervised) end(p *process.Process) {
	_ = p.Signal(syscall.SIGTERM)
	select {
	case <-p.Done():
	case <-time.After(stopTimeout):
		_ = p.Kill()
	}
}

// Kill ends the process as a crash would. It is started again after a pause. During a pause Kill does nothing.
func (s *supervised) Kill() error {
	if p := s.current(); p != nil {
		return p.Kill() //nolint:wrapcheck // says what it was doing
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

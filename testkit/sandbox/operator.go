package sandbox

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/homeostat-dev/homeostat/testkit/internal/process"
)

// Pauses before an operator is started again grow from the first to the last, and start anew when it has run for long
// enough.
const (
	firstPause = time.Second
	lastPause  = 30 * time.Second
	longEnough = time.Minute
)

// stopTimeout is how long an operator may take to end in an orderly way.
const stopTimeout = 10 * time.Second

// An Operator is an operator process, over its restarts. Its methods may be called from several goroutines.
type Operator struct {
	// Name is that of the project.
	Name string
	// User is who the operator is to the cluster.
	User string
	// LogFile has the output of all its runs.
	LogFile string
	// ProbeAddress is where the operator was told to serve /healthz and /readyz.
	ProbeAddress string

	sandbox *Sandbox
	project *Project
	program string
	args    []string
	env     []string

	mu       sync.Mutex
	process  *process.Process // nil during the pause before a restart
	restarts int
}

// startOperator starts an operator and keeps it running.
func (s *Sandbox) startOperator(ctx context.Context, p *Project, program string) (*Operator, error) {
	op := &Operator{
		Name: p.Name, User: fmt.Sprintf("system:serviceaccount:%s:%s", p.Deployment.Namespace, p.account()),
		LogFile: filepath.Join(s.dir, p.Name+".log"), sandbox: s, project: p, program: program,
	}
	kubeconfig, err := s.credentials(ctx, p)
	if err != nil {
		return nil, fmt.Errorf("preparing operator %s: %w", p.Name, err)
	}
	if err := op.configure(kubeconfig); err != nil {
		return nil, fmt.Errorf("preparing operator %s: %w", p.Name, err)
	}
	if err := op.run(); err != nil {
		return nil, err
	}
	s.report("operator %s runs as %s (pid %d)", op.Name, op.User, op.Status().PID)
	s.wg.Go(op.supervise)
	return op, nil
}

// configure makes arguments and environment from those in the Deployment, with addresses on this machine.
func (op *Operator) configure(kubeconfig string) error {
	var err error
	if op.ProbeAddress, err = freeAddress(); err != nil {
		return err
	}
	metrics, err := freeAddress()
	if err != nil {
		return err
	}
	// One process has nobody to compete with, and would wait for its own lease after it was killed.
	local := map[string]string{
		"kubeconfig": kubeconfig, "metrics-bind-address": metrics, "health-probe-bind-address": op.ProbeAddress,
		"leader-elect": "false",
	}
	container := op.project.Deployment.Spec.Template.Spec.Containers[0]
	op.args = localize(container.Args, local)
	op.env = append(os.Environ(), "KUBECONFIG="+kubeconfig)
	for _, v := range container.Env {
		if value, ok := op.resolve(v); ok {
			op.env = append(op.env, v.Name+"="+value)
		}
	}
	for flag, value := range local {
		op.env = append(op.env, strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))+"="+value)
	}
	return nil
}

// resolve returns the value of a variable if it can be known outside the cluster.
func (op *Operator) resolve(v corev1.EnvVar) (string, bool) {
	if v.ValueFrom == nil {
		return v.Value, true
	}
	if ref := v.ValueFrom.FieldRef; ref != nil {
		switch ref.FieldPath {
		case "metadata.namespace":
			return op.project.Deployment.Namespace, true
		case "metadata.name":
			return op.project.Deployment.Name, true
		case "spec.serviceAccountName":
			return op.project.account(), true
		}
	}
	return "", false
}

// localize gives flags among the arguments the values they have on this machine. Flags that are not there are left
// out: nobody knows whether the program has them.
func localize(args []string, values map[string]string) []string {
	var local []string
	for i := 0; i < len(args); i++ {
		name, _, inline := strings.Cut(strings.TrimLeft(args[i], "-"), "=")
		value, known := values[name]
		if !known || !strings.HasPrefix(args[i], "-") {
			local = append(local, args[i])
			continue
		}
		if !inline && i+1 < len(args) && !strings.HasPrefix(args[i+1], "-") {
			i++ // the value was an argument of its own
		}
		local = append(local, "--"+name+"="+value)
	}
	return local
}

func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("looking for a free port: %w", err)
	}
	address := l.Addr().String()
	if err := l.Close(); err != nil {
		return "", fmt.Errorf("looking for a free port: %w", err)
	}
	return address, nil
}

// run starts the process once.
func (op *Operator) run() error {
	cmd := exec.Command(op.program, op.args...)
	cmd.Dir, cmd.Env = op.project.Dir, op.env
	p, err := process.Start("operator "+op.Name, cmd, op.LogFile)
	if err != nil {
		return err //nolint:wrapcheck // says what it was doing
	}
	op.sandbox.opts.Started(p.ID())
	op.mu.Lock()
	defer op.mu.Unlock()
	op.process = p
	return nil
}

// supervise starts the operator again whenever it ends, until the sandbox stops.
func (op *Operator) supervise() {
	pause := firstPause
	for {
		began := time.Now()
		p := op.current()
		select {
		case <-op.sandbox.stopped:
			op.end(p)
			return
		case <-p.Done():
		}
		if time.Since(began) > longEnough {
			pause = firstPause
		}
		op.sandbox.report("operator %s ended (%s); it starts again in %g s; its log: %s",
			op.Name, p.Outcome(), pause.Seconds(), op.LogFile)
		op.clear()
		select {
		case <-op.sandbox.stopped:
			return
		case <-time.After(pause):
		}
		pause = min(2*pause, lastPause)
		if err := op.run(); err != nil {
			op.sandbox.report("%v", err)
			return
		}
		op.sandbox.report("operator %s runs again (pid %d)", op.Name, op.Status().PID)
	}
}

func (op *Operator) current() *process.Process {
	op.mu.Lock()
	defer op.mu.Unlock()
	return op.process
}

func (op *Operator) clear() {
	op.mu.Lock()
	defer op.mu.Unlock()
	op.process = nil
	op.restarts++
}

// end asks the process to end, and makes it if it does not.
func (op *Operator) end(p *process.Process) {
	_ = p.Signal(syscall.SIGTERM)
	select {
	case <-p.Done():
	case <-time.After(stopTimeout):
		_ = p.Kill()
	}
}

// Kill ends the process as a crash would. It is started again after a pause. During a pause Kill does nothing.
func (op *Operator) Kill() error {
	if p := op.current(); p != nil {
		return p.Kill() //nolint:wrapcheck // says what it was doing
	}
	return nil
}

// A Status is what an operator's process is up to.
type Status struct {
	// PID is 0 during the pause before a restart.
	PID int `json:"pid"`
	// Restarts counts how often the process has ended.
	Restarts int `json:"restarts"`
}

// Status returns the current status.
func (op *Operator) Status() Status {
	op.mu.Lock()
	defer op.mu.Unlock()
	s := Status{Restarts: op.restarts}
	if op.process != nil {
		s.PID = op.process.PID()
	}
	return s
}

// LogTail returns the end of the log, indented.
func (op *Operator) LogTail() string { return process.Tail(op.LogFile) }

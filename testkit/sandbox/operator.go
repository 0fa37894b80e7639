package sandbox

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/homeostat-dev/homeostat/testkit/internal/process"
)

// An Operator is an operator process, over its restarts. Its methods may be called from several goroutines.
type OperatorProcess struct {
	// Name is that of the project.
	Name string
	// User is who the operator is to the cluster.
	User string
	// LogFile has the output of all its runs.
	LogFile string
	// ProbeAddress is where the operator was told to serve /healthz and /readyz.
	ProbeAddress string

	process *supervised
}

// startOperator starts an operator and keeps it running.
func (s *Sandbox) startOperator(ctx context.Context, p *Project, program string) (*OperatorProcess, error) {
	who := &credentials{
		client: s.client, config: s.config, file: filepath.Join(s.dir, p.Name), report: s.report, name: "operator " + p.Name,
		account: client.ObjectKey{Namespace: p.Deployment.Namespace, Name: p.account()},
	}
	kubeconfig, expires, err := who.write(ctx)
	if err != nil {
		return nil, fmt.Errorf("preparing operator %s: %w", p.Name, err)
	}
	s.wg.Go(func() { who.refresh(expires, s.stopped) })
	l, err := newLaunch(&p.Deployment.Spec.Template.Spec.Containers[0], os.Environ(), map[string]string{
		"kubeconfig": kubeconfig,
		// One process has nobody to compete with, and would wait for its own lease after it was killed.
		"leader-elect": "false",
	}, p.field)
	if err != nil {
		return nil, fmt.Errorf("preparing operator %s: %w", p.Name, err)
	}
	op := &OperatorProcess{
		Name: p.Name, User: who.user(), LogFile: filepath.Join(s.dir, p.Name+".log"), ProbeAddress: l.probe,
		process: &supervised{
			name: "operator " + p.Name, program: program, args: l.args, env: l.env, dir: p.Dir,
			report: s.report, started: s.opts.Started,
		},
	}
	op.process.logFile = op.LogFile
	if err := op.process.run(); err != nil {
		return nil, err
	}
	s.report("operator %s runs as %s (pid %d)", op.Name, op.User, op.Status().PID)
	s.wg.Go(func() { op.process.supervise(s.stopped) })
	return op, nil
}

// field returns what a field of the operator's pod would be, as far as its Deployment says it.
func (p *Project) field(path string) (string, bool) {
	switch path {
	case "metadata.namespace":
		return p.Deployment.Namespace, true
	case "metadata.name":
		return p.Deployment.Name, true
	case "spec.serviceAccountName":
		return p.account(), true
	}
	return "", false
}

// Kill ends the process as a crash would. It is started again after a pause. During a pause Kill does nothing.
func (op *OperatorProcess) Kill() error { return op.process.Kill() }

// Status returns the current status.
func (op *OperatorProcess) Status() Status { return op.process.Status() }

// LogTail returns the end of the log, indented.
func (op *OperatorProcess) LogTail() string { return process.Tail(op.LogFile) }

package sandbox

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/homeostat-dev/homeostat/testkit/internal/process"
)

// An OperatorProcess is an operator process, including its restarts. It is safe for concurrent use.
type OperatorProcess struct {
	// Name is the project's name.
	Name string
	// User is the operator's user name in the cluster.
	User string
	// LogFile contains the output of all runs.
	LogFile string
	// ProbeAddress is the address of /healthz and /readyz.
	ProbeAddress string

	process *supervised
}

// startOperator starts an operator and restarts it when it ends.
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
	flags := map[string]string{
		"kubeconfig": kubeconfig,
		// A single process has no competitor. After a crash it would wait for its own lease.
		"leader-elect": "false",
	}
	webhooks, err := p.webhookFlags(flags, p.Deployment.Namespace)
	if err == nil {
		err = s.registerServices(ctx, p, webhooks)
	}
	if err != nil {
		return nil, fmt.Errorf("preparing operator %s: %w", p.Name, err)
	}
	l, err := newLaunch(&p.Deployment.Spec.Template.Spec.Containers[0], os.Environ(), flags, sources{
		field: p.field,
		// The environment of this process may have other values.
		data: func(client.Object) (map[string]string, error) { return nil, errUnknown },
	})
	if err != nil {
		return nil, fmt.Errorf("preparing operator %s: %w", p.Name, err)
	}
	for _, name := range l.unknown {
		if _, ok := os.LookupEnv(name); !ok {
			s.report("operator %s runs without %s, whose value only a cluster has: set it in the environment", p.Name, name)
		}
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

// field returns a field of the operator's pod, as far as its Deployment determines it.
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

// Kill ends the process like a crash. It is restarted after a pause. During a pause Kill does nothing.
func (op *OperatorProcess) Kill() error { return op.process.Kill() }

// Status returns the current status.
func (op *OperatorProcess) Status() Status { return op.process.Status() }

// LogTail returns the end of the log, indented.
func (op *OperatorProcess) LogTail() string { return process.Tail(op.LogFile) }

package cli

import (
	"context"
	"errors"
	"flag"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/term"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/homeostat-dev/homeostat/testkit/assets"
	"github.com/homeostat-dev/homeostat/testkit/cluster"
	"github.com/homeostat-dev/homeostat/testkit/internal/environment"
	"github.com/homeostat-dev/homeostat/testkit/internal/rbac"
)

// Exit codes of shells.
const (
	exitNotFound = 127
	exitSignal   = 128 // plus the number of the signal
	// exitInterrupted is the code of Ctrl-C.
	exitInterrupted = exitSignal + int(syscall.SIGINT)
)

// releaseTimeout bounds the wait for the end of the control plane.
const releaseTimeout = time.Minute

// exec runs a command that holds a lease on the control plane shared by tests.
func (c *command) exec(args []string) error {
	var workloads bool
	var nodes int
	var o execOptions
	rest, err := c.parse("exec", args, func(f *flag.FlagSet) {
		f.Var((*values)(&o.crds), "crd", "")
		f.Var((*values)(&o.rbac), "rbac", "")
		f.StringVar(&o.account, "service-account", "", "")
		f.BoolVar(&workloads, "workloads", false, "")
		f.IntVar(&nodes, "nodes", 0, "")
	})
	if err != nil {
		return err
	}
	if len(rest) == 0 {
		return usagef("exec: which command? Write: testkit exec [--workloads] -- COMMAND [ARGUMENT ...]")
	}
	program, err := exec.LookPath(rest[0])
	if err != nil {
		c.say("testkit: exec: %v", err)
		return exitError(exitNotFound)
	}
	tier := cluster.API
	if workloads {
		tier = cluster.Workloads
	}
	objects, err := o.definitions()
	if err != nil {
		return err
	}
	policy, name, err := o.policy()
	if err != nil {
		return err
	}
	set, lease, err := c.provision(tier, nodes, objects)
	if err != nil {
		return err
	}
	code, err := c.runAs(policy, name, program, rest, set, lease)
	ctx, cancel := context.WithTimeout(context.Background(), releaseTimeout)
	defer cancel()
	if err := errors.Join(err, lease.ReleaseAndWait(ctx)); err != nil {
		return err
	}
	if code != 0 {
		return exitError(code)
	}
	return nil
}

// provision starts the control plane. It can be interrupted.
func (c *command) provision(
	tier cluster.Tier, nodes int, objects []*unstructured.Unstructured,
) (assets.Set, *environment.Lease, error) {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	set, err := c.find(ctx, cluster.Programs(tier))
	if err != nil {
		return set, nil, err
	}
	lease, err := environment.Acquire(ctx, environment.Request{
		Tier: tier, Nodes: nodes, Binaries: set.Dir, Objects: objects, Progress: func(line string) { c.say("testkit: %s", line) },
	})
	return set, lease, err
}

// runAs runs the command as the ServiceAccount of a policy, or as administrator without one.
func (c *command) runAs(
	policy *rbac.Policy, name, program string, args []string, set assets.Set, lease *environment.Lease,
) (code int, err error) {
	if policy == nil {
		return c.runCommand(program, args, set, lease, nil)
	}
	a, err := newAccount(context.Background(), lease, policy, name)
	if err != nil {
		return 0, err
	}
	defer a.remove(context.Background())
	return c.runCommand(program, args, set, lease, a.environ())
}

// runCommand runs the command with further environment variables.
func (c *command) runCommand(
	program string, args []string, set assets.Set, lease *environment.Lease, env []string,
) (code int, err error) {
	cmd := exec.Command(program)
	cmd.Args = args
	admin := filepath.Join(lease.Dir, "kubeconfig")
	cmd.Env = append(environ("KUBECONFIG", assets.EnvDir, adminKubeconfig),
		"KUBECONFIG="+admin, adminKubeconfig+"="+admin, assets.EnvDir+"="+set.Dir)
	cmd.Env = append(cmd.Env, env...)
	cmd.Stdin = os.Stdin
	cmd.Stdout = c.out
	cmd.Stderr = c.err
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT)
	defer signal.Stop(signals)
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	lost := lease.Done()
	for {
		select {
		case s := <-signals:
			if !fromTerminal(s) {
				_ = cmd.Process.Signal(s)
			}
		case <-lost:
			c.say("testkit: the control plane is gone: %v", lease.Err())
			lost = nil
		case err := <-ended:
			return exitCode(cmd, err)
		}
	}
}

// fromTerminal reports whether a signal was probably caused by a key. In that case the child received it too.
func fromTerminal(s os.Signal) bool {
	return (s == syscall.SIGINT || s == syscall.SIGQUIT) && term.IsTerminal(int(os.Stdin.Fd()))
}

func exitCode(cmd *exec.Cmd, err error) (int, error) {
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return 0, err
	}
	if status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return exitSignal + int(status.Signal()), nil
	}
	return cmd.ProcessState.ExitCode(), nil
}

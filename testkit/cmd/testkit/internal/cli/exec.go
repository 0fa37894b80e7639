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

	"github.com/homeostat-dev/homeostat/testkit/assets"
	"github.com/homeostat-dev/homeostat/testkit/cluster"
	"github.com/homeostat-dev/homeostat/testkit/internal/environment"
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
	rest, err := c.parse("exec", args, func(f *flag.FlagSet) {
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
	set, lease, err := c.provision(tier, nodes)
	if err != nil {
		return err
	}
	code, err := c.runCommand(program, rest, set, lease)
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
func (c *command) provision(tier cluster.Tier, nodes int) (assets.Set, *environment.Lease, error) {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	set, err := c.find(ctx, cluster.Programs(tier))
	if err != nil {
		return set, nil, err
	}
	lease, err := environment.Acquire(ctx, environment.Request{
		Tier: tier, Nodes: nodes, Binaries: set.Dir, Progress: func(line string) { c.say("testkit: %s", line) },
	})
	return set, lease, err
}

func (c *command) runCommand(
	program string, args []string, set assets.Set, lease *environment.Lease,
) (code int, err error) {
	cmd := exec.Command(program)
	cmd.Args = args
	cmd.Env = append(environ("KUBECONFIG", assets.EnvDir),
		"KUBECONFIG="+filepath.Join(lease.Dir, "kubeconfig"), assets.EnvDir+"="+set.Dir)
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

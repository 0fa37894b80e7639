// Package cli is the testkit command. It parses arguments, shows progress, and converts errors to one sentence and an
// exit code. Other packages do the work.
package cli

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/homeostat-dev/homeostat/testkit/assets"
	"github.com/homeostat-dev/homeostat/testkit/cluster"
	"github.com/homeostat-dev/homeostat/testkit/sandbox"
)

// Exit codes. The exec command also returns the exit code of its program.
const (
	exitOK     = 0
	exitFailed = 1
	exitUsage  = 2
)

const usage = `testkit gives you a Kubernetes control plane of your own, without Docker. The first use builds it and
takes some minutes; after that it takes seconds.

  testkit up [--real [--images DIR ...]] [--nodes N] [--detach] [--bare | --context NAME] [DIR ...]
        Run a cluster with simulated nodes and the operators in these folders, show their samples, until Ctrl-C.
        With --detach return when all samples are Ready; "testkit down" stops it. With --bare install nothing: you do, with
        kubectl, Helm or OLM. The image may have any registry and tag. The operator's pods run as processes here, with the
        rights of their ServiceAccounts. With --real the nodes are real: pods are containers, without Docker, and find the
        images in the files *.tar of the folders of --images; an Ingress controller serves at addresses of this machine. It
        needs root on Linux. With --context use the cluster of that context of your kubeconfig instead: operators and samples
        are installed there, and stay.
  testkit kubeconfig
        Print the path of the kubeconfig of what "testkit up" runs.
  testkit down [--all]
        Stop what "testkit up" runs in this project, or with --all in every project, and wait until it is gone. A project
        is a repository, or else a Go workspace, a Go module or a folder. Each may have one cluster.
  testkit exec [--workloads] [--nodes N] [--crd FILE] [--rbac FILE [--service-account NAME]] -- COMMAND [ARGUMENT ...]
        Run a command while a control plane is there for it and for the tests it runs: KUBECONFIG and
        KUBEBUILDER_ASSETS point to it. With --workloads there are controllers and simulated nodes. With --crd the
        CustomResourceDefinitions in that file or folder are installed. With --rbac the command runs as the ServiceAccount
        in that file or folder, with the rights of its roles and no others, in a new namespace: NAMESPACE and POD_NAMESPACE.
        TESTKIT_ADMIN_KUBECONFIG is then the kubeconfig of an administrator. --crd and --rbac may be repeated.
  testkit explore [--crd FILE] --scenario FILE [OPTION ...] -- COMMAND [ARGUMENT ...]
        Run an operator, a program in any language, through a scenario many times, each time with another fault, and report
        the rules that it violates. See testkit explore --help.
  testkit serve [--workloads] [--crd FILE] [--rbac FILE [--service-account NAME]]
        Serve tests in another language, with JSON-RPC on the standard input and output: docs/protocol.md describes the
        messages. The package for Python, testkit/python, starts it. The options are those of testkit exec.
  testkit assets [--real]
        Find or build the programs of the control plane and print their folder. With --real also those of real nodes, if
        this machine can run them.

A folder DIR has a Go program in cmd and manifests in config/default, or in config/crd, config/rbac and
config/manager, and may have samples in config/samples. If there is a kustomization in config/simulated-nodes, a cluster
with simulated nodes gets only the samples that it has, too. Webhooks in the manifests are called: the program gets
WEBHOOK_BIND_ADDRESS, the address to serve them at, and WEBHOOK_SERVICE, which its certificate has to name.
`

// A usageError is a mistake in the command line.
type usageError struct{ error }

func usagef(format string, args ...any) error { return &usageError{fmt.Errorf(format, args...)} }

// An exitError is an exit code without a message.
type exitError int

func (e exitError) Error() string { return fmt.Sprintf("exit status %d", int(e)) }

// command is one execution of testkit.
type command struct {
	out, err io.Writer
}

// Main runs the command with these arguments and returns its exit code.
func Main(args []string, stdout, stderr io.Writer) int {
	log.SetLogger(logr.Discard()) // otherwise controller-runtime complains after half a minute that no logger was set
	c := &command{out: stdout, err: stderr}
	err := c.run(args)
	var exit exitError
	var wrong *usageError
	var project *sandbox.ProjectError
	switch {
	case err == nil || errors.Is(err, flag.ErrHelp):
		return exitOK
	case errors.As(err, &exit):
		return int(exit)
	case errors.Is(err, context.Canceled):
		_, _ = fmt.Fprintln(stderr, "testkit: interrupted")
		return exitInterrupted
	case errors.As(err, &wrong), errors.As(err, &project):
		_, _ = fmt.Fprintf(stderr, "testkit: %v\n", err)
		return exitUsage
	default:
		_, _ = fmt.Fprintf(stderr, "testkit: %v\n", err)
		return exitFailed
	}
}

func (c *command) run(args []string) error {
	if len(args) == 0 {
		_, _ = fmt.Fprint(c.err, usage)
		return exitError(exitUsage)
	}
	// The second Ctrl-C ends the program at once, together with its child processes.
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	context.AfterFunc(ctx, stop)
	switch name, rest := args[0], args[1:]; name {
	case "up":
		return c.up(ctx, rest)
	case "down":
		return c.down(ctx, rest)
	case "kubeconfig":
		return c.kubeconfig(rest)
	case "exec":
		stop() // the executed command handles signals
		return c.exec(rest)
	case "explore":
		stop() // it determines which signal it was
		return c.explore(rest)
	case "serve":
		return c.serve(ctx, rest)
	case "assets":
		return c.assets(ctx, rest)
	case "help", "-h", "-help", "--help":
		_, _ = fmt.Fprint(c.out, usage)
		return nil
	default:
		return usagef("there is no command %q; see testkit help", name)
	}
}

// parse reads flags and returns the other arguments.
func (c *command) parse(name string, args []string, define func(*flag.FlagSet)) ([]string, error) {
	flags := flag.NewFlagSet(name, flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	if define != nil {
		define(flags)
	}
	err := flags.Parse(args)
	if errors.Is(err, flag.ErrHelp) {
		text := usage
		if name == "explore" {
			text = exploreUsage
		}
		_, _ = fmt.Fprint(c.out, text)
		return nil, err
	}
	if err != nil {
		return nil, usagef("%s: %w%s; see testkit help", name, err, valueFormat(flags, err))
	}
	return flags.Args(), nil
}

// valueFormat describes the format of a value that could not be parsed.
func valueFormat(flags *flag.FlagSet, err error) (hint string) {
	flags.VisitAll(func(f *flag.Flag) {
		get, ok := f.Value.(flag.Getter)
		if !ok || !strings.HasSuffix(err.Error(), "for flag -"+f.Name+": parse error") {
			return
		}
		switch get.Get().(type) {
		case time.Duration:
			hint = ": write a number and a unit, such as 90s or 2m"
		case int, int64, uint64:
			hint = ": write a whole number"
		}
	})
	return hint
}

// noArguments parses a command that has neither flags nor arguments.
func (c *command) noArguments(name string, args []string) error {
	rest, err := c.parse(name, args, nil)
	if err == nil && len(rest) > 0 {
		return usagef("%s: it takes no arguments, but there is %q", name, rest[0])
	}
	return err
}

func (c *command) assets(ctx context.Context, args []string) error {
	withNodes := false
	rest, err := c.parse("assets", args, func(flags *flag.FlagSet) { flags.BoolVar(&withNodes, "real", false, "") })
	if err != nil {
		return err
	}
	if err := c.noArguments("assets", rest); err != nil {
		return err
	}
	if withNodes {
		if err := cluster.CheckReal(); err != nil {
			return usagef("assets: --real: %w", err)
		}
		if _, err := c.findNodes(ctx); err != nil {
			return err
		}
	}
	set, err := c.find(ctx, nil)
	if err != nil {
		return err
	}
	_, _ = fmt.Fprintln(c.out, set.Dir)
	return nil
}

// find provides programs of the control plane. Nil means all. An interruption is reported together with the progress.
func (c *command) find(ctx context.Context, need []string) (assets.Set, error) {
	return c.provide(ctx, assets.Find, need)
}

// findNodes provides the programs of real nodes.
func (c *command) findNodes(ctx context.Context) (assets.Set, error) {
	return c.provide(ctx, assets.FindNodes, nil)
}

func (c *command) provide(
	ctx context.Context, find func(context.Context, assets.Options) (assets.Set, error), need []string,
) (assets.Set, error) {
	reported := false
	report := assets.Print(c.err)
	progress := func(p assets.Progress) {
		reported = true
		report(p)
	}
	set, err := find(ctx, assets.Options{Programs: need, Progress: progress})
	if reported && errors.Is(err, context.Canceled) {
		err = exitError(exitInterrupted)
	}
	return set, err
}

// say prints a line for people.
func (c *command) say(format string, args ...any) { _, _ = fmt.Fprintf(c.err, format+"\n", args...) }

// environ returns this process's environment without some variables.
func environ(without ...string) []string {
	var env []string
next:
	for _, v := range os.Environ() {
		for _, name := range without {
			if len(v) > len(name) && v[:len(name)] == name && v[len(name)] == '=' {
				continue next
			}
		}
		env = append(env, v)
	}
	return env
}

// Package program runs operators as a program: flags and environment, leader election, probes, the metrics server and
// graceful shutdown.
//
// It is separate from package sdk because the authorization of the metrics server links large parts of the API server. An
// operator in an existing manager (sdk.Operator.SetupWithManager) does not need it.
package program

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"os/signal"
	"runtime/debug"
	"strings"
	"syscall"

	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/homeostat-dev/homeostat/sdk"
	"github.com/homeostat-dev/homeostat/sdk/internal/setup"
)

// Runnable is any [sdk.Operator] or [CustomController].
type Runnable interface {
	SetupWithManager(mgr manager.Manager, opts ...sdk.SetupOption) error
	// Describe returns the name, a DNS label, and one sentence for --help, or "".
	Describe() (name, doc string)
	// PrintPlans prints the writes that would be made now, and writes nothing. Its error is a usage error if the flag --dry-run
	// is not supported.
	PrintPlans(ctx context.Context, cfg *rest.Config, namespaces []string, out io.Writer) error
}

// FlagDefiner is a [Runnable] with flags of its own, such as an operator with webhooks. The function [Main] calls it. In a
// [Program], the function Flags does.
type FlagDefiner interface {
	DefineFlags(fs *flag.FlagSet)
}

// CustomController is a controller that does not reconcile objects of a kind of its own, and so is no [sdk.Operator], but
// runs in the same kind of program.
type CustomController struct {
	// Name identifies the controller in messages and in the program's leader election. It must be a DNS label. Required.
	Name string
	// Doc describes the controller in one sentence, like that of an [sdk.Operator]. Optional.
	Doc string
	// Setup adds the controller to a manager, for objects in these namespaces, or in all if there are none, with this number
	// of workers. Required.
	Setup func(mgr manager.Manager, namespaces []string, workers int) error
	// DryRun prints the writes that the controller would make now, and writes nothing. Nil rejects the flag --dry-run.
	DryRun func(ctx context.Context, cfg *rest.Config, namespaces []string, out io.Writer) error
}

// SetupWithManager adds the controller to a manager.
func (c *CustomController) SetupWithManager(mgr manager.Manager, opts ...sdk.SetupOption) error {
	s := setup.New(opts)
	return c.Setup(mgr, s.Namespaces, s.Workers)
}

// SetupInNamespaces is SetupWithManager with [sdk.InNamespaces]: see [sdk.Operator.SetupInNamespaces].
func (c *CustomController) SetupInNamespaces(mgr manager.Manager, namespaces ...string) error {
	return c.SetupWithManager(mgr, sdk.InNamespaces(namespaces...))
}

// Describe returns the name and the description of the controller.
func (c *CustomController) Describe() (name, doc string) { return c.Name, c.Doc }

// PrintPlans calls DryRun.
func (c *CustomController) PrintPlans(ctx context.Context, cfg *rest.Config, namespaces []string, out io.Writer) error {
	if c.DryRun == nil {
		return &usageError{fmt.Errorf("--dry-run: %s cannot tell what it would do", c.Name)}
	}
	return c.DryRun(ctx, cfg, namespaces, out)
}

// Main runs operators as a program, configured by flags and environment (see --help), until SIGTERM or SIGINT. It does not
// return. A second signal ends it at once. The exit code is 0 after a requested shutdown, 2 for an invalid configuration,
// and 1 for any other failure.
func Main(operators ...Runnable) {
	programOf(operators).Main()
}

// Named returns the program that [Main] runs, with a name that does not change when an operator is added. The name of Main's
// program consists of the names of all operators. It must be a DNS label.
func Named(name string, operators ...Runnable) *Program {
	program := programOf(operators)
	program.Name = name
	return program
}

func programOf(operators []Runnable) *Program {
	names, docs := make([]string, len(operators)), []string{}
	for i, op := range operators {
		name, doc := op.Describe()
		names[i] = name
		if doc != "" {
			docs = append(docs, doc)
		}
	}
	flags := func(fs *flag.FlagSet) {
		for _, op := range operators {
			if definer, ok := op.(FlagDefiner); ok {
				definer.DefineFlags(fs)
			}
		}
	}
	all := func() ([]Runnable, error) { return operators, nil }
	return &Program{Name: strings.Join(names, "-"), Doc: strings.Join(docs, "\n"), Flags: flags, Operators: all}
}

// Program is a program with operators that depend on additional flags.
type Program struct {
	// Name is the name of the program and of its leader election. It must be a DNS label. Required.
	Name string
	// Doc describes the program in one sentence. It is the beginning of --help. Optional.
	Doc string
	// Flags defines additional flags. Each can also be set in the environment, like the others. Optional.
	Flags func(*flag.FlagSet)
	// Operators is called after all flags have their values. Its error counts as an invalid configuration. Required.
	Operators func() ([]Runnable, error)
}

// Main runs the program like the function [Main].
func (program *Program) Main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	err := program.run(ctx, os.Args[1:], os.LookupEnv, os.Stdout, os.Stderr)
	stop()
	var usage *usageError
	switch {
	case err == nil, errors.Is(err, flag.ErrHelp):
		os.Exit(0)
	case errors.As(err, &usage):
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	default:
		fmt.Fprintln(os.Stderr, "Error:", err)
		os.Exit(1)
	}
}

// run is Main without the process: it returns when the context ends.
func (program *Program) run(
	ctx context.Context, args []string, lookup func(string) (string, bool), out, logs io.Writer,
) error {
	s, err := parseSettings(program, args, lookup, out)
	if err != nil {
		return err
	}
	if s.version {
		_, err := fmt.Fprintln(out, s.name, version(debug.ReadBuildInfo()))
		return err
	}
	operators, err := program.Operators()
	if err != nil {
		return &usageError{fmt.Errorf("%w (see --help)", err)}
	}
	logger := s.logger(logs)
	log.SetLogger(logger)
	klog.SetLogger(logger)
	cfg, err := s.restConfig()
	if err != nil {
		return err
	}
	if !s.dryRun {
		return explainUnreachable(cfg, s.serve(ctx, cfg, operators, logger))
	}
	for _, op := range operators {
		if err := op.PrintPlans(ctx, cfg, s.namespaces, out); err != nil {
			return explainUnreachable(cfg, err)
		}
	}
	return nil
}

// explainUnreachable returns the error, replaced by a clear message if the API server could not be reached.
func explainUnreachable(cfg *rest.Config, err error) error {
	request, ok := errors.AsType[*url.Error](err)
	if !ok {
		return err
	}
	if _, ok := errors.AsType[*net.OpError](request); !ok && !request.Timeout() {
		return err
	}
	return fmt.Errorf("the API server at %s does not answer: %w: start it, or name another with --kubeconfig",
		cfg.Host, request.Err)
}

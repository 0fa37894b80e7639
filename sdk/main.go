package sdk

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"strings"
	"syscall"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics/filters"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

// Runnable is any [Operator] or [Custom] controller.
type Runnable interface {
	SetupWithManager(mgr manager.Manager, opts ...SetupOption) error
	name() string
	doc() string
	dryRun(ctx context.Context, cfg *rest.Config, namespaces []string, out io.Writer) error
}

func (op *Operator[T]) name() string { return op.Name }

func (op *Operator[T]) doc() string { return op.Doc }

// Custom is a controller that does not reconcile objects of a kind of its own, and so is no [Operator], but runs in the same
// kind of program.
type Custom struct {
	// Name identifies the controller in messages and in the program's leader election. It must be a DNS label. Required.
	Name string
	// Doc describes the controller in one sentence, like that of an [Operator]. Optional.
	Doc string
	// Setup adds the controller to a manager, for objects in these namespaces, or in all if there are none, with this number
	// of workers. Required.
	Setup func(mgr manager.Manager, namespaces []string, workers int) error
	// DryRun prints the writes that the controller would make now, and writes nothing. Nil rejects the flag --dry-run.
	DryRun func(ctx context.Context, cfg *rest.Config, namespaces []string, out io.Writer) error
}

// SetupWithManager adds the controller to a manager.
func (c *Custom) SetupWithManager(mgr manager.Manager, opts ...SetupOption) error {
	s := newSetup(opts)
	return c.Setup(mgr, s.namespaces, s.workers)
}

func (c *Custom) name() string { return c.Name }

func (c *Custom) doc() string { return c.Doc }

func (c *Custom) dryRun(ctx context.Context, cfg *rest.Config, namespaces []string, out io.Writer) error {
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

func programOf(operators []Runnable) *Program {
	names, docs := make([]string, len(operators)), []string{}
	for i, op := range operators {
		names[i] = op.name()
		if op.doc() != "" {
			docs = append(docs, op.doc())
		}
	}
	all := func() ([]Runnable, error) { return operators, nil }
	return &Program{Name: strings.Join(names, "-"), Doc: strings.Join(docs, "\n"), Operators: all}
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
		if err := op.dryRun(ctx, cfg, s.namespaces, out); err != nil {
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

// namespaceFile holds the namespace of a pod. It is the default namespace of the Lease.
const namespaceFile = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"

// serve runs the operators until the context ends.
func (s *settings) serve(ctx context.Context, cfg *rest.Config, operators []Runnable, logger logr.Logger) error {
	if _, err := os.Stat(namespaceFile); err != nil && s.leaderElect && s.leaderNamespace == "" {
		return &usageError{errors.New("--leader-elect: the program does not run in a cluster, whose namespace it would take: " +
			"set --leader-election-namespace to that of the Lease (see --help)")}
	}
	mgr, err := s.newManager(cfg)
	if err != nil {
		return err
	}
	names := make([]string, len(operators))
	for i, op := range operators {
		names[i] = op.name()
		if err := op.SetupWithManager(mgr, InNamespaces(s.namespaces...), Workers(s.workers)); err != nil {
			return err
		}
	}
	logger.Info("Operator starting",
		"operators", names, "version", version(debug.ReadBuildInfo()), "server", cfg.Host, "namespaces", s.namespaces)
	if err := mgr.Start(ctx); err != nil {
		return fmt.Errorf("running: %w", err)
	}
	logger.Info("Operator stopped")
	return nil
}

// restConfig returns the connection to the API server: of the given kubeconfig, else of the cluster that the program runs
// in, else of the user's default kubeconfig.
func (s *settings) restConfig() (*rest.Config, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	inside := rest.ErrNotInCluster
	if s.kubeconfig == "" {
		var cfg *rest.Config
		if cfg, inside = rest.InClusterConfig(); inside == nil {
			return withoutRateLimit(cfg), nil
		}
	} else {
		rules.Precedence = filepath.SplitList(s.kubeconfig)
		if missing := firstMissing(rules.Precedence); missing != "" {
			return nil, &usageError{fmt.Errorf("%s does not exist: correct --kubeconfig or KUBECONFIG", missing)}
		}
	}
	cfg, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, nil).ClientConfig()
	switch files := strings.Join(rules.Precedence, " and "); {
	case err == nil:
		return withoutRateLimit(cfg), nil
	case !errors.Is(inside, rest.ErrNotInCluster):
		return nil, &usageError{fmt.Errorf(
			"no cluster to work on: %w: let the pod mount the token of its ServiceAccount, or set --kubeconfig", inside)}
	case !clientcmd.IsEmptyConfig(err):
		return nil, &usageError{fmt.Errorf("no cluster to work on: reading %s: %w (set --kubeconfig or KUBECONFIG)", files, err)}
	case s.kubeconfig == "":
		return nil, &usageError{fmt.Errorf(
			"no cluster to work on: the program does not run in one, and %s names none: set --kubeconfig or KUBECONFIG", files)}
	default:
		return nil, &usageError{fmt.Errorf("no cluster to work on: %s names none: correct --kubeconfig or KUBECONFIG", files)}
	}
}

func firstMissing(files []string) string {
	for _, file := range files {
		if _, err := os.Stat(file); err != nil {
			return file
		}
	}
	return ""
}

// withoutRateLimit disables client-side rate limiting in favor of the API server's priority and fairness.
func withoutRateLimit(cfg *rest.Config) *rest.Config {
	cfg.QPS = -1
	return cfg
}

func (s *settings) newManager(cfg *rest.Config) (manager.Manager, error) {
	metrics := metricsserver.Options{BindAddress: s.metricsAddress, SecureServing: s.metricsSecure}
	if s.metricsSecure {
		metrics.FilterProvider = filters.WithAuthenticationAndAuthorization
	}
	mgr, err := manager.New(cfg, manager.Options{
		Metrics:                       metrics,
		HealthProbeBindAddress:        s.probeAddress,
		LeaderElection:                s.leaderElect,
		LeaderElectionID:              s.name + ".homeostat.dev",
		LeaderElectionNamespace:       s.leaderNamespace,
		LeaderElectionReleaseOnCancel: true,
		GracefulShutdownTimeout:       &s.shutdownTimeout,
	})
	if err != nil {
		return nil, fmt.Errorf("preparing to run: %w", err)
	}
	if err := mgr.AddHealthzCheck("ping", healthz.Ping); err != nil {
		return nil, fmt.Errorf("adding the health check: %w", err)
	}
	return mgr, nil
}

// linkedVersion is set by the linker in reproducible builds.
var linkedVersion string

// version returns the version of the module and, in a build from a checkout, its revision: "v1.2.3 (4f921db)".
func version(info *debug.BuildInfo, ok bool) string {
	if !ok {
		return "(unknown)"
	}
	built := map[string]string{}
	for _, setting := range info.Settings {
		built[setting.Key] = setting.Value
	}
	v := cmp.Or(linkedVersion, info.Main.Version, "(devel)")
	switch revision := built["vcs.revision"]; {
	case revision == "":
		return v
	case built["vcs.modified"] == "true":
		return v + " (" + revision + ", modified)"
	default:
		return v + " (" + revision + ")"
	}
}

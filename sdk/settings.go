package sdk

import (
	"flag"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"time"

	"github.com/go-logr/logr"
)

// settings is the configuration of a program made by [Main]. Each flag can also be given in the environment, by its
// name in upper case with underscores; the flag wins.
type settings struct {
	name            string
	kubeconfig      string
	namespaces      []string
	workers         int
	leaderElect     bool
	leaderNamespace string
	metricsAddress  string
	metricsSecure   bool
	probeAddress    string
	logFormat       string
	logLevel        slog.Level
	shutdownTimeout time.Duration
	dryRun          bool
	version         bool
}

// isAction tells the flags that make the program do something else than run. They are no settings, so the environment has
// no say in them: VERSION means something else to many.
func isAction(flagName string) bool { return flagName == "version" || flagName == "dry-run" }

// usageError is a mistake in flags or environment.
type usageError struct{ error }

func (e *usageError) Unwrap() error { return e.error }

func parseSettings(
	program *Program, args []string, lookup func(string) (string, bool), out io.Writer,
) (*settings, error) {
	s := &settings{name: program.Name}
	fs := flag.NewFlagSet(program.Name, flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	s.define(fs, lookup)
	if program.Flags != nil {
		program.Flags(fs)
	}
	if err := fromEnvironment(fs, lookup); err != nil {
		return nil, err
	}
	if err := fs.Parse(args); err != nil {
		if err == flag.ErrHelp { //nolint:errorlint // flag returns it as it is.
			usage(fs, out)
			return nil, err
		}
		return nil, &usageError{fmt.Errorf("%w (see --help)", err)}
	}
	if fs.NArg() > 0 {
		return nil, &usageError{fmt.Errorf("unexpected argument %q: only flags are taken (see --help)", fs.Arg(0))}
	}
	return s, s.validate()
}

func (s *settings) define(fs *flag.FlagSet, lookup func(string) (string, bool)) {
	metrics, probes := "0", "0"
	if _, inCluster := lookup("KUBERNETES_SERVICE_HOST"); inCluster {
		metrics, probes = ":8443", ":8081"
	}
	fs.StringVar(&s.kubeconfig, "kubeconfig", "",
		"file that says which cluster to work on; default: the cluster the program runs in, else ~/.kube/config")
	fs.Func("watch-namespaces", "namespaces to work in, separated by commas; default: all", func(v string) error {
		s.namespaces = splitList(v)
		return nil
	})
	fs.IntVar(&s.workers, "workers", defaultWorkers, "how many objects are worked on at a time")
	fs.BoolVar(&s.leaderElect, "leader-elect", false, "elect one of several replicas to work")
	fs.StringVar(&s.leaderNamespace, "leader-election-namespace", "",
		"namespace of the election's Lease; default: the one the program runs in")
	fs.StringVar(&s.metricsAddress, "metrics-bind-address", metrics,
		`address that serves /metrics, "0" for none; default: ":8443" in a cluster, "0" elsewhere`)
	fs.BoolVar(&s.metricsSecure, "metrics-secure", true,
		"serve /metrics by HTTPS and only to clients whom the cluster authorizes for it")
	fs.StringVar(&s.probeAddress, "health-probe-bind-address", probes,
		`address that serves /healthz and /readyz, "0" for none; default: ":8081" in a cluster, "0" elsewhere`)
	fs.StringVar(&s.logFormat, "log-format", "json", "json or console")
	fs.TextVar(&s.logLevel, "log-level", slog.LevelInfo, "debug, info, warn or error")
	fs.DurationVar(&s.shutdownTimeout, "shutdown-timeout", 30*time.Second,
		"how long passes under way may take to finish")
	fs.BoolVar(&s.dryRun, "dry-run", false,
		"print what would be done about each object now, write nothing and exit")
	fs.BoolVar(&s.version, "version", false, "print the version and exit")
}

func (s *settings) validate() error {
	switch {
	case s.workers < 1:
		return &usageError{fmt.Errorf("--workers=%d: it must be at least 1", s.workers)}
	case s.logFormat != "json" && s.logFormat != "console":
		return &usageError{fmt.Errorf("--log-format=%q: it must be json or console", s.logFormat)}
	case s.shutdownTimeout < 0:
		return &usageError{fmt.Errorf("--shutdown-timeout=%s: it must not be negative", s.shutdownTimeout)}
	}
	return nil
}

// fromEnvironment sets every flag whose variable is set and not empty.
func fromEnvironment(fs *flag.FlagSet, lookup func(string) (string, bool)) error {
	var failed error
	fs.VisitAll(func(f *flag.Flag) {
		v, ok := lookup(variable(f.Name))
		if !ok || v == "" || failed != nil || isAction(f.Name) {
			return
		}
		if err := fs.Set(f.Name, v); err != nil {
			failed = &usageError{fmt.Errorf("environment variable %s=%q: %w (see --help)", variable(f.Name), v, err)}
		}
	})
	return failed
}

func variable(flagName string) string {
	return strings.ToUpper(strings.ReplaceAll(flagName, "-", "_"))
}

func usage(fs *flag.FlagSet, out io.Writer) {
	fmt.Fprintf(out, "Usage: %s [flags]\n\nEach flag can be set in the environment too; the flag wins.\n\n", fs.Name())
	fs.VisitAll(func(f *flag.Flag) {
		fmt.Fprintf(out, "  --%s", f.Name)
		if !isAction(f.Name) {
			fmt.Fprintf(out, " (%s)", variable(f.Name))
		}
		fmt.Fprintf(out, "\n    \t%s", f.Usage)
		if f.DefValue != "" && f.DefValue != "false" && !strings.Contains(f.Usage, "default:") {
			fmt.Fprintf(out, "; default: %s", f.DefValue)
		}
		fmt.Fprintln(out)
	})
}

func splitList(v string) []string {
	var items []string
	for item := range strings.SplitSeq(v, ",") {
		if item = strings.TrimSpace(item); item != "" {
			items = append(items, item)
		}
	}
	return items
}

func (s *settings) logger(out io.Writer) logr.Logger {
	options := &slog.HandlerOptions{Level: s.logLevel}
	if s.logFormat == "console" {
		return logr.FromSlogHandler(slog.NewTextHandler(out, options))
	}
	return logr.FromSlogHandler(slog.NewJSONHandler(out, options))
}

package program

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/homeostat-dev/homeostat/sdk/internal/setup"
)

// settings is the configuration of a program of [Main]. Each flag can also be set in the environment, by its name in upper
// case with underscores; the flag takes precedence.
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

	flags *flag.FlagSet // with the flags of the operators
}

// isCommand reports whether a flag makes the program do something else than run. Such a flag is not read from the
// environment, because VERSION has another meaning in many images.
func isCommand(flagName string) bool { return flagName == "version" || flagName == "dry-run" }

// usageError is an error in flags or environment.
type usageError struct{ error }

// Unwrap returns the wrapped error.
func (e *usageError) Unwrap() error { return e.error }

func parseSettings(
	program *Program, args []string, lookup func(string) (string, bool), out io.Writer,
) (*settings, error) {
	s := &settings{name: program.Name}
	fs := flag.NewFlagSet(program.Name, flag.ContinueOnError)
	s.define(fs, lookup)
	s.flags = fs
	if program.Flags != nil {
		program.Flags(fs)
	}
	err := parse(fs, s.checks(), args, lookup)
	if err == flag.ErrHelp { //nolint:errorlint // package flag returns it unwrapped.
		usage(fs, program.Doc, out)
		return nil, err
	}
	if err != nil {
		return nil, &usageError{fmt.Errorf("%w (see --help)", err)}
	}
	return s, nil
}

func (s *settings) define(fs *flag.FlagSet, lookup func(string) (string, bool)) {
	metrics, probes := "0", "0"
	if _, inCluster := lookup("KUBERNETES_SERVICE_HOST"); inCluster {
		metrics, probes = ":8443", ":8081"
	}
	fs.StringVar(&s.kubeconfig, "kubeconfig", "",
		"file that says which cluster to work on; default: the cluster the program runs in, else ~/.kube/config")
	fs.Func("watch-namespaces", "namespaces to work in, separated by commas; default: all", func(v string) (err error) {
		s.namespaces, err = namespaceList(v)
		return err
	})
	fs.IntVar(&s.workers, "workers", setup.DefaultWorkers, "how many objects are worked on at a time")
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
	fs.Func("log-level", "debug, info, warn or error; default: info", func(v string) error {
		if err := s.logLevel.UnmarshalText([]byte(v)); err != nil {
			return errors.New("it must be debug, info, warn or error")
		}
		return nil
	})
	fs.DurationVar(&s.shutdownTimeout, "shutdown-timeout", 30*time.Second,
		"how long passes under way may take to finish")
	fs.BoolVar(&s.dryRun, "dry-run", false,
		"print what would be done about each object now, write nothing and exit")
	fs.BoolVar(&s.version, "version", false, "print the version and exit")
}

// checks returns the validation functions by flag name.
func (s *settings) checks() map[string]func() error {
	unless := func(ok func() bool, says string) func() error {
		return func() error {
			if ok() {
				return nil
			}
			return errors.New(says)
		}
	}
	return map[string]func() error{
		"workers": unless(func() bool { return s.workers >= 1 }, "it must be at least 1"),
		"log-format": unless(func() bool { return s.logFormat == "json" || s.logFormat == "console" },
			"it must be json or console"),
		"shutdown-timeout":          unless(func() bool { return s.shutdownTimeout >= 0 }, "it must not be negative"),
		"leader-election-namespace": func() error { return checkNamespace(s.leaderNamespace) },
		"metrics-bind-address":      func() error { return checkAddress(s.metricsAddress) },
		"health-probe-bind-address": func() error { return checkAddress(s.probeAddress) },
	}
}

// namespaceList parses comma-separated names. An empty value, as from the template of an empty list, means all namespaces. A
// value of commas alone comes from unset variables and is rejected: it must not select more namespaces than intended.
func namespaceList(v string) ([]string, error) {
	var names []string
	for name := range strings.SplitSeq(v, ",") {
		if name = strings.TrimSpace(name); name == "" || slices.Contains(names, name) {
			continue
		}
		if err := checkNamespace(name); err != nil {
			return nil, err
		}
		names = append(names, name)
	}
	if v != "" && len(names) == 0 {
		return nil, errors.New("it names no namespace: name one, or leave it out for all namespaces")
	}
	return names, nil
}

func checkNamespace(name string) error {
	if name != "" && len(validation.IsDNS1123Label(name)) > 0 {
		return fmt.Errorf(
			"%q cannot be the name of a namespace: it takes lower case letters, digits and dashes, as in team-a", name)
	}
	return nil
}

// checkAddress validates a listen address. Whether the port is free is found out when the server starts.
func checkAddress(address string) error {
	if address == "0" {
		return nil
	}
	_, port, err := net.SplitHostPort(address)
	if err == nil {
		_, err = net.DefaultResolver.LookupPort(context.Background(), "tcp", port) // it makes no request
	}
	if err != nil || port == "" {
		return errors.New(`it must be an address with a port up to 65535, such as :8080 or 127.0.0.1:8080, or "0" for none`)
	}
	return nil
}

func (s *settings) logger(out io.Writer) logr.Logger {
	options := &slog.HandlerOptions{Level: s.logLevel}
	if s.logFormat == "console" {
		return logr.FromSlogHandler(slog.NewTextHandler(out, options))
	}
	return logr.FromSlogHandler(slog.NewJSONHandler(out, options))
}

package program

import (
	"errors"
	"flag"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/homeostat-dev/homeostat/sdk"
	"github.com/homeostat-dev/homeostat/sdk/internal/setup"
)

func lookupIn(env map[string]string) func(string) (string, bool) {
	return func(name string) (string, bool) {
		v, ok := env[name]
		return v, ok
	}
}

func TestSettings(t *testing.T) {
	t.Parallel()
	defaults := func(change func(*settings)) settings {
		s := settings{
			name: "web", workers: setup.DefaultWorkers, metricsAddress: "0", metricsSecure: true, probeAddress: "0",
			logFormat: "json", logLevel: slog.LevelInfo, shutdownTimeout: 30 * time.Second,
		}
		if change != nil {
			change(&s)
		}
		return s
	}
	for name, test := range map[string]struct {
		reason string
		args   []string
		env    map[string]string
		want   settings
	}{
		"defaults": {
			reason: "outside of a cluster nothing is served by default",
			want:   defaults(nil),
		},
		"in a cluster": {
			reason: "probes and metrics have the addresses of the manifests",
			env:    map[string]string{"KUBERNETES_SERVICE_HOST": "10.0.0.1"},
			want: defaults(func(s *settings) {
				s.metricsAddress = ":8443"
				s.probeAddress = ":8081"
			}),
		},
		"environment": {
			reason: "each flag has a variable",
			env:    map[string]string{"WATCH_NAMESPACES": "a, b,", "WORKERS": "3", "LOG_LEVEL": "debug"},
			want: defaults(func(s *settings) {
				s.namespaces = []string{"a", "b"}
				s.workers = 3
				s.logLevel = slog.LevelDebug
			}),
		},
		"flag and environment": {
			reason: "the flag wins",
			args:   []string{"--workers=5", "--watch-namespaces", "c"},
			env:    map[string]string{"WATCH_NAMESPACES": "a,b", "WORKERS": "3"},
			want: defaults(func(s *settings) {
				s.namespaces = []string{"c"}
				s.workers = 5
			}),
		},
		"an empty list of namespaces": {
			reason: "a chart renders an empty list like this; it means all",
			args:   []string{"--watch-namespaces="},
			want:   defaults(nil),
		},
		"namespaces named twice, and a variable that was not set": {
			reason: "duplicates and empty names are ignored",
			args:   []string{"--watch-namespaces=a,,b,a"},
			want:   defaults(func(s *settings) { s.namespaces = []string{"a", "b"} }),
		},
		"addresses": {
			reason: "each form of a listen address is accepted",
			args:   []string{"--metrics-bind-address=[::1]:0", "--health-probe-bind-address=localhost:http"},
			want: defaults(func(s *settings) {
				s.metricsAddress = "[::1]:0"
				s.probeAddress = "localhost:http"
			}),
		},
		"empty variable": {
			reason: "an empty variable counts as unset",
			env:    map[string]string{"WORKERS": ""},
			want:   defaults(nil),
		},
		"VERSION": {
			reason: "many images have this variable, with another meaning",
			env:    map[string]string{"VERSION": "true"},
			want:   defaults(nil),
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := parseSettings(&Program{Name: "web"}, test.args, lookupIn(test.env), t.Output())
			if err != nil {
				t.Fatal(err)
			}
			got.flags = nil
			if diff := cmp.Diff(test.want, *got, cmp.AllowUnexported(settings{})); diff != "" {
				t.Errorf("%s (-want +got):\n%s", test.reason, diff)
			}
		})
	}
}

func TestInvalidSettingsNameTheirSource(t *testing.T) {
	t.Parallel()
	const address = `it must be an address with a port up to 65535, such as :8080 or 127.0.0.1:8080, or "0" for none`
	for name, test := range map[string]struct {
		args []string
		env  map[string]string
		says string
	}{
		"unknown flag": {args: []string{"--replicas=2"}, says: "flag provided but not defined: --replicas"},
		"no value":     {args: []string{"--workers"}, says: "flag needs an argument: --workers"},
		"argument":     {args: []string{"serve"}, says: `unexpected argument "serve": only flags are taken`},
		"bad flag":     {args: []string{"--workers=many"}, says: `--workers="many": it must be a whole number`},
		"bad variable": {
			env:  map[string]string{"WORKERS": "many"},
			says: `environment variable WORKERS="many": it must be a whole number`,
		},
		"no workers": {args: []string{"--workers=0"}, says: `--workers="0": it must be at least 1`},
		"variable with no workers": {
			env:  map[string]string{"WORKERS": "0"},
			says: `environment variable WORKERS="0": it must be at least 1`,
		},
		"number": {args: []string{"--ratio", "half"}, says: `--ratio="half": it must be a number`},
		"switch": {args: []string{"--secrets=maybe"}, says: `--secrets="maybe": it must be true or false`},
		"variable of a switch": {
			env:  map[string]string{"SECRETS": "maybe"},
			says: `environment variable SECRETS="maybe": it must be true or false`,
		},
		"time, no unit": {
			args: []string{"--shutdown-timeout", "5"},
			says: `--shutdown-timeout="5": it must be a duration, such as 5s or 10m`,
		},
		"its own message": {args: []string{"--rule=x"}, says: `--rule="x": there is no such rule`},
		"log format":      {args: []string{"--log-format=xml"}, says: `--log-format="xml": it must be json or console`},
		"log level":       {args: []string{"--log-level=loud"}, says: `--log-level="loud": it must be debug, info, warn or error`},
		"negative time":   {args: []string{"--shutdown-timeout=-1s"}, says: `--shutdown-timeout="-1s": it must not be negative`},
		"commas alone": {
			args: []string{"--watch-namespaces", " ,"},
			says: `--watch-namespaces=" ,": it names no namespace: name one, or leave it out for all namespaces`,
		},
		"variables that were not set": {
			env:  map[string]string{"WATCH_NAMESPACES": ","},
			says: `environment variable WATCH_NAMESPACES=",": it names no namespace: name one, or leave it out for all namespaces`,
		},
		"no namespace": {
			args: []string{"--watch-namespaces=a,Foo_Bar"},
			says: `--watch-namespaces="a,Foo_Bar": "Foo_Bar" cannot be the name of a namespace: ` +
				"it takes lower case letters, digits and dashes, as in team-a",
		},
		"no namespace of the Lease": {
			args: []string{"--leader-election-namespace=$(NAMESPACE)"},
			says: `--leader-election-namespace="$(NAMESPACE)": "$(NAMESPACE)" cannot be the name of a namespace: ` +
				"it takes lower case letters, digits and dashes, as in team-a",
		},
		"no address": {args: []string{"--metrics-bind-address=nope"}, says: `--metrics-bind-address="nope": ` + address},
		"no port": {
			args: []string{"--metrics-bind-address=localhost:"},
			says: `--metrics-bind-address="localhost:": ` + address,
		},
		"impossible": {
			args: []string{"--health-probe-bind-address=:99999"},
			says: `--health-probe-bind-address=":99999": ` + address,
		},
		"empty": {args: []string{"--health-probe-bind-address="}, says: `--health-probe-bind-address="": ` + address},
		"variable with an invalid address": {
			env:  map[string]string{"METRICS_BIND_ADDRESS": "off"},
			says: `environment variable METRICS_BIND_ADDRESS="off": ` + address,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			program := &Program{Name: "web", Flags: func(fs *flag.FlagSet) {
				fs.Bool("secrets", false, "with Secrets")
				fs.Float64("ratio", 1, "how many of them")
				fs.Func("rule", "which rule", func(string) error { return errors.New("there is no such rule") })
			}}
			_, err := parseSettings(program, test.args, lookupIn(test.env), t.Output())
			if _, ok := errors.AsType[*usageError](err); !ok || err.Error() != test.says+" (see --help)" {
				t.Errorf("got %v, want a usage error that says %q", err, test.says)
			}
		})
	}
}

func TestHelpNamesFlagsAndVariables(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	program := programOf([]Runnable{
		&sdk.Operator[*testObject]{Name: "web", Doc: "Web keeps sites online."}, &CustomController{Name: "plain"},
		&CustomController{Name: "roll", Doc: "Roll replaces pods."},
	})
	if _, err := parseSettings(program, []string{"--help"}, lookupIn(nil), &out); !errors.Is(err, flag.ErrHelp) {
		t.Fatalf("got %v", err)
	}
	want := "Web keeps sites online.\nRoll replaces pods.\n\nUsage: web-plain-roll [flags]\n"
	if !strings.HasPrefix(out.String(), want) {
		t.Errorf("it does not begin with\n%sbut\n%s", want, out.String())
	}
	for _, part := range []string{
		"Each flag but --dry-run and --version can", "  --dry-run\n", "--watch-namespaces (WATCH_NAMESPACES)",
		"; default: 30s", "; default: info",
	} {
		if !strings.Contains(out.String(), part) {
			t.Errorf("%q is missing in\n%s", part, out.String())
		}
	}
}

// A program has the name that it is given, and otherwise those of its operators.
func TestNamed(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	web := &sdk.Operator[*testObject]{Name: "web", Doc: "Web keeps sites online."}
	program := Named("shop", web, &CustomController{Name: "roll"})
	if _, err := parseSettings(program, []string{"--help"}, lookupIn(nil), &out); !errors.Is(err, flag.ErrHelp) {
		t.Fatalf("got %v", err)
	}
	if want := "Web keeps sites online.\n\nUsage: shop [flags]\n"; !strings.HasPrefix(out.String(), want) {
		t.Errorf("it does not begin with\n%sbut\n%s", want, out.String())
	}
	if operators, err := program.Operators(); len(operators) != 2 || err != nil {
		t.Errorf("%d operators, %v", len(operators), err)
	}
}

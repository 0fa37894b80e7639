package sdk

import (
	"errors"
	"flag"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
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
			name: "web", workers: defaultWorkers, metricsAddress: "0", metricsSecure: true, probeAddress: "0",
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
			reason: "outside of a cluster nothing is served unless it is asked for",
			want:   defaults(nil),
		},
		"in a cluster": {
			reason: "probes and metrics are what the manifests expect",
			env:    map[string]string{"KUBERNETES_SERVICE_HOST": "10.0.0.1"},
			want:   defaults(func(s *settings) { s.metricsAddress, s.probeAddress = ":8443", ":8081" }),
		},
		"environment": {
			reason: "each flag has a variable",
			env:    map[string]string{"WATCH_NAMESPACES": "a, b,", "WORKERS": "3", "LOG_LEVEL": "debug"},
			want: defaults(func(s *settings) {
				s.namespaces, s.workers, s.logLevel = []string{"a", "b"}, 3, slog.LevelDebug
			}),
		},
		"flag and environment": {
			reason: "the flag wins",
			args:   []string{"--workers=5", "--watch-namespaces", "c"},
			env:    map[string]string{"WATCH_NAMESPACES": "a,b", "WORKERS": "3"},
			want:   defaults(func(s *settings) { s.namespaces, s.workers = []string{"c"}, 5 }),
		},
		"empty variable": {
			reason: "a variable that is set to nothing is not set",
			env:    map[string]string{"WORKERS": ""},
			want:   defaults(nil),
		},
		"VERSION": {
			reason: "is a variable that many images have, for something else",
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
			if diff := cmp.Diff(test.want, *got, cmp.AllowUnexported(settings{})); diff != "" {
				t.Errorf("%s (-want +got):\n%s", test.reason, diff)
			}
		})
	}
}

func TestWrongSettingsNameTheirSource(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		args []string
		env  map[string]string
		says string
	}{
		"unknown flag":   {args: []string{"--replicas=2"}, says: "-replicas (see --help)"},
		"argument":       {args: []string{"serve"}, says: `unexpected argument "serve"`},
		"bad flag":       {args: []string{"--workers=many"}, says: `"many" for flag -workers`},
		"bad variable":   {env: map[string]string{"WORKERS": "many"}, says: `environment variable WORKERS="many"`},
		"no workers":     {args: []string{"--workers=0"}, says: "at least 1"},
		"log format":     {args: []string{"--log-format=xml"}, says: "json or console"},
		"negative drain": {args: []string{"--shutdown-timeout=-1s"}, says: "must not be negative"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := parseSettings(&Program{Name: "web"}, test.args, lookupIn(test.env), t.Output())
			if _, ok := errors.AsType[*usageError](err); !ok || !strings.Contains(err.Error(), test.says) {
				t.Errorf("got %v, want a usage error that says %q", err, test.says)
			}
		})
	}
}

func TestHelpNamesFlagsAndVariables(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	if _, err := parseSettings(&Program{Name: "web"}, []string{"--help"}, lookupIn(nil), &out); !errors.Is(err, flag.ErrHelp) {
		t.Fatalf("got %v", err)
	}
	for _, part := range []string{"Usage: web", "--watch-namespaces (WATCH_NAMESPACES)", "; default: 30s"} {
		if !strings.Contains(out.String(), part) {
			t.Errorf("%q is missing in\n%s", part, out.String())
		}
	}
}

package webhook

import (
	"flag"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/homeostat-dev/homeostat/sdk"
)

func defined() *flag.FlagSet {
	fs := flag.NewFlagSet("team", flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	DefineFlags(fs)
	return fs
}

// The tests set variables of the process, so they are not parallel.
func TestFlags(t *testing.T) {
	folder := t.TempDir()
	for _, name := range []string{"tls.crt", "tls.key"} {
		if err := os.WriteFile(filepath.Join(folder, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	own := server{address: "0", service: "team-webhook", configuration: "team-webhook", lifetime: 8760 * time.Hour}
	change := func(f func(*server)) server {
		s := own
		f(&s)
		return s
	}
	for name, test := range map[string]struct {
		inCluster bool
		args      []string
		want      server
		wantErr   string // a part of it
	}{
		"outside of a cluster": {want: own},
		"in a cluster":         {inCluster: true, want: change(func(s *server) { s.address = ":9443" })},
		"off":                  {inCluster: true, args: []string{"--webhook-bind-address=0"}, want: own},
		"all": {
			args: []string{
				"--webhook-bind-address=127.0.0.1:1", "--webhook-cert-dir=" + folder, "--webhook-service=a/b",
				"--webhook-configuration=c", "--webhook-ca-lifetime=24h",
			},
			want: server{address: "127.0.0.1:1", certDir: folder, service: "a/b", configuration: "c", lifetime: 24 * time.Hour},
		},
		"port alone":       {args: []string{"--webhook-bind-address=9443"}, wantErr: "it must be an address with a port"},
		"any port":         {args: []string{"--webhook-bind-address=:0"}, wantErr: "it must be an address with a port"},
		"empty folder":     {args: []string{"--webhook-cert-dir=" + t.TempDir()}, wantErr: "tls.crt: no such file"},
		"no folder":        {args: []string{"--webhook-cert-dir="}, wantErr: "it must be a folder"},
		"not a Service":    {args: []string{"--webhook-service=a/b/c"}, wantErr: "it must be the name of a Service"},
		"short lifetime":   {args: []string{"--webhook-ca-lifetime=9s"}, wantErr: "at least 10s"},
		"no duration":      {args: []string{"--webhook-ca-lifetime=year"}, wantErr: "at least 10s"},
		"Service of digit": {args: []string{"--webhook-service=1a"}, wantErr: "it must be the name of a Service"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
			if !test.inCluster {
				if err := os.Unsetenv("KUBERNETES_SERVICE_HOST"); err != nil {
					t.Fatal(err)
				}
			}
			fs := defined()
			err := fs.Parse(test.args)
			switch {
			case test.wantErr != "":
				if err == nil || !strings.Contains(err.Error(), test.wantErr) {
					t.Errorf("error %v, want %q", err, test.wantErr)
				}
			case err != nil || *serverOf(fs) != test.want:
				t.Errorf("%+v, %v\nwant %+v", *serverOf(fs), err, test.want)
			}
		})
	}
}

func TestFlagsAreDefinedOnce(t *testing.T) {
	fs := defined()
	first := serverOf(fs)
	(&Operator[*team]{}).DefineFlags(fs)
	if serverOf(fs) != first || serverOf(nil) != nil || serverOf(flag.NewFlagSet("", flag.ContinueOnError)) != nil {
		t.Error("a set of flags does not have exactly one server")
	}
}

func TestInvalidOperator(t *testing.T) {
	for want, op := range map[string]*Operator[*team]{
		"field Operator is nil": {},
		"has no webhook":        {Operator: &sdk.Operator[*team]{Name: "team"}},
	} {
		if err := op.SetupWithManager(nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
}

package operatorproc_test

import (
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/homeostat-dev/homeostat/testkit/internal/operatorproc"
)

// run returns the output of a script that exits by itself.
func run(t *testing.T, text string) []operatorproc.Line {
	t.Helper()
	o := script(t, text)
	o.wait(t)
	close(o.lines)
	var lines []operatorproc.Line
	for line := range o.lines {
		lines = append(lines, line)
	}
	return lines
}

func TestLines(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 64<<10)
	tests := map[string]struct {
		reason, script string
		want           []operatorproc.Line
	}{
		"Ends": {
			"all of them end a line", `printf 'unix\nempty next\n\nwindows\r\nno end'`,
			[]operatorproc.Line{{Text: "unix"}, {Text: "empty next"}, {Text: ""}, {Text: "windows"}, {Text: "no end"}},
		},
		"Stderr":  {"both are read", "echo wrong >&2", []operatorproc.Line{{Stderr: true, Text: "wrong"}}},
		"Nothing": {"output is optional", "true", nil},
		"Binary":  {"a report has to be text", `printf 'a\377b\n'`, []operatorproc.Line{{Text: "a\uFFFDb"}}},
		"Long": {
			"memory has an end", `head -c 1000000 /dev/zero | tr '\0' x; echo; echo next`,
			[]operatorproc.Line{{Text: long + "..."}, {Text: "next"}},
		},
	}
	for name, tt := range tests {
		before := time.Now()
		got := run(t, tt.script)
		for _, line := range got {
			if line.At.Before(before) || line.At.After(time.Now()) {
				t.Errorf("%s: printed at %v", name, line.At)
			}
		}
		if diff := cmp.Diff(tt.want, got, cmpopts.IgnoreFields(operatorproc.Line{}, "At")); diff != "" {
			t.Errorf("%s: lines (-want +got), because %s:\n%s", name, tt.reason, diff)
		}
	}
}

func TestTailIsBounded(t *testing.T) {
	t.Parallel()
	o := start(t, operatorproc.Command{Args: []string{"sh", "-c", "for i in $(seq 100); do echo $i; done; sleep 600"}})
	for range 100 {
		o.line(t)
	}
	tail := o.Tail()
	if len(tail) != 20 || tail[0].Text != "81" || tail[19].Text != "100" {
		t.Errorf("%v", tail)
	}
}

func TestOneLineAtATime(t *testing.T) {
	t.Parallel()
	var busy atomic.Bool
	var lines atomic.Int32
	i, err := operatorproc.Start(operatorproc.Command{
		Args: []string{"sh", "-c", "for i in $(seq 500); do echo $i; echo $i >&2; done"},
	}, func(operatorproc.Line) {
		if busy.Swap(true) {
			t.Error("two lines at once")
		}
		lines.Add(1)
		busy.Store(false)
	})
	if err != nil {
		t.Fatal(err)
	}
	<-i.Done()
	if got := lines.Load(); got != 1000 {
		t.Errorf("%d lines", got)
	}
}

// A daemon that has left the group holds the output open.
func TestDaemonDoesNotDelayExit(t *testing.T) {
	t.Parallel()
	if _, err := os.Stat("/usr/bin/setsid"); err != nil {
		t.Skip("there is no setsid")
	}
	o := script(t, `setsid sh -c 'echo $$; exec sleep 600' & wait`)
	daemon := o.identify(t)
	t.Cleanup(func() { _ = daemon.KillGroup(shortTimeout) })
	if err := o.Kill(); err != nil {
		t.Fatal(err)
	}
	o.wait(t)
	if !daemon.Alive() {
		t.Error("the process was no daemon, so the test proves nothing")
	}
}

func TestCommand(t *testing.T) {
	for key, value := range map[string]string{
		"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "443", "KUBERNETES_MASTER": "https://production",
		"KUBECONFIG": "/home/me/.kube/config", "NAMESPACE": "production", "no_proxy": "intranet", "NO_PROXY": "",
		"INHERITED": "yes", "OVERRIDDEN": "no",
	} {
		t.Setenv(key, value)
	}
	tests := map[string]struct {
		reason, name, want string
	}{
		"Kubeconfig":  {"the operator's cluster is ours", "KUBECONFIG", "/tmp/k"},
		"InCluster":   {"another cluster must not be found", "KUBERNETES_SERVICE_HOST", ""},
		"Port":        {"it belongs to the in-cluster configuration", "KUBERNETES_SERVICE_PORT", ""},
		"Fabric8":     {"Java's client takes it before the kubeconfig", "KUBERNETES_MASTER", ""},
		"Explicit":    {"an explicit variable is kept", "KUBERNETES_NAMESPACE", "ns"},
		"Namespace":   {"by the downward API's usual name", "NAMESPACE", "ns"},
		"Pod":         {"by another usual name", "POD_NAMESPACE", "ns"},
		"Watch":       {"by the Operator SDK's", "WATCH_NAMESPACE", "mine"},
		"NoProxy":     {"the API server is not on the internet", "NO_PROXY", "127.0.0.1"},
		"NoProxyToo":  {"existing exceptions are kept", "no_proxy", "intranet,127.0.0.1"},
		"Inherited":   {"other variables are inherited", "INHERITED", "yes"},
		"Overridden":  {"an explicit variable has precedence", "OVERRIDDEN", "yes {other}"},
		"Replacement": {"a variable may need the path, too", "CONFIGS", "/tmp/k:/tmp/k"},
		"Unbuffered":  {"a line should be seen when it is printed", "PYTHONUNBUFFERED", "1"},
	}
	dir := t.TempDir()
	names := make([]string, 0, len(tests))
	for _, tt := range tests {
		names = append(names, tt.name)
	}
	slices.Sort(names)
	script := `pwd -P; echo "$1"; shift; for name; do eval "echo \"$name=\${$name}\""; done`
	o := start(t, operatorproc.Command{
		Args: append([]string{"sh", "-c", script, "sh", "--kubeconfig={kubeconfig} -n {namespace} {other}"}, names...),
		Env: []string{
			"OVERRIDDEN=yes {other}", "CONFIGS={kubeconfig}:{kubeconfig}", "WATCH_NAMESPACE=mine",
			"KUBERNETES_NAMESPACE={namespace}",
		},
		Dir:        dir,
		Kubeconfig: "/tmp/k",
		Namespace:  "ns",
	})
	if got := o.line(t); !strings.HasSuffix(got, dir) {
		t.Errorf("it runs in %s", got)
	}
	if got, want := o.line(t), "--kubeconfig=/tmp/k -n ns {other}"; got != want {
		t.Errorf("its argument is %q, want %q", got, want)
	}
	got := map[string]string{}
	for range names {
		name, value, _ := strings.Cut(o.line(t), "=")
		got[name] = value
	}
	for name, tt := range tests {
		if got[tt.name] != tt.want {
			t.Errorf("%s: %s is %q, want %q, because %s", name, tt.name, got[tt.name], tt.want, tt.reason)
		}
	}
}

package operatorproc_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/homeostat-dev/homeostat/testkit/internal/operatorproc"
	"github.com/homeostat-dev/homeostat/testkit/internal/process"
)

// shortTimeout limits immediate reactions on a busy machine.
const shortTimeout = 60 * time.Second

// An operator is a process and its output.
type operator struct {
	*operatorproc.Process

	lines chan operatorproc.Line
}

func start(t *testing.T, cmd operatorproc.Command) *operator {
	t.Helper()
	lines := make(chan operatorproc.Line, 1000)
	i, err := operatorproc.Start(cmd, func(line operatorproc.Line) { lines <- line })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = i.Kill() })
	return &operator{Process: i, lines: lines}
}

func script(t *testing.T, text string) *operator {
	t.Helper()
	return start(t, operatorproc.Command{Args: []string{"sh", "-c", text}})
}

// line returns the next line of output.
func (o *operator) line(t *testing.T) string {
	t.Helper()
	select {
	case line := <-o.lines:
		return line.Text
	case <-time.After(shortTimeout):
		t.Fatal("the operator prints nothing")
		return ""
	}
}

func await(t *testing.T, what string, done <-chan struct{}) {
	t.Helper()
	select {
	case <-done:
	case <-time.After(shortTimeout):
		t.Fatalf("waiting for %s: not within %v", what, shortTimeout)
	}
}

func (o *operator) wait(t *testing.T) {
	t.Helper()
	await(t, "the operator's end", o.Done())
}

// identify reads a pid that the operator printed.
func (o *operator) identify(t *testing.T) process.ID {
	t.Helper()
	return identify(t, o.line(t))
}

func identify(t *testing.T, text string) process.ID {
	t.Helper()
	pid, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	id, err := process.Identify(pid)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func awaitEnd(t *testing.T, ids ...process.ID) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), shortTimeout)
	defer cancel()
	for _, id := range ids {
		if err := id.WaitEnd(ctx); err != nil {
			t.Error(err)
		}
	}
}

func TestKillEndsTheGroup(t *testing.T) {
	t.Parallel()
	o := script(t, `trap "" TERM; sleep 600 & echo $!; sleep 600 & echo $!; wait; wait`)
	children := []process.ID{o.ID(), o.identify(t), o.identify(t)}
	if err := o.Kill(); err != nil {
		t.Fatal(err)
	}
	awaitEnd(t, children...)
	if err := o.Err(); err != nil {
		t.Errorf("it was killed, and %v", err)
	}
	if diff := cmp.Diff(operatorproc.Exit{Code: -1, Signal: syscall.SIGKILL}, o.Exit()); diff != "" {
		t.Errorf("exit (-want +got):\n%s", diff)
	}
	if err := o.Kill(); err != nil {
		t.Errorf("killing it again: %v", err)
	}
	if err := o.Stop(shortTimeout); err != nil {
		t.Errorf("stopping it afterwards: %v", err)
	}
}

func TestStop(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		reason, script string
		grace          time.Duration
		want           operatorproc.Exit
	}{
		"Orderly": {
			"it may say goodbye", `trap "exit 3" TERM; echo up; while :; do sleep 0.01; done`, shortTimeout,
			operatorproc.Exit{Code: 3},
		},
		"Plain": {
			"a program that does not care ends at once", `echo up; exec sleep 600`, shortTimeout,
			operatorproc.Exit{Code: -1, Signal: syscall.SIGTERM},
		},
		"Stubborn": {
			"time is up", `trap "" TERM; echo up; while :; do sleep 0.01; done`, 50 * time.Millisecond,
			operatorproc.Exit{Code: -1, Signal: syscall.SIGKILL, Forced: true},
		},
		"Child": {
			"the operator may be a child of a shell", `sh -c 'trap "exit 0" TERM; echo up; sleep 600 & wait'; exit 4`, shortTimeout,
			operatorproc.Exit{Code: -1, Signal: syscall.SIGTERM},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := script(t, tt.script)
			if got := o.line(t); got != "up" {
				t.Fatal(got)
			}
			if err := o.Stop(tt.grace); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, o.Exit()); diff != "" || o.Err() != nil {
				t.Errorf("%v, exit (-want +got), because %s:\n%s", o.Err(), tt.reason, diff)
			}
		})
	}
}

func TestUnexpectedExit(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		reason, script string
		want           operatorproc.Exit
		message        string
	}{
		"Error": {
			"the last lines say why", "echo working; echo no cluster >&2; exit 7",
			operatorproc.Exit{Code: 7},
			"the operator ended by itself (exit status 7); the last it printed:\n  ",
		},
		"Success": {
			"an operator has no reason to end", "exit 0",
			operatorproc.Exit{},
			"the operator ended by itself (exit status 0) and has printed nothing",
		},
		"Signal": {
			"a crash has no code", "kill -SEGV $$",
			operatorproc.Exit{Code: -1, Signal: syscall.SIGSEGV},
			"the operator ended by itself (signal: segmentation fault) and has printed nothing",
		},
		"Killed": {
			"we did not do it", "kill -KILL $$",
			operatorproc.Exit{Code: -1, Signal: syscall.SIGKILL},
			"the operator ended by itself (signal: killed) and has printed nothing",
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := script(t, tt.script)
			o.wait(t)
			// Kill must not hide an earlier exit.
			if err := errors.Join(o.Kill(), o.Stop(shortTimeout)); err != nil {
				t.Error(err)
			}
			var exit *operatorproc.ExitError
			if !errors.As(o.Err(), &exit) {
				t.Fatalf("%v is no ExitError", o.Err())
			}
			if diff := cmp.Diff(tt.want, exit.Exit); diff != "" {
				t.Errorf("exit (-want +got), because %s:\n%s", tt.reason, diff)
			}
			if !strings.HasPrefix(exit.Error(), tt.message) {
				t.Errorf("it says %q, want %q, because %s", exit.Error(), tt.message, tt.reason)
			}
			for _, line := range exit.Lines {
				if !strings.Contains(exit.Error(), "\n  "+line.Text) {
					t.Errorf("%q lacks %q", exit.Error(), line.Text)
				}
			}
			if got := len(exit.Lines); name == "Error" && got != 2 {
				t.Errorf("%d lines", got)
			}
		})
	}
}

// A process that ended by itself does not count as killed, even if Kill follows at once.
func TestCrashBeforeKillIsReported(t *testing.T) {
	t.Parallel()
	for range 50 {
		o := script(t, "exit 7")
		if err := o.Kill(); err != nil {
			t.Fatal(err)
		}
		if killed := o.Exit().Signal == syscall.SIGKILL; killed != (o.Err() == nil) {
			t.Errorf("%v, but %v", o.Exit(), o.Err())
		}
	}
}

// A shell that starts the operator in the background and exits has ended. Its children must end, too.
func TestLeaderExitEndsGroup(t *testing.T) {
	t.Parallel()
	fifo := filepath.Join(t.TempDir(), "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	o := start(t, operatorproc.Command{Args: []string{"sh", "-c", `sleep 600 & echo $!; read -r _ <"$0"`, fifo}})
	child := o.identify(t)
	if err := os.WriteFile(fifo, []byte("now\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	o.wait(t)
	awaitEnd(t, child)
	if exit := (*operatorproc.ExitError)(nil); !errors.As(o.Err(), &exit) {
		t.Errorf("%v is no ExitError", o.Err())
	}
}

// Nothing survives a kill of this process: neither the program nor its children nor the watchdog.
func TestParentDeathEndsGroup(t *testing.T) {
	t.Parallel()
	parent := exec.Command(os.Args[0])
	parent.Env = append(os.Environ(), roleVariable+"="+roleParent)
	parent.Stderr = os.Stderr
	output, err := parent.StdoutPipe()
	if err == nil {
		err = parent.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = parent.Process.Kill() })
	var ids []process.ID
	scanner := bufio.NewScanner(output)
	for len(ids) < 3 && scanner.Scan() {
		ids = append(ids, identify(t, scanner.Text()))
	}
	if len(ids) < 3 {
		t.Fatal("the parent has ended")
	}
	var watchdogs []process.ID
	pollUntil(t, "the parent has two children: the program and its watchdog", func() bool {
		watchdogs = children(t, parent.Process.Pid)
		return len(watchdogs) >= 2
	})
	if err := parent.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = parent.Wait()
	awaitEnd(t, append(ids, watchdogs...)...)
}

// runParent starts an operator, prints its pids and waits for its end.
func runParent() {
	_, err := operatorproc.Start(operatorproc.Command{
		Args: []string{"sh", "-c", `echo $$; sleep 600 & echo $!; sh -c 'echo $$; sleep 600' & wait`},
	}, func(line operatorproc.Line) { fmt.Println(line.Text) })
	if err != nil {
		panic(err)
	}
	select {}
}

// children returns the processes with parent pid.
func children(t *testing.T, pid int) []process.ID {
	t.Helper()
	out, err := exec.Command("ps", "-A", "-o", "pid=,ppid=").Output()
	if err != nil {
		t.Fatal(err)
	}
	var ids []process.ID
	for line := range strings.Lines(string(out)) {
		if fields := strings.Fields(line); len(fields) == 2 && fields[1] == strconv.Itoa(pid) {
			ids = append(ids, identify(t, fields[0]))
		}
	}
	return ids
}

// Each name of a port stands for one port, in arguments and in variables.
func TestPorts(t *testing.T) {
	t.Parallel()
	lines := make(chan string, 1)
	i, err := operatorproc.Start(operatorproc.Command{
		Args: []string{"sh", "-c", `echo "$@" $METRICS`, "sh", "--port={port}", "{port:probe}", "{port}"},
		Env:  []string{"METRICS=:{port:probe}"},
	}, func(line operatorproc.Line) { lines <- line.Text })
	if err != nil {
		t.Fatal(err)
	}
	<-i.Done()
	fields := strings.Fields(<-lines)
	if len(fields) != 4 || fields[0] != "--port="+fields[2] || fields[3] != ":"+fields[1] || fields[1] == fields[2] {
		t.Fatalf("arguments and variable %q", fields)
	}
	for _, port := range fields[1:3] {
		if number, err := strconv.Atoi(port); err != nil || number == 0 {
			t.Errorf("port %q", port)
		}
	}
}

func TestStartErrors(t *testing.T) {
	t.Parallel()
	plain := filepath.Join(t.TempDir(), "operator.py")
	if err := os.WriteFile(plain, []byte("print('hello')"), 0o600); err != nil {
		t.Fatal(err)
	}
	tests := map[string]struct {
		reason string
		cmd    operatorproc.Command
		want   string
	}{
		"NoCommand": {
			"the command is missing",
			operatorproc.Command{},
			"starting the operator: there is no command: give the program and its arguments",
		},
		"Unknown": {
			"a typing error",
			operatorproc.Command{Args: []string{"no-such-operator"}},
			`starting the operator: exec: "no-such-operator": executable file not found in $PATH: install it, or give its path`,
		},
		"NotExecutable": {
			"a script without its interpreter",
			operatorproc.Command{Args: []string{plain}},
			"starting the operator: fork/exec " + plain + ": permission denied: make " + plain +
				" executable, or put its interpreter in front of it",
		},
		"NoFolder": {
			"a wrong folder",
			operatorproc.Command{Args: []string{"true"}, Dir: "/no/such/folder"},
			"starting the operator: there is no folder /no/such/folder to run it in: create it or give another one",
		},
	}
	for name, tt := range tests {
		_, err := operatorproc.Start(tt.cmd, nil)
		if err == nil || err.Error() != tt.want {
			t.Errorf("%s: %v, want %q, because of %s", name, err, tt.want, tt.reason)
		}
	}
}

func BenchmarkStartAndKill(b *testing.B) {
	for b.Loop() {
		i, err := operatorproc.Start(operatorproc.Command{Args: []string{"sleep", "600"}}, nil)
		if err == nil {
			err = i.Kill()
		}
		if err != nil {
			b.Fatal(err)
		}
	}
}

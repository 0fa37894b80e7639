package programs_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/homeostat-dev/homeostat/olm/internal/programs"
)

// A program that exits by itself reports the reason, and one that is stopped reports nothing.
func TestStart(t *testing.T) {
	t.Parallel()
	why := make(chan error, 1)
	script := []string{"-c", "echo one; echo it is broken; exit 3"}
	stop, err := programs.Start(t.TempDir(), "/bin/sh", script, func(err error) { why <- err })
	if err != nil {
		t.Fatal(err)
	}
	said := (<-why).Error()
	for _, want := range []string{"sh has ended by itself", "exit status 3", "it is broken"} {
		if !strings.Contains(said, want) {
			t.Errorf("%q, want %q", said, want)
		}
	}
	stop() // a second call is allowed

	stop, err = programs.Start(t.TempDir(), "/bin/sleep", []string{"600"}, func(err error) { t.Error(err) })
	if err != nil {
		t.Fatal(err)
	}
	stop()
}

// A program is started again a few times if its address is in use.
func TestLaunch(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		taken  int
		starts int
		want   string
	}{
		"free":         {0, 1, "it is broken"},
		"taken once":   {1, 2, "it is broken"},
		"always taken": {9, 4, "bind: address already in use"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := programs.NewGroup(t.TempDir())
			t.Cleanup(g.Stop)
			starts := 0
			err := g.Launch("/bin/sh", func() ([]string, error) {
				starts++
				if starts <= c.taken {
					return []string{"-c", "echo listen tcp 127.0.0.1:1: bind: address already in use; exit 1"}, nil
				}
				return []string{"-c", "echo it is broken; exit 1"}, nil
			})
			if err != nil {
				t.Fatal(err)
			}
			<-g.Done()
			if err := g.Err(); starts != c.starts || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%d starts, %v; want %d, %q", starts, err, c.starts, c.want)
			}
		})
	}

	g := programs.NewGroup(t.TempDir())
	err := g.Launch("/bin/true", func() ([]string, error) { return nil, errors.New("there is no port") })
	if err == nil || err.Error() != "there is no port" {
		t.Error(err)
	}
}

// Stop ends all programs, including programs that are being started, and the group has not failed.
func TestStop(t *testing.T) {
	t.Parallel()
	g := programs.NewGroup(t.TempDir())
	var said []string
	sleep := func() ([]string, error) { return []string{"600"}, nil }
	g.AtStop(func() { said = append(said, "first") })
	if err := g.Launch("/bin/sleep", sleep); err != nil {
		t.Fatal(err)
	}
	g.AtStop(func() { said = append(said, "last") })
	g.Stop()
	g.Stop()
	if err := g.Launch("/bin/sleep", sleep); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(said, " "); got != "last first" || g.Err() != nil {
		t.Errorf("%s, %v", got, g.Err())
	}
}

// A test fails as soon as a program has exited. If the test has failed, its cleanup logs the output of the programs.
func TestWatch(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		script string
		fails  bool // by itself
		want   []string
		not    string
	}{
		"all is well":              {"exec sleep 600", false, nil, "hello"},
		"the test fails":           {"exec sleep 600", true, []string{"the end of old.log:\nhello"}, "has ended"},
		"the program fails":        {"exit 3", false, []string{"sh has ended by itself (exit status 3)", "sh.log", "hello"}, ""},
		"it has said a great deal": {"seq 1 99; exit 3", false, []string{"sh.log:\n80\n81"}, "79"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, "old.log"), []byte("hello\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			g := programs.NewGroup(dir)
			t.Cleanup(g.Stop)
			test := &recordingTest{failed: c.fails, now: make(chan struct{})}
			g.Watch(test)
			if err := g.Launch("/bin/sh", func() ([]string, error) { return []string{"-c", c.script}, nil }); err != nil {
				t.Fatal(err)
			}
			if strings.Contains(c.script, "exit") {
				<-test.now // while the test runs
			}
			test.end()
			said := test.said.String()
			for _, want := range c.want {
				if !strings.Contains(said, want) {
					t.Errorf("%q, want %q", said, want)
				}
			}
			if c.not != "" && strings.Contains(said, c.not) || c.want == nil && said != "" {
				t.Errorf("it says %q", said)
			}
		})
	}
}

// recordingTest is a Test that records its messages.
type recordingTest struct {
	said   strings.Builder
	failed bool
	now    chan struct{} // closed by the first error
	end    func()
}

func (*recordingTest) Helper() {}

func (t *recordingTest) Cleanup(do func()) { t.end = do }

func (t *recordingTest) Failed() bool { return t.failed }

func (t *recordingTest) Log(args ...any) { _, _ = fmt.Fprintln(&t.said, args...) }

func (t *recordingTest) Error(args ...any) {
	t.Log(args...)
	t.failed = true
	close(t.now)
}

package assets

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// The test binary has two other roles: a fast fake of the Go tool, and a separate process that calls Find.
const (
	fakeGoMode   = "FAKE_GO"     // behavior of the fake Go tool instead of building
	fakeGoLog    = "FAKE_GO_LOG" // file that gets a line for each call
	finderConfig = "FINDER"      // cache folder of a process that calls Find
)

func TestMain(m *testing.M) {
	switch {
	case filepath.Base(os.Args[0]) == "go":
		os.Exit(fakeGo(os.Args[1:]))
	case os.Getenv(finderConfig) != "":
		os.Exit(findInChild())
	default:
		os.Exit(m.Run())
	}
}

// call is the record of one call of the fake Go tool.
type call struct {
	Args []string `json:"args"`
	Env  []string `json:"env"`
	PID  int      `json:"pid"`
}

func fakeGo(args []string) int {
	if err := record(args); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 3
	}
	mode, detail, _ := strings.Cut(os.Getenv(fakeGoMode), ":")
	switch {
	case mode == "say": // fail with an error message
		fmt.Fprintln(os.Stderr, detail)
		return 1
	case args[0] == "list":
		fmt.Fprintln(os.Stderr, "go: downloading example.com/module v1.0.0")
		fmt.Println("example.com/dependency\nexample.com/main")
		return 0
	}
	out := args[slices.Index(args, "-o")+1]
	fmt.Fprintln(os.Stderr, "example.com/dependency")
	fmt.Fprintln(os.Stderr, "example.com/main")
	if mode == "hang" {
		_ = os.WriteFile(out, []byte("half a prog"), 0o600)
		_ = os.WriteFile(detail, nil, 0o600)
		time.Sleep(time.Hour) //nolint:forbidigo // the test kills it
	}
	// A program that runs, to distinguish it from a damaged one.
	if err := os.WriteFile(out, []byte("#!/bin/sh\necho \"$(basename \"$0\") runs\"\n"), 0o755); err != nil {
		return 4
	}
	return 0
}

func record(args []string) error {
	line, err := json.Marshal(call{Args: args, Env: os.Environ(), PID: os.Getpid()})
	if err != nil {
		return err
	}
	log, err := os.OpenFile(os.Getenv(fakeGoLog), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = log.Write(append(line, '\n'))
	return err
}

// useFakeGo puts the fake Go tool on the PATH and returns a function that lists its calls so far.
func useFakeGo(t *testing.T, mode string) (calls func(verb string) []call) {
	t.Helper()
	dir, log := t.TempDir(), filepath.Join(t.TempDir(), "calls")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(self, filepath.Join(dir, "go")); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH"))
	t.Setenv(fakeGoMode, mode)
	t.Setenv(fakeGoLog, log)
	t.Setenv("GORACE", "atexit_sleep_ms=0") // the race detector delays the end of every program by a second
	return func(verb string) []call {
		data, err := os.ReadFile(log)
		if err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		var all []call
		for line := range strings.Lines(string(data)) {
			var c call
			if err := json.Unmarshal([]byte(line), &c); err != nil {
				t.Fatal(err)
			}
			if c.Args[0] == verb {
				all = append(all, c)
			}
		}
		return all
	}
}

// findInChild is Find in a separate process.
func findInChild() int {
	set, err := Find(context.Background(), Options{
		CacheDir: os.Getenv(finderConfig), Sources: []Source{Cache, Build}, Progress: Print(os.Stderr),
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	fmt.Println(set.Dir)
	return 0
}

func childFinder(t *testing.T, cache string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self)
	cmd.Env = append(os.Environ(), finderConfig+"="+cache)
	return cmd
}

// reports collects the reports of Find.
type reports struct{ all []Progress }

func (n *reports) add(p Progress) { n.all = append(n.all, p) }

func (n *reports) String() string {
	var b strings.Builder
	for _, p := range n.all {
		fmt.Fprintln(&b, p)
	}
	return b.String()
}

// noEnv is an environment without variables.
func noEnv(string) string { return "" }

// findBuilt returns all programs from the cache or by a build.
func findBuilt(t *testing.T, cache string) (Set, string) {
	t.Helper()
	var n reports
	set, err := Find(t.Context(), Options{
		CacheDir: cache, Sources: []Source{Cache, Build}, Progress: n.add, Env: noEnv,
	})
	if err != nil {
		t.Fatal(err)
	}
	return set, n.String()
}

func output(t *testing.T, program string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), program).CombinedOutput()
	if err != nil {
		t.Fatalf("running %s: %v", program, err)
	}
	return strings.TrimSpace(string(out))
}

package manual_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/homeostat-dev/homeostat/olm/manual"
)

func TestCommands(t *testing.T) {
	t.Parallel()
	page := "# Title\n\n## One\n\n```console\n$ a --b\noutput\n$ c \\\n    d\n```\n\n```text\n$ no\n## Two\n```\n\n" +
		"```console\n$ e\n```\n\n## Two\n\n```console\n$ f\n```\n\n### Within\n\n```console\n$ g\n```\n\n## Three\n\nNothing.\n"
	file := filepath.Join(t.TempDir(), "page.md")
	if err := os.WriteFile(file, []byte(page), 0o600); err != nil {
		t.Fatal(err)
	}
	for section, c := range map[string]struct {
		want   []string
		refuse string
	}{
		"One":    {want: []string{"a --b", "c \\\n    d", "e"}},
		"Two":    {want: []string{"f"}},
		"Within": {want: []string{"g"}},
		"Three":  {refuse: "has no commands"},
		"Four":   {refuse: "has no section"},
	} {
		got, err := manual.Commands(file, section)
		if diff := cmp.Diff(c.want, got); diff != "" || (err == nil) != (c.refuse == "") {
			t.Errorf("%s: %v, -want +got:\n%s", section, err, diff)
		}
		if c.refuse != "" && (err == nil || !strings.Contains(err.Error(), c.refuse)) {
			t.Errorf("%s: %v, want %q", section, err, c.refuse)
		}
	}
}

// Variables that a command exports are set for the next commands.
func TestShellExports(t *testing.T) {
	t.Parallel()
	shell := &manual.Shell{Env: os.Environ()}
	for _, command := range []string{"export WHERE=here/   # or there", `test "$WHERE" = here/`} {
		if _, err := shell.Run(t.Context(), command); err != nil {
			t.Error(err)
		}
	}
	if _, err := shell.Run(t.Context(), "echo why; false | cat"); err == nil || !strings.Contains(err.Error(), "why") {
		t.Errorf("%v, want what it said", err)
	}
}

// A command that exceeds its time ends, together with all its child processes.
func TestShellTimeout(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "pid")
	ctx, cancel := context.WithCancel(t.Context())
	canceled := make(chan time.Time, 1)
	go func() {
		defer cancel()
		for read(file) == 0 && t.Context().Err() == nil {
			<-time.After(10 * time.Millisecond)
		}
		canceled <- time.Now()
	}()
	_, err := (&manual.Shell{Env: os.Environ()}).Run(ctx, "bash -c 'sleep 600 & echo $! >"+file+"; wait'")
	if took := time.Since(<-canceled); !errors.Is(err, context.Canceled) || took > 4*time.Second {
		t.Errorf("%v after %v", err, took)
	}
	for range 500 { // its new parent process has to reap it first
		if err := syscall.Kill(read(file), 0); errors.Is(err, syscall.ESRCH) {
			return
		}
		<-time.After(10 * time.Millisecond)
	}
	t.Errorf("process %d runs on", read(file))
}

// read returns the number in a file, or 0.
func read(file string) int {
	data, _ := os.ReadFile(file)
	pid, _ := strconv.Atoi(strings.TrimSpace(string(data)))
	return pid
}

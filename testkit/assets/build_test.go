package assets

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

func formatInt(n int64) string { return strconv.FormatInt(n, 10) }

func TestBuildFails(t *testing.T) {
	tests := map[string]struct {
		reason string
		output string
		want   string
	}{
		"proxy out of reach": {
			reason: "as in a sandbox without a proxy",
			output: `main.go:14:2: k8s.io/kubectl@v0.37.0: Get "https://proxy.example/k8s.io/kubectl/@v/v0.37.0.mod": ` +
				`dial tcp: lookup proxy.example: no such host`,
			want: "modules cannot be downloaded; set GOPROXY to a Go module proxy that answers (go list: main.go:14",
		},
		"proxy off": {
			reason: "as with GOPROXY=off and an empty module cache",
			output: "main.go:14:2: module lookup disabled by GOPROXY=off",
			want:   "modules cannot be downloaded",
		},
		"proxy lacks a module": {
			reason: "as with a company's proxy that allows some modules only",
			output: "go: k8s.io/kubectl@v0.37.0: reading https://proxy.example/k8s.io/kubectl.zip: 403 Forbidden",
			want:   "modules cannot be downloaded",
		},
		"disk full": {
			reason: "the Go tool writes to other disks than we do",
			output: "go: writing stat cache: write /cache/x: no space left on device",
			want:   "the disk is full; a build needs about 4 GB",
		},
		"old Go": {
			reason: "the toolchain cannot be fetched either",
			output: "go: go.mod requires go >= 1.26.0 (running go 1.24.1; GOTOOLCHAIN=local)",
			want:   "install Go 1.26",
		},
		"forged module": {
			reason: "this is not a network failure",
			output: "verifying k8s.io/kubectl@v0.37.0: checksum mismatch",
			want:   "cannot be trusted",
		},
		"anything else": {
			reason: "the output of the Go tool is the best explanation",
			output: "internal compiler error: oops",
			want:   "its last words:\n  internal compiler error: oops",
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			useFakeGo(t, "say:"+tc.output)
			cache := t.TempDir()
			_, err := Find(t.Context(), Options{CacheDir: cache, Sources: []Source{Build}})
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%s: error is %v, want one with %q", tc.reason, err, tc.want)
			}
			expectNothingBut(t, cache, "lock")
		})
	}
}

// expectNothingBut fails if a folder contains other entries.
func expectNothingBut(t *testing.T, dir string, names ...string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	check(t, err)
	for _, entry := range entries {
		if !slices.Contains(names, entry.Name()) {
			t.Errorf("%s is left behind", entry.Name())
		}
	}
}

func TestNoGo(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	_, err := Find(t.Context(), Options{CacheDir: t.TempDir(), Sources: []Source{Cache, Build}})
	want := "there is no Go toolchain on the PATH; install Go 1.26, or name a folder with etcd"
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("error is %v, want one with %q", err, want)
	}
}

func TestFileSystemErrors(t *testing.T) {
	tests := map[string]struct {
		reason string
		err    error
		want   string
	}{
		"full":      {reason: "the error names the needed space", err: syscall.ENOSPC, want: "/cache is full"},
		"quota":     {reason: "the same for a user", err: syscall.EDQUOT, want: "/cache is full"},
		"read-only": {reason: "the error explains how to choose another folder", err: syscall.EROFS, want: "set XDG_CACHE_HOME"},
		"forbidden": {reason: "the error explains how to choose another folder", err: syscall.EACCES, want: "set XDG_CACHE_HOME"},
	}
	for name, tc := range tests {
		err := withAdvice(&os.PathError{Op: "write", Path: "/cache/x", Err: tc.err}, "/cache")
		if !errors.Is(err, tc.err) || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %s: error is %v, want one with %q", name, tc.reason, err, tc.want)
		}
	}
	file := filepath.Join(t.TempDir(), "file")
	check(t, os.WriteFile(file, nil, 0o600))
	_, err := Find(t.Context(), Options{CacheDir: filepath.Join(file, "cache"), Sources: []Source{Build}})
	if err == nil {
		t.Error("a cache inside a file was accepted")
	}
}

// The caller's environment must not affect the build, except for the source of modules.
func TestBuildEnvironment(t *testing.T) {
	calls := useFakeGo(t, "")
	for name, value := range map[string]string{
		"GOFLAGS": "-mod=vendor -tags=x", "GOWORK": "/elsewhere/go.work", "GOOS": "plan9", "GOARCH": "386",
		"GOTOOLCHAIN": "go1.19", "GO111MODULE": "off", "CGO_ENABLED": "1", "GOPROXY": "https://proxy.example",
	} {
		t.Setenv(name, value)
	}
	findBuilt(t, t.TempDir())
	want := map[string]string{
		"GOFLAGS": "-mod=readonly", "GOWORK": "off", "GOOS": runtime.GOOS, "GOARCH": runtime.GOARCH,
		"GOTOOLCHAIN": "auto", "GO111MODULE": "on", "CGO_ENABLED": "0", "GOPROXY": "https://proxy.example",
	}
	for _, c := range append(calls("list"), calls("build")...) {
		for name, value := range want {
			if !slices.Contains(c.Env, name+"="+value) {
				t.Errorf("go %s runs without %s=%s", c.Args[0], name, value)
			}
		}
	}
	build := strings.Join(calls("build")[0].Args, " ")
	for _, flag := range []string{"-buildvcs=false", "version.gitVersion=" + KubernetesVersion} {
		if !strings.Contains(build, flag) {
			t.Errorf("go %s lacks %s", build, flag)
		}
	}
}

func TestConcurrentFindsBuildOnce(t *testing.T) {
	calls := useFakeGo(t, "")
	cache := t.TempDir()
	const callers = 8
	var wg sync.WaitGroup
	sets := make([]string, 2*callers)
	for i := range callers {
		wg.Go(func() {
			out, err := childFinder(t, cache).Output()
			if err != nil {
				t.Error(err)
			}
			sets[i] = strings.TrimSpace(string(out))
		})
		wg.Go(func() {
			set, err := Find(t.Context(), Options{CacheDir: cache, Sources: []Source{Cache, Build}, Env: noEnv})
			if err != nil {
				t.Error(err)
			}
			sets[callers+i] = set.Dir
		})
	}
	wg.Wait()
	if n := len(calls("build")); n != 1 {
		t.Errorf("%d builds, want 1", n)
	}
	if slices.Sort(sets); sets[0] == "" || sets[0] != sets[len(sets)-1] {
		t.Errorf("callers found different sets: %v", sets)
	}
}

// hangingBuild starts a process whose build hangs with half a program written, and returns the build's pid.
func hangingBuild(t *testing.T, cache string) (finder *exec.Cmd, goPID int) {
	t.Helper()
	begun := filepath.Join(t.TempDir(), "begun")
	calls := useFakeGo(t, "hang:"+begun)
	finder = childFinder(t, cache)
	check(t, finder.Start())
	t.Cleanup(func() { _ = finder.Process.Kill(); _ = finder.Wait() })
	until(t, "the build hangs", func() bool { _, err := os.Stat(begun); return err == nil })
	return finder, calls("build")[0].PID
}

func until(t *testing.T, what string, done func() bool) {
	t.Helper()
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	deadline := time.After(20 * time.Second)
	for !done() {
		select {
		case <-ticker.C:
		case <-deadline:
			t.Fatalf("waiting until %s: it does not happen", what)
		}
	}
}

// gone reports whether a process has ended, including a zombie.
func gone(pid int) bool {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err != nil || strings.Contains(string(status), ") Z ")
}

// After the death of a process, the kernel has to end its build, and the next build has to clean up.
func TestKilledBuild(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux ends the children of a process that was killed")
	}
	cache := t.TempDir()
	finder, pid := hangingBuild(t, cache)
	check(t, finder.Process.Kill())
	_ = finder.Wait()
	until(t, "the build is gone", func() bool { return gone(pid) })
	if built, _ := filepath.Glob(filepath.Join(cache, "built-*")); len(built) > 0 {
		t.Errorf("half a program is in the cache: %v", built)
	}
	calls := useFakeGo(t, "")
	set, _ := findBuilt(t, cache)
	if got := output(t, set.Path(Etcd)); got != "etcd runs" || len(calls("build")) != 1 {
		t.Errorf("after a new build etcd prints %q", got)
	}
	expectNothingBut(t, cache, "lock", filepath.Base(set.Dir))
}

func TestCanceledBuild(t *testing.T) {
	begun := filepath.Join(t.TempDir(), "begun")
	calls := useFakeGo(t, "hang:"+begun)
	cache := t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	result := make(chan error)
	go func() {
		_, err := Find(ctx, Options{CacheDir: cache, Sources: []Source{Build}})
		result <- err
	}()
	until(t, "the build hangs", func() bool { _, err := os.Stat(begun); return err == nil })
	cancel()
	if err := <-result; !errors.Is(err, context.Canceled) {
		t.Errorf("error is %v, want that it was canceled", err)
	}
	if pid := calls("build")[0].PID; !gone(pid) {
		t.Errorf("the build goes on as process %d", pid)
	}
	expectNothingBut(t, cache, "lock")
}

func TestWaitingIsReportedAndCancelable(t *testing.T) {
	cache := t.TempDir()
	hangingBuild(t, cache)
	ctx, cancel := context.WithCancel(t.Context())
	var n reports
	_, err := Find(ctx, Options{CacheDir: cache, Sources: []Source{Cache, Build}, Progress: func(p Progress) {
		n.add(p)
		if strings.HasPrefix(p.Phase, "waiting for another process") {
			cancel()
		}
	}})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("error is %v, want that it was canceled; reports:\n%s", err, &n)
	}
}

package assets

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
)

func TestBuildIsCached(t *testing.T) {
	calls := useFakeGo(t, "")
	cache := t.TempDir()
	first, reports := findBuilt(t, cache)
	for _, program := range programs {
		if got := output(t, first.Path(program)); got != program+" runs" {
			t.Errorf("%s prints %q, want its own name", program, got)
		}
	}
	for _, want := range []string{
		"8 to 10 minutes", "downloading modules", "compiling packages", "linking", "plane is in " + first.Dir,
	} {
		if !strings.Contains(reports, want) {
			t.Errorf("no report contains %q:\n%s", want, reports)
		}
	}
	second, reports := findBuilt(t, cache)
	if second != first || reports != "" {
		t.Errorf("the second time: got %v and reports %q, want %v and none", second, reports, first)
	}
	if n := len(calls("build")); n != 1 {
		t.Errorf("%d builds, want 1", n)
	}
	entries, err := os.ReadDir(cache)
	if err != nil {
		t.Fatal(err)
	}
	if len(entries) != 2 { // and the lock
		t.Errorf("the cache holds %v, want the build and the lock", entries)
	}
}

func TestCacheHitIsFast(t *testing.T) {
	useFakeGo(t, "")
	cache := t.TempDir()
	findBuilt(t, cache)
	best := time.Hour
	for range 20 { // the best of several: other processes use the machine, too
		start := time.Now()
		findBuilt(t, cache)
		best = min(best, time.Since(start))
	}
	if best > 10*time.Millisecond {
		t.Errorf("attaching takes %v, want at most 10ms", best)
	}
}

// another is a program of the same size as the one of the fake Go tool.
func another(tb testing.TB, file string) {
	tb.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		tb.Fatal(err)
	}
	data = []byte(strings.Replace(string(data), "runs", "lies", 1))
	info, err := os.Stat(file)
	if err != nil {
		tb.Fatal(err)
	}
	check(tb, os.WriteFile(file, data, 0o755))
	check(tb, os.Chtimes(file, time.Time{}, info.ModTime()))
}

func check(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

func TestDamagedCacheIsRebuilt(t *testing.T) {
	tests := map[string]struct {
		reason string
		damage func(tb testing.TB, dir string)
		want   string // in the reports; empty means no damage
	}{
		"truncated": {
			reason: "as after a crash of the machine", want: "controlplane has changed",
			damage: func(tb testing.TB, dir string) {
				tb.Helper()
				check(tb, os.Truncate(filepath.Join(dir, controlPlane.binary), 5))
			},
		},
		"edited": {
			reason: "a change is detected even if size and time are equal", want: "controlplane has changed",
			damage: func(tb testing.TB, dir string) {
				tb.Helper()
				if runtime.GOOS != "linux" {
					tb.Skip("only Linux knows when an inode changed")
				}
				another(tb, filepath.Join(dir, controlPlane.binary))
			},
		},
		"gone": {
			reason: "as after a user freed disk space", want: "is missing",
			damage: func(tb testing.TB, dir string) {
				tb.Helper()
				check(tb, os.Remove(filepath.Join(dir, controlPlane.binary)))
			},
		},
		"link gone": {
			reason: "every program is needed", want: "etcd is missing",
			damage: func(tb testing.TB, dir string) {
				tb.Helper()
				check(tb, os.Remove(filepath.Join(dir, Etcd)))
			},
		},
		"link to elsewhere": {
			reason: "a program of that name may be another program", want: "etcd is not the program it was",
			damage: func(tb testing.TB, dir string) {
				tb.Helper()
				check(tb, os.Remove(filepath.Join(dir, Etcd)))
				check(tb, os.WriteFile(filepath.Join(dir, Etcd), []byte("#!/bin/sh\n"), 0o755))
			},
		},
		"not executable": {
			reason: "as after a copy to a strange file system", want: "is not the program it was",
			damage: func(tb testing.TB, dir string) {
				tb.Helper()
				check(tb, os.Chmod(filepath.Join(dir, controlPlane.binary), 0o600))
			},
		},
		"manifest": {
			reason: "an unverifiable cache is not used", want: "its manifest is not JSON",
			damage: func(tb testing.TB, dir string) {
				tb.Helper()
				check(tb, os.WriteFile(filepath.Join(dir, manifestFile), []byte("{"), 0o600))
			},
		},
		"no manifest": {
			reason: "an unverifiable cache is not used", want: "building the control plane",
			damage: func(tb testing.TB, dir string) {
				tb.Helper()
				check(tb, os.Remove(filepath.Join(dir, manifestFile)))
			},
		},
		"touched": {
			reason: "the same content is the same program",
			damage: func(tb testing.TB, dir string) {
				tb.Helper()
				check(tb, os.Chtimes(filepath.Join(dir, controlPlane.binary), time.Time{}, time.Now().Add(-time.Hour)))
			},
		},
		"restored": {
			reason: "a copy is as good, as when a CI job restores its cache",
			damage: func(tb testing.TB, dir string) {
				tb.Helper()
				copied := dir + "-copy"
				check(tb, os.CopyFS(copied, os.DirFS(dir)))
				check(tb, os.RemoveAll(dir))
				check(tb, os.Rename(copied, dir))
			},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			calls := useFakeGo(t, "")
			cache := t.TempDir()
			set, _ := findBuilt(t, cache)
			tc.damage(t, set.Dir)
			again, reports := findBuilt(t, cache)
			if got := output(t, again.Path(Etcd)); got != "etcd runs" {
				t.Errorf("%s: etcd prints %q", tc.reason, got)
			}
			wantBuilds := 1
			if tc.want != "" {
				wantBuilds = 2
			}
			if n := len(calls("build")); n != wantBuilds || !strings.Contains(reports, tc.want) {
				t.Errorf("%s: %d builds, want %d and a report of %q:\n%s", tc.reason, n, wantBuilds, tc.want, reports)
			}
			if _, reports := findBuilt(t, cache); reports != "" {
				t.Errorf("%s: it is not repaired permanently: %s", tc.reason, reports)
			}
		})
	}
}

// A stamp with a new time is recorded. Otherwise every start would hash 150 MB.
func TestStampIsRenewed(t *testing.T) {
	useFakeGo(t, "")
	set, _ := findBuilt(t, t.TempDir())
	check(t, os.Chtimes(set.Path(controlPlane.binary), time.Time{}, time.Now().Add(-time.Hour)))
	findBuilt(t, filepath.Dir(set.Dir))
	data, err := os.ReadFile(filepath.Join(set.Dir, manifestFile))
	check(t, err)
	now, err := stampOf(set.Path(controlPlane.binary))
	check(t, err)
	if want := formatInt(now.Modified); !strings.Contains(string(data), want) {
		t.Errorf("the manifest lacks the new time %s: %s", want, data)
	}
}

func TestReadOnlyCache(t *testing.T) {
	useFakeGo(t, "")
	set, _ := findBuilt(t, t.TempDir())
	check(t, os.Chtimes(set.Path(controlPlane.binary), time.Time{}, time.Now().Add(-time.Hour)))
	check(t, os.Chmod(set.Dir, 0o500))
	t.Cleanup(func() { _ = os.Chmod(set.Dir, 0o700) })
	if again, reports := findBuilt(t, filepath.Dir(set.Dir)); again != set || reports != "" {
		t.Errorf("got %v with reports %q, want the existing set", again, reports)
	}
}

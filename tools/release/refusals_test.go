package main

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A release that is not possible is rejected with a message before anything is built, and no file is left.
func TestRehearsalErrors(t *testing.T) {
	t.Parallel()
	const base = "operators/configrollout/config/manifests/bases/configrollout-operator.clusterserviceversion.yaml"
	for name, tc := range map[string]struct {
		change func(f *fixture)
		args   []string
		want   string
	}{
		"no version":   {nil, []string{"-version", ""}, "there is no version: say which, as VERSION=1.2.3"},
		"a wrong one":  {nil, []string{"-version", "v0.2.0"}, `"v0.2.0" is no version: write it as 1.2.3`},
		"not greater":  {func(f *fixture) { f.git("tag", "sdk/v0.2.0") }, nil, "which the tag sdk/v0.2.0 has released"},
		"a dirty tree": {func(f *fixture) { f.write("new", "") }, nil, "the tree is dirty, and what is not committed"},
		"no changelog": {
			func(f *fixture) { f.write("CHANGELOG.md", "# Empty\n"); f.commit() }, nil, "says nothing of version 0.2.0",
		},
		"another bundle": {nil, []string{"-version", "0.3.0"}, "CHANGELOG.md says nothing of version 0.3.0"},
		"another base": {
			func(f *fixture) {
				text := f.read(filepath.Join(f.root, base))
				f.write(base, strings.ReplaceAll(text, "0.2.0", "0.1.9"))
				f.commit()
			}, nil, "configrollout-operator.v0.1.9 with spec.version 0.1.9, and version 0.2.0 is released: change both there",
		},
		"a circle": {
			func(f *fixture) {
				f.write("sdk/go.mod", f.read(filepath.Join(f.root, "sdk/go.mod"))+
					"\nrequire github.com/homeostat-dev/homeostat/operators/configrollout v0.0.0\n")
				f.commit()
			}, nil, "the modules operators/configrollout, sdk require each other in a circle",
		},
		"a module that stays": {
			nil,
			[]string{"-modules", "operators/configrollout"},
			"requires github.com/homeostat-dev/homeostat/sdk, which is not released",
		},
		"no slash": {nil, []string{"-to", "registry/team"}, `write "registry/team/"`},
	} {
		f := newFixture(t)
		if tc.change != nil {
			tc.change(f)
		}
		f.checkRejected(name, tc.want, tc.args...)
	}
}

// checkRejected expects a rehearsal to fail with a message that contains want, and to leave no file.
func (f *fixture) checkRejected(name, want string, args ...string) {
	f.t.Helper()
	parent := f.t.TempDir()
	_, err := f.rehearse(filepath.Join(parent, "out"), args...)
	checkError(f.t, name, err, want)
	if left, err := os.ReadDir(parent); err != nil || len(left) > 0 {
		f.t.Errorf("%s: it leaves %v, %v", name, left, err)
	}
}

// A folder that is not the output of a rehearsal is not replaced.
func TestForeignFolder(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	file := filepath.Join(folder, "precious")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	_, err := newFixture(t).rehearse(folder)
	checkError(t, "a folder of others", err, "has files that are of no release: name another folder")
	if _, err := os.Stat(file); err != nil {
		t.Error(err)
	}
}

func TestUsage(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{
		nil,
		{"do"},
		{"rehearse"},
		{"page"},
		{"page", "-o", "x", "-to", "y/"},
		{"publish", "-to", "x/"},
		{"rehearse", "-o", "x", "more"},
		{"publish", "-x"},
	} {
		checkError(t, strings.Join(args, " "), run(t.Context(), args, io.Discard), "usage: release rehearse")
	}
	checkError(t, "nowhere", run(t.Context(), []string{"publish", "-o", t.TempDir()}, io.Discard),
		"it is not said where to: PUSH=")
	err := run(t.Context(), []string{"publish", "-o", t.TempDir(), "-to", "registry/"}, io.Discard)
	checkError(t, "nothing rehearsed", err, "run make release-dry-run first")
	if !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the cause is lost: %v", err)
	}
}

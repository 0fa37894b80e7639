package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// fixture is a folder with one input and a command that counts its runs.
type fixture struct {
	t      *testing.T
	dir    string
	output bytes.Buffer
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	f := &fixture{t: t, dir: t.TempDir()}
	f.write("in/a.txt", "a")
	f.write("other/a.go", "a")
	f.write("doc.md", "a")
	return f
}

func (f *fixture) write(name, data string) {
	f.t.Helper()
	file := filepath.Join(f.dir, name)
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		f.t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(data), 0o600); err != nil {
		f.t.Fatal(err)
	}
}

// once runs a shell script under the command and returns the exit code.
func (f *fixture) once(script string) int {
	f.t.Helper()
	code, err := run([]string{
		"-name", "x", "-stamps", filepath.Join(f.dir, "stamps"),
		"-tests", filepath.Join(f.dir, "in"), filepath.Join(f.dir, "other"), filepath.Join(f.dir,
			"doc.md"), "--", "sh", "-c", "cd " + f.dir + "; " + script,
	}, &f.output, &f.output)
	if err != nil {
		f.t.Fatal(err)
	}
	return code
}

func (f *fixture) runs() int {
	data, _ := os.ReadFile(filepath.Join(f.dir, "runs")) // there is none before the first run
	return len(data)
}

// git runs git with an identity of its own.
func (f *fixture) git(args ...string) {
	f.t.Helper()
	args = append([]string{"-C", f.dir, "-c", "user.name=test", "-c", "user.email=test@localhost"}, args...)
	if out, err := exec.Command("git", args...).CombinedOutput(); err != nil {
		f.t.Fatalf("git %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

const count = "printf . >>runs; "

func TestRunsAgainOnlyAfterAChange(t *testing.T) {
	t.Parallel()
	changes := map[string]struct {
		change func(f *fixture)
		runs   int
	}{
		"None":         {func(*fixture) {}, 1},
		"Content":      {func(f *fixture) { f.write("in/a.txt", "b") }, 2},
		"NewFile":      {func(f *fixture) { f.write("in/sub/b.txt", "b") }, 2},
		"BuiltFile":    {func(f *fixture) { f.write("in/build/b.txt", "b") }, 1},
		"OtherFolder":  {func(f *fixture) { f.write("out/b.txt", "b") }, 1},
		"OwnTest":      {func(f *fixture) { f.write("in/a_test.go", "b") }, 2},
		"OtherSource":  {func(f *fixture) { f.write("other/a.go", "b") }, 2},
		"OtherTest":    {func(f *fixture) { f.write("other/a_test.go", "b") }, 1},
		"OtherText":    {func(f *fixture) { f.write("other/README.md", "b") }, 1},
		"OtherFixture": {func(f *fixture) { f.write("other/testdata/a.yaml", "b") }, 1},
		"NamedText":    {func(f *fixture) { f.write("doc.md", "b") }, 2},
		"StampDeleted": {func(f *fixture) { _ = os.Remove(filepath.Join(f.dir, "stamps", "x")) }, 2},
		"Renamed": {func(f *fixture) {
			_ = os.Rename(filepath.Join(f.dir, "in/a.txt"), filepath.Join(f.dir, "in/b.txt"))
		}, 2},
	}
	for name, c := range changes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			f.once(count)
			c.change(f)
			f.once(count)
			if f.runs() != c.runs {
				t.Errorf("ran %d times, want %d\n%s", f.runs(), c.runs, &f.output)
			}
		})
	}
}

func TestFailureIsNotKept(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for range 2 {
		if code := f.once(count + "exit 7"); code != 7 {
			t.Errorf("exit code %d, want that of the command", code)
		}
	}
	if f.runs() != 2 {
		t.Errorf("ran %d times, want 2", f.runs())
	}
}

// A success, a failure and the files of the success again: the failure may have had another cause than the files.
func TestFailureForgetsTheSuccess(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.once(count)
	f.write("in/a.txt", "b")
	f.once(count + "exit 1")
	f.write("in/a.txt", "a")
	f.once(count)
	if f.runs() != 3 {
		t.Errorf("ran %d times, want 3", f.runs())
	}
}

func TestChangeDuringTheRun(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.once(count + "echo b >in/a.txt")
	f.once(count)
	if f.runs() != 2 {
		t.Errorf("ran %d times, want 2: the files of the first run are gone", f.runs())
	}
}

// The files of a branch that CI has tested are not tested again.
func TestTestedBranch(t *testing.T) {
	for name, c := range map[string]struct {
		change func(f *fixture)
		runs   int
	}{
		"Clone":        {func(*fixture) {}, 0},
		"Committed":    {func(f *fixture) { f.write("in/a.txt", "b"); f.git("commit", "--quiet", "--all", "--message", "b") }, 1},
		"NotCommitted": {func(f *fixture) { f.write("in/a.txt", "b") }, 1},
		"NewFile":      {func(f *fixture) { f.write("in/sub/new file_test.go", "b") }, 1},
		"OtherFolder":  {func(f *fixture) { f.write("out/b.txt", "b") }, 0},
		"OtherTest":    {func(f *fixture) { f.write("other/a_test.go", "b") }, 0},
		"NamedText":    {func(f *fixture) { f.write("doc.md", "b") }, 1},
		"NoBranch":     {func(f *fixture) { f.git("branch", "--quiet", "--delete", "tested") }, 1},
		"OldBranch": {func(f *fixture) {
			f.git("commit", "--quiet", "--allow-empty", "--message", "b")
			f.git("branch", "--force", "tested")
			f.git("reset", "--quiet", "--hard", "HEAD^")
		}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			t.Chdir(f.dir)
			f.git("init", "--quiet", "--initial-branch", "main")
			f.git("add", ".")
			f.git("commit", "--quiet", "--message", "a")
			f.git("branch", "tested")
			c.change(f)
			args := strings.Fields("-name x -stamps stamps -tests in -tested tested other doc.md -- sh -c")
			args = append(args, count)
			if code, err := run(args, &f.output, &f.output); code != 0 || err != nil {
				t.Fatalf("exit code %d, %v", code, err)
			}
			if f.runs() != c.runs {
				t.Errorf("ran %d times, want %d\n%s", f.runs(), c.runs, &f.output)
			}
		})
	}
}

func TestUsage(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, args := range [][]string{
		nil,
		{"-name", "x", "-stamps", dir, "-tests", dir},
		{"-name", "x", "-stamps", dir, dir, "--", "true"},
		{"-stamps", dir, "-tests", dir, "--", "true"},
		{"-name", "x", "-stamps", dir, "-tests", filepath.Join(dir, "missing"), "--", "true"},
		{"-name", "x", "-stamps", dir, "-tests", dir, filepath.Join(dir, "missing"), "--", "true"},
		{"-name", "x", "-stamps", dir, "-tests", dir, "--", filepath.Join(dir, "missing")},
	} {
		var output bytes.Buffer
		if code, err := run(args, &output, &output); code != exitUsage || err == nil {
			t.Errorf("%s: exit code %d, %v", strings.Join(args, " "), code, err)
		}
	}
}

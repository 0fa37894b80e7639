package tempfolder

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

// makerRoot is set for a process that makes a folder in the named one, and then waits.
const makerRoot = "TESTKIT_TEMPFOLDER_ROOT"

func TestMain(m *testing.M) {
	if root := os.Getenv(makerRoot); root != "" {
		dir, err := makeIn(root)
		fmt.Println(dir, err)
		_, _ = bufio.NewReader(os.Stdin).ReadString('\n')
		return
	}
	os.Exit(m.Run())
}

// startMaker starts another process that makes a folder, and returns the folder.
func startMaker(t *testing.T, root string) (*exec.Cmd, string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), makerRoot+"="+root)
	_, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = cmd.Process.Kill(), cmd.Wait() })
	line, err := bufio.NewReader(out).ReadString('\n')
	dir, ok := strings.CutSuffix(line, " <nil>\n")
	if err != nil || !ok {
		t.Fatalf("another process made no folder: %q, %v", line, err)
	}
	return cmd, dir
}

// A folder whose process was killed is removed by the next Make. The folders of other processes, and those that have no
// lock, stay.
func TestAbandonedFolder(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	_, running := startMaker(t, root)
	killed, abandoned := startMaker(t, root)
	other := filepath.Join(root, prefix+"other")
	err := errors.Join(os.Mkdir(other, 0o700), os.WriteFile(filepath.Join(abandoned, "data"), nil, 0o600))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(abandoned); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(killed.Process.Kill(), ignoreExit(killed.Wait())); err != nil {
		t.Fatal(err)
	}
	own, err := makeIn(root)
	if err != nil {
		t.Fatal(err)
	}
	checkFolders(t, root, running, other, own)
	if _, err := makeIn(root); err != nil { // the own folder stays, too
		t.Fatal(err)
	}
	if err := Remove(own); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(own); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%s is left: %v", own, err)
	}
	if err := errors.Join(Remove(own), Remove(other)); err != nil {
		t.Errorf("removing it again, and another one: %v", err)
	}
}

// Folders that are made at once are not removed by one another.
func TestConcurrentMakers(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	var group sync.WaitGroup
	dirs := make([]string, 50)
	for i := range dirs {
		group.Go(func() {
			dir, err := makeIn(root)
			if err != nil {
				t.Error(err)
			}
			dirs[i] = dir
		})
	}
	group.Wait()
	checkFolders(t, root, dirs...)
}

func checkFolders(t *testing.T, root string, want ...string) {
	t.Helper()
	got, err := filepath.Glob(filepath.Join(root, "*"))
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("folders %v, want %v", got, want)
	}
}

// ignoreExit returns nil for a process that a signal has ended.
func ignoreExit(err error) error {
	if _, ok := errors.AsType[*exec.ExitError](err); ok {
		return nil
	}
	return err
}

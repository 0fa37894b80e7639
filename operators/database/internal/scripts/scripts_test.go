//go:build linux

package scripts_test

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/homeostat-dev/homeostat/operators/database/internal/scripts"
)

// Every engine has all scripts that the operator uses, and shellcheck reports nothing.
func TestOf(t *testing.T) {
	t.Parallel()
	for _, engine := range []string{"postgresql", "mariadb", "mysql"} {
		all, err := scripts.Of(engine)
		if err != nil {
			t.Fatal(err)
		}
		if again, _ := scripts.Of(engine); !maps.Equal(all, again) {
			t.Errorf("%s has other scripts the second time", engine)
		}
		for _, name := range []string{"init.sh", "run.sh", "probe.sh", "dump.sh", "restore.sh", "prune.sh"} {
			if all[name] == "" {
				t.Errorf("%s has no %s", engine, name)
			}
		}
		dir := t.TempDir()
		for name, text := range all {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		shellcheck, err := exec.LookPath("shellcheck")
		if err != nil {
			missing(t, "shellcheck is not installed: apt-get install shellcheck")
		}
		cmd := exec.CommandContext(t.Context(), shellcheck, append([]string{"-x"}, slices.Sorted(maps.Keys(all))...)...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", engine, err, out)
		}
	}
	if _, err := scripts.Of("oracle"); err == nil {
		t.Error("there are scripts of an engine that there is not")
	}
}

package scaffold

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Webhooks are added to projects with a kind of either scope. The projects compile, and controller-gen changes nothing. The
// tests of the webhooks and of the manifests pass. With -short these are those of one project, and try no faults.
func TestAddWebhook(t *testing.T) {
	t.Parallel()
	homeostat := filepath.Join(t.TempDir(), "homeostat")
	run(t, root, "go", "-C", "sdk/cmd/homeostat", "build", "-o", homeostat, ".")
	shop := newOutsideModule(t, "web-shop", "--group", "shop.example.com", "--kind", "WebShop")
	team := newOutsideModule(t, "team", "--group", "example.com", "--kind", "Team", "--scope", "Cluster")
	inWorkspace(t, shop, homeostat, "add", "webhook")
	inWorkspace(t, team, homeostat, "add", "webhook", "--kind", "Team", "--validating")
	for name, dir := range map[string]string{"web-shop": shop, "team": team} {
		requireGeneratedUnchanged(t, dir, name)
		checkCode(t, dir)
	}
	args := withShortFlag("./internal/webhooks", "./config")
	if testing.Short() {
		args = append([]string{"-skip", "TestFaults"}, args...)
	}
	inWorkspace(t, shop, "go", append([]string{"test", "-timeout", "30m"}, args...)...)
	if !testing.Short() {
		inWorkspace(t, team, "go", "test", "-timeout", "30m", "./internal/webhooks", "./config")
	}
	requireUnchangedBySecondRun(t, shop, homeostat)
}

func requireUnchangedBySecondRun(t *testing.T, dir, homeostat string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), homeostat, "add", "webhook")
	cmd.Dir = dir
	before := contents(t, dir)
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState.ExitCode() != 2 || !strings.Contains(string(out), "the project has webhooks already") {
		t.Errorf("the second run: %v\n%s", err, out)
	}
	if diff := cmp.Diff(before, contents(t, dir)); diff != "" {
		t.Errorf("the second run changes files, -before +after:\n%s", diff)
	}
}

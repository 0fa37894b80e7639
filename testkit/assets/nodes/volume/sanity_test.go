//go:build linux

package volume

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// The program of the Kubernetes project that checks drivers runs against both parts at once.
func TestSanity(t *testing.T) {
	t.Parallel()
	h := newHost(t, "node-1")
	tool := exec.CommandContext(t.Context(), "go", "-C", "../../../../tools/csisanity", "tool", "-n", "csi-sanity")
	tool.Env = append(os.Environ(), "GOWORK=off")
	program, err := tool.Output()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	cmd := exec.CommandContext(t.Context(), strings.TrimSpace(string(program)), "--ginkgo.no-color",
		"--csi.endpoint", h.parts["node-1"].socket, "--csi.controllerendpoint", h.parts[controller].socket,
		"--csi.mountdir", filepath.Join(dir, "mount"), "--csi.stagingdir", filepath.Join(dir, "staging"),
		"--csi.testvolumesize", "67108864", "--csi.testvolumeexpandsize", "134217728")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("csi-sanity: %v\n%s", err, out)
	} else if _, summary, ok := strings.Cut(string(out), "Ran "); ok {
		t.Log("csi-sanity ran", summary)
	}
}

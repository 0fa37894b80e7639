package testkit

import (
	"bytes"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/homeostat-dev/homeostat/testkit/assets"
)

// Exec runs a command in a container on a real node, as kubectl exec does, and returns its standard output. The error has
// the standard error; it is an [exec.ExitError] with the exit code of the command, if there is one. The command ends with
// the test. Exec is safe for concurrent use.
func (k *K) Exec(pod, container string, command ...string) (string, error) {
	set, err := assets.Find(k.Context(), assets.Options{Programs: []string{assets.Kubectl}})
	if err != nil {
		return "", err
	}
	args := []string{
		"exec", "--kubeconfig=" + filepath.Join(k.conn.dir, "kubeconfig"), "--namespace=" + k.Namespace, "--quiet", pod,
		"--container=" + container, "--",
	}
	cmd := exec.CommandContext(k.Context(), set.Path(assets.Kubectl), append(args, command...)...)
	var out, problem bytes.Buffer
	cmd.Stdout = &out
	cmd.Stderr = &problem
	if err := cmd.Run(); err != nil {
		return out.String(), fmt.Errorf("running %s in container %s of pod %s: %w: %s", command[0], container, pod, err,
			strings.TrimSpace(problem.String()))
	}
	return out.String(), nil
}

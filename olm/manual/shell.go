package manual

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

// A Shell runs commands as in an interactive shell. It is not safe for concurrent use.
type Shell struct {
	// Dir is the working directory.
	Dir string
	// Env is the environment, as KEY=VALUE. Run adds the variables that a command exports.
	Env []string
}

// Run runs a command with bash and returns its output. When the context ends, the child processes of the command end as
// well.
func (s *Shell) Run(ctx context.Context, command string) (string, error) {
	const grace = 5 * time.Second // for the output of processes that have left the group
	if variable, ok := strings.CutPrefix(command, "export "); ok {
		variable, _, _ = strings.Cut(variable, " ")
		s.Env = append(s.Env, variable)
		return "", nil
	}
	cmd := exec.CommandContext(ctx, "bash", "-o", "pipefail", "-c", command)
	cmd.Dir = s.Dir
	cmd.Env = s.Env
	cmd.WaitDelay = grace
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	out, err := cmd.CombinedOutput()
	if err != nil {
		err = fmt.Errorf("$ %s\n%s%w", command, out, errors.Join(err, ctx.Err()))
	}
	return string(out), err
}

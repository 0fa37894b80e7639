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

// A Shell runs commands as somebody would who types them. It is not for use by several goroutines.
type Shell struct {
	// Dir is the folder that they run in.
	Dir string
	// Env is their environment, as KEY=VALUE, to which Run adds what a command exports.
	Env []string
}

// Run runs a command with bash and returns what it printed. When the context ends, so does what the command has started.
func (s *Shell) Run(ctx context.Context, command string) (string, error) {
	const grace = 5 * time.Second // for the output of what has left the group
	if variable, ok := strings.CutPrefix(command, "export "); ok {
		variable, _, _ = strings.Cut(variable, " ")
		s.Env = append(s.Env, variable)
		return "", nil
	}
	cmd := exec.CommandContext(ctx, "bash", "-o", "pipefail", "-c", command)
	cmd.Dir, cmd.Env, cmd.WaitDelay = s.Dir, s.Env, grace
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	out, err := cmd.CombinedOutput()
	if err != nil {
		err = fmt.Errorf("$ %s\n%s%w", command, out, errors.Join(err, ctx.Err()))
	}
	return string(out), err
}

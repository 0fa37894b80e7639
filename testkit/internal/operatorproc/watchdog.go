package operatorproc

import (
	"fmt"
	"os/exec"
	"strconv"
	"syscall"
)

// watchdog is a shell that kills a process group when this process dies for any reason. A parent-death signal is not
// enough: it does not reach grandchildren, and many operators are started by a script or a package manager.
type watchdog struct{ cmd *exec.Cmd }

// startWatchdog starts the watchdog of a process group.
func startWatchdog(group int) (*watchdog, error) {
	// The input ends with this process, which never writes to it.
	cmd := exec.Command("/bin/sh", "-c", `read -r _; kill -s KILL -- "-$1"`, "watchdog", strconv.Itoa(group))
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // ignores Ctrl-C at a terminal
	cmd.Env = []string{}
	cmd.Dir = "/"
	_, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return nil, fmt.Errorf("starting the watchdog of the operator's processes: %w", err)
	}
	return &watchdog{cmd: cmd}, nil
}

// stop ends the watchdog without a kill, because another group may get the number.
func (w *watchdog) stop() {
	_ = w.cmd.Process.Kill()
	_ = w.cmd.Wait() // it was killed, and this closes the input
}

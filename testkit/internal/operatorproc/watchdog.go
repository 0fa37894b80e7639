package operatorproc

import (
	"fmt"
	"os/exec"
	"strconv"
	"syscall"
)

// watchdog is a shell that kills a process group when this process dies, however it dies. A parent-death signal, where
// there is one, reaches a child but not the child's children, and many operators are started by a script or a package
// manager.
type watchdog struct{ cmd *exec.Cmd }

// startWatchdog watches over the process group of this number.
func startWatchdog(group int) (*watchdog, error) {
	// Its input ends with this process, which never writes to it.
	cmd := exec.Command("/bin/sh", "-c", `read -r _; kill -s KILL -- "-$1"`, "watchdog", strconv.Itoa(group))
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // Ctrl-C at a terminal is not for it
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

// stop ends the watchdog without its doing anything: another group may get the number.
func (w *watchdog) stop() {
	_ = w.cmd.Process.Kill()
	_ = w.cmd.Wait() // it was killed, and this closes the input
}

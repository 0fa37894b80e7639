package assets

import "syscall"

// childAttributes puts a child into a process group of its own, to be killed as a whole, and ties it to this process.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

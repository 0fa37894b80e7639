package assets

import "syscall"

// childAttributes puts a child into its own process group, to be killed as a whole, and binds its life to this process.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

package programs

import "syscall"

// sysProcAttr kills a program when this process ends in any way. A Ctrl-C does not reach the program, because this process
// handles it.
var sysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}

//go:build !linux

package programs

import "syscall"

// sysProcAttr keeps a Ctrl-C from the program, because this process handles it.
var sysProcAttr = &syscall.SysProcAttr{Setpgid: true}

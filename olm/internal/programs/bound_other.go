//go:build !linux

package programs

import "syscall"

// bound lets a program not end at a Ctrl-C, of which this one decides what it means.
var bound = &syscall.SysProcAttr{Setpgid: true}

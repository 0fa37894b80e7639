package programs

import "syscall"

// bound lets a program end with this one, however that ends, and not at a Ctrl-C, of which this one decides what it means.
var bound = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}

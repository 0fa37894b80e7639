//go:build !linux

package process

import "syscall"

// Without a parent-death signal a killed parent leaves its children: whoever starts next ends them by their recorded
// identity.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}

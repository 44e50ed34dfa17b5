//go:build !linux

package demo

import "syscall"

// sysProcAttr keeps the terminal's Ctrl-C from the child, which its parent ends
// in its own time.
func sysProcAttr() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

package demo

import "syscall"

// sysProcAttr keeps the terminal's Ctrl-C from the child, which its parent ends
// in its own time, and lets it die with its parent, however that ends.
func sysProcAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

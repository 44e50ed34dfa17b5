//go:build !linux

package crash

import "syscall"

func sysProcAttr() *syscall.SysProcAttr { return nil }

package crash

import "syscall"

// sysProcAttr lets the broker die with the test, however that ends.
func sysProcAttr() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }

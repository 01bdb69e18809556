package external

import (
	"os/exec"
	"syscall"
)

// isolate gives a child a process group of its own, so that Ctrl-C does not reach it.
func isolate(c *exec.Cmd) {
	c.SysProcAttr = &syscall.SysProcAttr{CreationFlags: syscall.CREATE_NEW_PROCESS_GROUP}
}

// kill ends a child.
func kill(c *exec.Cmd) { _ = c.Process.Kill() }

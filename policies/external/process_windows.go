package external

import (
	"os/exec"
	"syscall"
)

// pipeRoom is a number of bytes that an empty pipe takes.
const pipeRoom = 0

// isolate gives a child a process group of its own, so that Ctrl-C does not reach it.
func isolate(c *exec.Cmd) {
	c.SysProcAttr = &syscall.SysProcAttr{CreationFlags: syscall.CREATE_NEW_PROCESS_GROUP}
}

// kill ends a child.
func kill(c *exec.Cmd) { _ = c.Process.Kill() }

package external

import (
	"os/exec"
	"syscall"
)

// pipeRoom is a number of bytes that an empty pipe takes.
const pipeRoom = 1 << 15

// isolate gives a child a process group of its own, so that Ctrl-C does not reach it. The kernel ends
// it if kvreplay dies.
func isolate(c *exec.Cmd) {
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// kill ends a child and all that it started.
func kill(c *exec.Cmd) { _ = syscall.Kill(-c.Process.Pid, syscall.SIGKILL) }

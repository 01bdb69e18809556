//go:build !windows

package cli

import (
	"os/signal"
	"syscall"
)

// ignoreSizeLimit makes a file over the size limit an error like a full disk.
func ignoreSizeLimit() { signal.Ignore(syscall.SIGXFSZ) }

//go:build !windows

package trace

import (
	"os"

	"golang.org/x/sys/unix"
)

// written holds the properties of a file that writing changes. A program can set back the
// modification time, as copying with times does. The file system then still updates the change
// time.
type written struct {
	size             int64
	modified, change unix.Timespec
}

func lastWritten(file *os.File) (written, error) {
	var st unix.Stat_t
	for {
		switch err := unix.Fstat(int(file.Fd()), &st); err {
		case nil:
			return written{st.Size, st.Mtim, st.Ctim}, nil
		case unix.EINTR:
		default:
			return written{}, &os.PathError{Op: "stat", Path: file.Name(), Err: err}
		}
	}
}

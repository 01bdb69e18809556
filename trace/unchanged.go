package trace

import (
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// unchanged knows when the open file was last written to.
type unchanged struct {
	mu   sync.Mutex
	file *os.File // nil where the trace is no file
	last written
}

// written is what writing to a file changes. The time of the change itself is the file
// system's own, and a program that sets back the other, as a copy with times does, moves it.
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

func (u *unchanged) begin(file *os.File) (err error) {
	u.file = file
	u.last, err = lastWritten(file)
	return err
}

// Unchanged is an error where the file was written to since it was opened and its content is
// no longer that of the digest: what was read meanwhile may be of either. A file that took
// the place of this one under its name is no concern of it.
func (f *File) Unchanged(digest string) error {
	u := &f.unchanged
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.file == nil {
		return nil
	}
	now, err := lastWritten(u.file)
	if err != nil {
		return fileError(f.path, RuleFile, "%w", err)
	}
	if now == u.last {
		return nil
	}
	if got, err := f.ComputeDigest(); err != nil || got != digest {
		return fileError(f.path, RuleFile, "was changed while it was being read, expected %s to the end; run again on a file that stays", digest)
	}
	u.last = now
	return nil
}

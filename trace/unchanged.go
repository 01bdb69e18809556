package trace

import (
	"io/fs"
	"os"
	"sync"
)

// unchanged knows when the open file was last written to.
type unchanged struct {
	mu   sync.Mutex
	file *os.File // nil where the trace is no file
	info fs.FileInfo
}

func (u *unchanged) begin(file *os.File) (err error) {
	u.file = file
	u.info, err = file.Stat()
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
	now, err := u.file.Stat()
	if err != nil {
		return fileError(f.path, RuleFile, "%w", err)
	}
	if now.Size() == u.info.Size() && now.ModTime().Equal(u.info.ModTime()) {
		return nil
	}
	if got, err := f.ComputeDigest(); err != nil || got != digest {
		return fileError(f.path, RuleFile, "was changed while it was being read, expected %s to the end; run again on a file that stays", digest)
	}
	u.info = now
	return nil
}

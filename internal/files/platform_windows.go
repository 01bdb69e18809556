package files

import (
	"os"
	"path/filepath"

	"golang.org/x/sys/windows"
)

// pendingFile is a temporary file that replaces another one.
type pendingFile struct {
	*os.File
	path   string
	closed bool
}

// newPending begins a file that replaces path. Permissions follow from the folder.
func newPending(path, _ string) (*pendingFile, error) {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"*")
	if err != nil {
		return nil, err
	}
	return &pendingFile{File: f, path: path}, nil
}

// CloseAtomicallyReplace closes the file and renames it.
func (p *pendingFile) CloseAtomicallyReplace() error {
	if err := p.Sync(); err != nil {
		return err
	}
	if err := p.File.Close(); err != nil {
		return err
	}
	if err := os.Rename(p.Name(), p.path); err != nil {
		return err
	}
	p.closed = true
	return nil
}

// Cleanup removes an unfinished file.
func (p *pendingFile) Cleanup() error {
	if p.closed {
		return nil
	}
	p.closed = true
	_ = p.File.Close() // it may be closed
	return os.Remove(p.Name())
}

// flock locks a file for this program. Without wait, a file that another program has locked is an
// error. The lock covers a byte beyond all data, so that other programs can read the file.
func flock(f *os.File, wait bool) error {
	how := uint32(windows.LOCKFILE_EXCLUSIVE_LOCK)
	if !wait {
		how |= windows.LOCKFILE_FAIL_IMMEDIATELY
	}
	return windows.LockFileEx(windows.Handle(f.Fd()), how, 0, 1, 0, &windows.Overlapped{OffsetHigh: 1 << 30})
}

// writable reports why no file can be made in a folder, if it is missing.
func writable(folder string) error {
	_, err := os.Stat(folder)
	return err
}

package files

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/google/renameio/v2"
)

// File is an output that is being written, in a temporary file beside its target.
// Errors of its methods state the cause only: callers name the target.
type File struct{ pending *renameio.PendingFile }

// Create begins an output at target, which appears by Commit. An error names the target;
// it is a *TargetError where Check has one.
func Create(target string) (*File, error) {
	if err := Check(target); err != nil {
		return nil, err
	}
	path, err := resolve(target)
	if err != nil {
		return nil, err
	}
	pending, err := renameio.NewPendingFile(path, renameio.WithTempDir(filepath.Dir(path)), renameio.WithPermissions(0o644), renameio.WithExistingPermissions())
	if err != nil {
		return nil, fmt.Errorf("cannot write %s: %w", target, cause(err))
	}
	lock(pending.File)
	return &File{pending}, nil
}

// Write appends to the output.
func (f *File) Write(p []byte) (int, error) {
	n, err := f.pending.Write(p)
	return n, cause(err)
}

// Commit finishes the output and moves it to its target.
func (f *File) Commit() error { return cause(f.pending.CloseAtomicallyReplace()) }

// Abort removes an unfinished output. It does nothing after Commit.
func (f *File) Abort() { _ = f.pending.Cleanup() } // what cannot be removed stays hidden, and Sweep finds it

// Write writes text to target, whole or not at all. An error names the target.
func Write(target string, text []byte) error {
	f, err := Create(target)
	if err != nil {
		return err
	}
	defer f.Abort()
	if _, err := f.Write(text); err != nil {
		return fmt.Errorf("write %s: %w", target, err)
	}
	if err := f.Commit(); err != nil {
		return fmt.Errorf("write %s: %w", target, err)
	}
	return nil
}

// cause is an error without the name of the temporary file, which says nothing to users,
// and with what to look at.
func cause(err error) error {
	var path *fs.PathError
	var link *os.LinkError
	switch {
	case errors.As(err, &path):
		err = path.Err
	case errors.As(err, &link):
		err = link.Err
	}
	switch {
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT), errors.Is(err, syscall.EFBIG):
		return fmt.Errorf("%w (is the disk full?)", err)
	}
	return err
}

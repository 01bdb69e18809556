// Package files is how kvreplay treats files that users name. An output appears whole
// under its name or not at all, takes the place of nothing but a regular file, and never
// that of an input; an input that has to be read twice is a regular file.
package files

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/google/renameio/v2"
)

// File is an output that is being written, in a temporary file beside its target.
// Errors of its methods state the cause only: callers name the target.
type File struct {
	pending *renameio.PendingFile
	long    string // the target where its name leaves a temporary one no room, else empty
}

// longestName is how long a name may be so that the temporary one, which is a dot and up to
// 19 digits longer, has no more than the 255 bytes that file systems allow.
const longestName = 255 - 1 - 19

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
	options := []renameio.Option{renameio.WithTempDir(filepath.Dir(path)), renameio.WithPermissions(0o644), renameio.WithExistingPermissions()}
	f := &File{}
	if name := filepath.Base(path); len(name) > longestName {
		f.long, path = path, filepath.Join(filepath.Dir(path), shortened(name))
		options = options[:2] // the file at the shorter name, if there is one, is another
		if info, err := os.Stat(f.long); err == nil {
			options = append(options, renameio.WithStaticPermissions(info.Mode().Perm()))
		}
	}
	if f.pending, err = renameio.NewPendingFile(path, options...); err != nil {
		return nil, fmt.Errorf("cannot write %s: %w", target, cause(err))
	}
	lock(f.pending.File)
	return f, nil
}

// shortened is a name cut to longestName bytes, with the ending by which Sweep knows it.
func shortened(name string) string {
	ext := filepath.Ext(name)
	if len(ext) > longestName/2 {
		ext = ""
	}
	return strings.ToValidUTF8(name[:longestName-len(ext)], "") + ext // not a part of a character
}

// Write appends to the output.
func (f *File) Write(p []byte) (int, error) {
	n, err := f.pending.Write(p)
	return n, cause(err)
}

// Commit finishes the output and moves it to its target.
func (f *File) Commit() error {
	if f.long == "" {
		return cause(f.pending.CloseAtomicallyReplace())
	}
	if err := f.pending.Sync(); err != nil {
		return cause(err)
	}
	if err := f.pending.File.Close(); err != nil {
		return cause(err)
	}
	return cause(os.Rename(f.pending.Name(), f.long))
}

// Abort removes an unfinished output. It does nothing after Commit.
func (f *File) Abort() { _ = f.pending.Cleanup() } // what cannot be removed stays hidden, and Sweep finds it

// Write writes text to target, whole or not at all. An error names the target.
func Write(target string, text []byte) error {
	return WriteBy(target, func(w io.Writer) error {
		_, err := w.Write(text)
		return err
	})
}

// WriteBy is Write of what write writes.
func WriteBy(target string, write func(io.Writer) error) error {
	f, err := Create(target)
	if err != nil {
		return err
	}
	defer f.Abort()
	if err := write(f); err != nil {
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

// TargetError is of an output that must not be written: a file there would be lost.
type TargetError struct {
	Target string // as named
	Why    string
}

// Error names the target and what to do.
func (e *TargetError) Error() string {
	return fmt.Sprintf("output %s is %s; name another file", e.Target, e.Why)
}

// Check says before the work why target cannot be written: it is there and no regular
// file, it is one of the inputs, or its folder is missing or takes no files. Inputs that are not there, or
// are empty, are no concern of it. The error names the target.
func Check(target string, inputs ...string) error {
	if target == "" {
		return &TargetError{`""`, "no name"}
	}
	info, err := os.Stat(target)
	if errors.Is(err, fs.ErrNotExist) {
		return checkFolder(target)
	}
	if err != nil {
		return fmt.Errorf("cannot write %s: %w", target, cause(err))
	}
	if !info.Mode().IsRegular() {
		return &TargetError{target, kind(info.Mode()) + ", expected a regular file or a new name"}
	}
	for _, input := range inputs {
		if other, err := os.Stat(input); err == nil && os.SameFile(info, other) {
			return &TargetError{target, "also an input, which writing would destroy"}
		}
	}
	return checkFolder(target)
}

// What syscall.Access asks of a folder in which files are made.
const (
	canEnter = 1
	canWrite = 2
)

// checkFolder says why no file can be made or replaced in the folder of the target.
func checkFolder(target string) error {
	path, err := resolve(target)
	if err != nil {
		return err
	}
	folder := filepath.Dir(path)
	if err := syscall.Access(folder, canEnter|canWrite); err != nil {
		return fmt.Errorf("cannot write %s: folder %s: %w", target, folder, err)
	}
	return nil
}

// kind is what a file is that is not regular.
func kind(m fs.FileMode) string {
	switch {
	case m.IsDir():
		return "a directory"
	case m&fs.ModeNamedPipe != 0:
		return "a pipe"
	case m&fs.ModeSocket != 0:
		return "a socket"
	case m&fs.ModeDevice != 0:
		return "a device"
	}
	return "not a regular file"
}

// resolve is the file that target stands for, behind symbolic links: these stay, and
// what they lead to is replaced.
func resolve(target string) (string, error) {
	info, err := os.Lstat(target)
	if errors.Is(err, fs.ErrNotExist) {
		if _, err := os.Stat(filepath.Dir(target)); err != nil {
			return "", fmt.Errorf("cannot write %s: folder %s: %w", target, filepath.Dir(target), cause(err))
		}
		return target, nil
	}
	path := target
	if err == nil && info.Mode()&fs.ModeSymlink != 0 {
		path, err = filepath.EvalSymlinks(target)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return "", &TargetError{target, "a symbolic link to nothing"}
	}
	if err != nil {
		return "", fmt.Errorf("cannot write %s: %w", target, cause(err))
	}
	return path, nil
}

// Package files handles the files that users name. An output appears under its name whole or not at
// all. It replaces only regular files of its kind, and never an input. An input that is read twice must be a
// regular file.
package files

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
)

// File is an output that is being written, in a temporary file next to its target. Errors of its
// methods state only the cause. Callers name the target.
type File struct {
	target  string
	pending *pendingFile
	long    string // target if its name is too long for a temporary one, else empty
}

// longestName is the longest name, in bytes, that leaves room for a temporary one. That adds a dot
// and up to 19 digits, and file systems allow 255 bytes.
const longestName = 255 - 1 - 19

// Create begins an output at target, which appears after Commit. An error names the target. If
// Check would fail, it is a *TargetError.
func Create(target string) (*File, error) {
	if err := Check(target); err != nil {
		return nil, err
	}
	path, err := resolve(target)
	if err != nil {
		return nil, err
	}
	f, place := &File{target: target}, path
	if name := filepath.Base(path); len(name) > longestName {
		f.long, place = path, filepath.Join(filepath.Dir(path), shortened(name))
	}
	if f.pending, err = newPending(place, path); err != nil {
		return nil, fmt.Errorf("cannot write %s: %w", target, cause(err))
	}
	lock(f.pending.File)
	return f, nil
}

// shortened returns a name cut to longestName bytes. It keeps the extension by which Sweep finds
// it.
func shortened(name string) string {
	ext := filepath.Ext(name)
	if len(ext) > longestName/2 {
		ext = ""
	}
	return strings.ToValidUTF8(name[:longestName-len(ext)], "") + ext // drops an incomplete character
}

// Write appends to the output.
func (f *File) Write(p []byte) (int, error) {
	n, err := f.pending.Write(p)
	return n, cause(err)
}

// Commit finishes the output and renames it to its target. If CheckKind would fail, the target stays, the
// output is removed, and the error is a *TargetError.
func (f *File) Commit() error {
	if err := f.checkKind(); err != nil {
		f.Abort()
		return err
	}
	return f.Replace()
}

// Replace is Commit for a file that the program named. It replaces a file of another kind too, such as
// a damaged one.
func (f *File) Replace() error {
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
func (f *File) Abort() { _ = f.pending.Cleanup() } // a file that cannot be removed stays hidden until Sweep finds it

// Write writes text to target whole or not at all. An error names the target.
func Write(target string, text []byte) error {
	return WriteBy(target, func(w io.Writer) error {
		_, err := w.Write(text)
		return err
	})
}

// WriteBy is Write for the output of a function.
func WriteBy(target string, write func(io.Writer) error) error {
	return writeBy(target, write, (*File).Commit)
}

// Rewrite is WriteBy with Replace.
func Rewrite(target string, write func(io.Writer) error) error {
	return writeBy(target, write, (*File).Replace)
}

func writeBy(target string, write func(io.Writer) error, commit func(*File) error) error {
	f, err := Create(target)
	if err != nil {
		return err
	}
	defer f.Abort()
	if err := write(f); err != nil {
		return fmt.Errorf("write %s: %w", target, err)
	}
	err = commit(f)
	var refused *TargetError
	if err != nil && !errors.As(err, &refused) {
		return fmt.Errorf("write %s: %w", target, err)
	}
	return err
}

// cause returns an error without the name of the temporary file, which does not help users. It adds
// a hint.
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

// TargetError reports an output that can not have its name, for example because it would destroy a
// file.
type TargetError struct {
	Target string // as the user named it
	Why    string
	Folder bool // Why ends with a remedy
}

// Error names the target and a remedy.
func (e *TargetError) Error() string {
	if e.Folder {
		return fmt.Sprintf("%s is %s", e.Target, e.Why)
	}
	return fmt.Sprintf("output %s is %s. Name another file", e.Target, e.Why)
}

// address matches an address of an object or a page, also one that filepath.Clean changed to s3:/bucket.
// A scheme has two letters or more, so that C:/ is a path.
var address = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9+.-]+:/`)

// Check reports before the work why target cannot be written. It may be something other than a
// regular file, or one of the inputs. Its folder may be missing or not writable. Check ignores
// missing and empty inputs. The error names the target.
func Check(target string, inputs ...string) error {
	if target == "" {
		return &TargetError{Target: `""`, Why: "an empty name"}
	}
	if address.MatchString(target) {
		return &TargetError{Target: target, Why: "an address, expected a local file"}
	}
	info, err := os.Stat(target)
	if errors.Is(err, fs.ErrNotExist) {
		return checkFolder(target)
	}
	if err != nil {
		return fmt.Errorf("cannot write %s: %w", target, cause(err))
	}
	if !info.Mode().IsRegular() {
		return &TargetError{Target: target, Why: kind(info.Mode()) + ", expected a regular file or a new name"}
	}
	for _, input := range inputs {
		if other, err := os.Stat(input); err == nil && os.SameFile(info, other) {
			return &TargetError{Target: target, Why: "also an input, and writing would destroy it"}
		}
	}
	return checkFolder(target)
}

// checkFolder reports why no file can be made or replaced in the folder of the target.
func checkFolder(target string) error {
	path, err := resolve(target)
	if err != nil {
		return err
	}
	folder := filepath.Dir(path)
	if err := writable(folder); err != nil {
		return fmt.Errorf("cannot write %s: folder %s: %w", target, folder, err)
	}
	return nil
}

// kind names the kind of a file that is not regular.
func kind(m fs.FileMode) string {
	switch {
	case m.IsDir():
		return "a folder"
	case m&fs.ModeNamedPipe != 0:
		return "a pipe"
	case m&fs.ModeSocket != 0:
		return "a socket"
	case m&fs.ModeDevice != 0:
		return "a device"
	}
	return "not a regular file"
}

// resolve follows symbolic links to the file behind target. The links stay, and that file is
// replaced.
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
		return "", &TargetError{Target: target, Why: "a symbolic link to nothing"}
	}
	if err != nil {
		return "", fmt.Errorf("cannot write %s: %w", target, cause(err))
	}
	return path, nil
}

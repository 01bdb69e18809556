package files

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

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

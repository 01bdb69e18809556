package files

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"
	"unicode/utf8"
)

// MakeFolder makes a folder and those above it, where they are not there yet. An error says
// what lies in the place of one.
func MakeFolder(folder string) error {
	err := os.MkdirAll(folder, 0o755)
	var path *fs.PathError
	if !errors.As(err, &path) {
		return err
	}
	info, missing := os.Stat(path.Path)
	_, unlinked := os.Lstat(path.Path)
	switch {
	case missing == nil && info.Mode().IsRegular():
		return fmt.Errorf("%s is a file, expected a folder or a new name", path.Path)
	case missing == nil && !info.IsDir():
		return fmt.Errorf("%s is %s, expected a folder or a new name", path.Path, kind(info.Mode()))
	case errors.Is(missing, fs.ErrNotExist) && unlinked == nil:
		return fmt.Errorf("%s is a symbolic link to nothing, expected a folder or a new name", path.Path)
	}
	return err
}

// Matching returns the files of a folder whose names match the pattern (path.Match), with
// the folder, by name. The name of the folder itself is no pattern.
func Matching(folder, pattern string) ([]string, error) {
	names, err := fs.Glob(os.DirFS(folder), pattern)
	for i, name := range names {
		names[i] = filepath.Join(folder, name)
	}
	return names, err
}

// longestSafeName leaves room in the 255 bytes that file systems allow for what callers
// append to a name and for what temporary files add.
const longestSafeName = 200

var (
	// unsafeInNames are the characters that a shell, a glob or a file system may read as
	// more than a letter.
	unsafeInNames = regexp.MustCompile(`[^\pL\pM\pN._-]+`)
	// reserved are the names that Windows gives to devices, with any ending.
	reserved = regexp.MustCompile(`(?i)^(?:con|prn|aux|nul|com[0-9¹²³]|lpt[0-9¹²³])(?:\.|$)`)
)

// SafeName returns s as a name for a new file, of at most 200 bytes. Letters, digits and
// ". _ -" stay, the rest becomes "_". A name of this kind stays in its folder, is not hidden,
// and is no option of a command. Different texts may have one name.
func SafeName(s string) string {
	s = unsafeInNames.ReplaceAllString(strings.ToValidUTF8(s, "_"), "_")
	if s == "" || strings.ContainsRune(".-", rune(s[0])) || reserved.MatchString(s) {
		s = "_" + s
	}
	for len(s) > longestSafeName {
		_, size := utf8.DecodeLastRuneInString(s)
		s = s[:len(s)-size]
	}
	return s
}

// Locked calls f while no other program is in Locked with the same path, so that several
// programs can read and replace the same files. The lock ends with the program, however it
// ends. The file at path is made if need be and stays. A file system without locks gives
// none.
func Locked(path string, f func() error) error {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return fmt.Errorf("lock %s: %w", path, cause(err))
	}
	defer file.Close()
	for {
		err = syscall.Flock(int(file.Fd()), syscall.LOCK_EX)
		if !errors.Is(err, syscall.EINTR) {
			break
		}
	}
	if err != nil && !errors.Is(err, syscall.ENOSYS) && !errors.Is(err, syscall.ENOTSUP) && !errors.Is(err, syscall.ENOLCK) {
		return fmt.Errorf("lock %s: %w", path, err)
	}
	return f()
}

// staleAfter is how long nothing was written to an unfinished file that Sweep removes.
const staleAfter = time.Hour

// unfinished is how temporary files of what kvreplay keeps are named.
var unfinished = regexp.MustCompile(`^\..+\.(jsonl|json|parquet|sha256)[0-9]+$`)

// lock marks the file as that of a running program; the mark ends with it.
func lock(f *os.File) {
	_ = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) // without locks, age alone protects it
}

// Sweep removes from a folder the unfinished outputs of programs that were killed: files
// named as such that no program holds and that nobody has written to for an hour, or that
// are of a clock which was ahead by more. What cannot be removed stays.
func Sweep(folder string) {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return
	}
	for _, e := range entries {
		if e.Type().IsRegular() && unfinished.MatchString(e.Name()) {
			sweep(filepath.Join(folder, e.Name()))
		}
	}
}

func sweep(path string) {
	f, err := os.Open(path)
	if err != nil {
		return
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || time.Since(info.ModTime()).Abs() < staleAfter {
		return
	}
	if syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil {
		_ = os.Remove(path)
	}
}

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
	"time"
	"unicode/utf8"
)

// MakeFolder makes a folder and its missing parents. If a file is in the way, or if the name is an
// address such as s3://bucket/key, the error is a *TargetError.
func MakeFolder(folder string) error {
	if address.MatchString(folder) {
		return &TargetError{folder, "an address, expected a local folder: copy it there afterwards", true}
	}
	err := os.MkdirAll(folder, 0o755)
	var path *fs.PathError
	if !errors.As(err, &path) {
		return err
	}
	info, missing := os.Stat(path.Path)
	_, unlinked := os.Lstat(path.Path)
	switch {
	case missing == nil && info.Mode().IsRegular():
		return &TargetError{path.Path, "a file, expected a folder or a new name", true}
	case missing == nil && !info.IsDir():
		return &TargetError{path.Path, kind(info.Mode()) + ", expected a folder or a new name", true}
	case errors.Is(missing, fs.ErrNotExist) && unlinked == nil:
		return &TargetError{path.Path, "a symbolic link to nothing, expected a folder or a new name", true}
	}
	return err
}

// Matching returns the paths of the files in a folder whose names match the pattern (path.Match),
// sorted by name. The folder itself may contain pattern characters.
func Matching(folder, pattern string) ([]string, error) {
	names, err := fs.Glob(os.DirFS(folder), pattern)
	for i, name := range names {
		names[i] = filepath.Join(folder, name)
	}
	return names, err
}

// longestSafeName is shorter than the 255 bytes that file systems allow. The rest is for suffixes
// of callers and of temporary files.
const longestSafeName = 200

var (
	// unsafeInNames are characters with a special meaning for a shell, a glob or a file system.
	unsafeInNames = regexp.MustCompile(`[^\pL\pM\pN._-]+`)
	// reserved are the names of devices in Windows, with any extension.
	reserved = regexp.MustCompile(`(?i)^(?:con|prn|aux|nul|com[0-9¹²³]|lpt[0-9¹²³])(?:\.|$)`)
)

// SafeName returns s as a name for a new file, of at most 200 bytes. It keeps letters, digits and
// ". _ -" and replaces the rest by "_". The name stays in its folder, is not hidden, and is not an
// option of a command. Different texts may give the same name.
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

// Locked calls f while no other program is in Locked with the same path. So several programs can
// read and replace the same files. The lock ends with the program, however it ends. Locked creates
// the file at path if it is missing, and never removes it. File systems without locks do not
// protect f.
func Locked(path string, f func() error) error {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return fmt.Errorf("lock %s: %w", path, cause(err))
	}
	defer file.Close()
	if err = flock(file, true); err != nil && !errors.Is(err, syscall.ENOSYS) && !errors.Is(err, syscall.ENOTSUP) && !errors.Is(err, syscall.ENOLCK) {
		return fmt.Errorf("lock %s: %w", path, err)
	}
	return f()
}

// staleAfter is the age of the last write from which Sweep removes an unfinished file.
const staleAfter = time.Hour

// unfinished matches the names of temporary files.
var unfinished = regexp.MustCompile(`^\..+\.(jsonl|json|parquet|sha256|zst)[0-9]+$`)

// lock marks the file as one of a running program. The mark ends with the program.
func lock(f *os.File) {
	_ = flock(f, false) // without locks, only the age protects the file
}

// Sweep removes from a folder the unfinished outputs of killed programs. These are files with such
// a name that no program holds. Their last write is more than an hour ago, or more than an hour in
// the future if a clock was wrong. Files that cannot be removed stay.
func Sweep(folder string) {
	var names []string
	_ = Each(folder, func(e fs.DirEntry) {
		if e.Name()[0] == '.' && e.Type().IsRegular() && unfinished.MatchString(e.Name()) {
			names = append(names, e.Name())
		}
	})
	for _, name := range names {
		sweep(filepath.Join(folder, name))
	}
}

// Each calls a function for each entry of a folder, in no order. Unlike os.ReadDir it neither holds
// nor sorts the entries, of which a folder of results can have a million.
func Each(folder string, use func(fs.DirEntry)) error {
	f, err := os.Open(folder)
	if err != nil {
		return err
	}
	defer f.Close()
	for {
		entries, err := f.ReadDir(1024)
		for _, e := range entries {
			use(e)
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
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
	if flock(f, false) == nil {
		_ = os.Remove(path)
	}
}

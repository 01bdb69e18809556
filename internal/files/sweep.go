package files

import (
	"os"
	"path/filepath"
	"regexp"
	"syscall"
	"time"
)

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

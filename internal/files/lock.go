package files

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

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

//go:build !windows

package files

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"

	"github.com/google/renameio/v2"
)

// pendingFile is a temporary file that replaces another one.
type pendingFile = renameio.PendingFile

// newPending begins a file that replaces path. It has the permissions of the file at target, if there
// is one.
func newPending(path, target string) (*pendingFile, error) {
	options := []renameio.Option{renameio.WithTempDir(filepath.Dir(path)), renameio.WithPermissions(0o644)}
	if path == target {
		options = append(options, renameio.WithExistingPermissions())
	} else if info, err := os.Stat(target); err == nil { // a file at path is a different file
		options = append(options, renameio.WithStaticPermissions(info.Mode().Perm()))
	}
	return renameio.NewPendingFile(path, options...)
}

// flock locks a file for this program. Without wait, a file that another program has locked is an
// error.
func flock(f *os.File, wait bool) (err error) {
	how := syscall.LOCK_EX
	if !wait {
		how |= syscall.LOCK_NB
	}
	for {
		if err = syscall.Flock(int(f.Fd()), how); !errors.Is(err, syscall.EINTR) {
			return err
		}
	}
}

// Permissions of a folder in which files are made, for syscall.Access.
const (
	canEnter = 1
	canWrite = 2
)

// writable reports why no file can be made in a folder.
func writable(folder string) error { return syscall.Access(folder, canEnter|canWrite) }

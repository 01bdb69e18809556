package files

import (
	"fmt"
	"io/fs"
	"os"
)

// NotRegular says of an input that is a pipe or a device what to do.
const NotRegular = "is not a regular file and cannot be read twice; save it to a file first"

// CheckInput says why path cannot be read twice: it is a pipe or a device. Whatever else
// is wrong with it is left to who opens it.
func CheckInput(path string) error {
	info, err := os.Stat(path)
	if err != nil || info.IsDir() || info.Mode().IsRegular() {
		return nil
	}
	return fmt.Errorf("%s %s", path, NotRegular)
}

// CheckStream says why path cannot be read to its end: it is a device, which may have
// none. A pipe has one.
func CheckStream(path string) error {
	info, err := os.Stat(path)
	if err != nil || info.Mode()&fs.ModeDevice == 0 {
		return nil
	}
	return fmt.Errorf("%s is a device, expected a file or a pipe", path)
}

package trace

import (
	"os"
	"time"
)

// written holds the properties of a file that writing changes.
type written struct {
	size     int64
	modified time.Time
}

func lastWritten(file *os.File) (written, error) {
	info, err := file.Stat()
	if err != nil {
		return written{}, err
	}
	return written{info.Size(), info.ModTime()}, nil
}

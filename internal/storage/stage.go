package storage

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// stageParts is the most blocks that Stage requests ahead.
const stageParts = 8

// Stage copies an object to a file, in large blocks. The file appears under its name whole or not at
// all.
func Stage(ctx context.Context, url, path string) error {
	o, err := Open(ctx, url)
	if err != nil {
		return err
	}
	defer o.Close()
	file, err := os.CreateTemp(filepath.Dir(path), ".stage-*")
	if err != nil {
		return fmt.Errorf("stage %s: %w", url, err)
	}
	defer os.Remove(file.Name())
	defer file.Close()
	last := max(0, o.Size()-lastBytes) // from here on Open has requested the bytes
	o.Expect([]Span{{0, last}, {last, o.Size()}}, stageParts)
	_, err = io.Copy(file, io.NewSectionReader(o, 0, o.Size()))
	if e := (*Error)(nil); errors.As(err, &e) {
		return &Error{url, err}
	}
	if err != nil {
		return fmt.Errorf("stage %s: %w", url, err)
	}
	if err := file.Close(); err != nil {
		return fmt.Errorf("stage %s: %w", url, err)
	}
	return os.Rename(file.Name(), path)
}

package storage

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"golang.org/x/sync/errgroup"
)

// stageParts is the number of parts that Stage requests at a time.
const stageParts = 8

// Stage copies an object to a file, in parts at a time. The file appears under its name whole or not
// at all. All requests state the ETag of the first, so that the parts are of one version.
func Stage(ctx context.Context, url, path string) error {
	s, name, err := locate(url)
	if err != nil {
		return err
	}
	info, err := s.Stat(ctx, name)
	if err != nil {
		return err
	}
	file, err := os.CreateTemp(filepath.Dir(path), ".stage-*")
	if err != nil {
		return fmt.Errorf("stage %s: %w", url, err)
	}
	defer os.Remove(file.Name())
	defer file.Close()
	err = stage(ctx, s, info, file)
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

// stage copies an object to an open file.
func stage(ctx context.Context, s Store, info Info, file *os.File) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(stageParts)
	for from := int64(0); from < info.Size; from += largeBlock {
		part := Span{from, min(from+largeBlock, info.Size)}
		g.Go(func() error {
			p := make([]byte, part.To-part.From)
			if err := retry(ctx, func() error { return readPart(ctx, s, info, part.From, p) }); err != nil {
				return part.unread(err)
			}
			_, err := file.WriteAt(p, part.From)
			return err
		})
	}
	return g.Wait()
}

// readPart reads a part of an object into p, in one request.
func readPart(ctx context.Context, s Store, info Info, from int64, p []byte) error {
	body, _, err := s.Get(ctx, info.Name, from, from+int64(len(p)), info.Tag)
	if err != nil {
		return errFinal{err} // the store has repeated the request
	}
	defer body.Close()
	n, err := io.ReadFull(body, p)
	return cut(err, int64(n), int64(len(p)))
}

package files

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"os"
)

// NotRegular is the message for an input that is a pipe or a device.
const NotRegular = "is not a regular file and cannot be read twice. Save it to a file first"

// CheckInput returns an error if path is a pipe or a device, which cannot be read twice. Other
// faults are reported when it is opened.
func CheckInput(path string) error {
	info, err := os.Stat(path)
	if err != nil || info.IsDir() || info.Mode().IsRegular() {
		return nil
	}
	return fmt.Errorf("%s %s", path, NotRegular)
}

// CheckStream returns an error if path is a device, which may have no end. A pipe has an end.
func CheckStream(path string) error {
	info, err := os.Stat(path)
	if err != nil || info.Mode()&fs.ModeDevice == 0 {
		return nil
	}
	return fmt.Errorf("%s is a device, expected a file or a pipe", path)
}

// readLimit is the largest input that Read reads, in bytes.
const readLimit = 256 << 20

// Read reads an input of at most 256 MiB once to its end, so it may be a pipe. If ctx ends, reading
// stops as in Open.
func Read(ctx context.Context, path string) ([]byte, error) {
	f, err := Open(ctx, path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	content, err := io.ReadAll(io.LimitReader(f, readLimit+1))
	if len(content) > readLimit {
		return nil, fmt.Errorf("%s has more than %d MiB: name a smaller file", path, readLimit>>20)
	}
	return content, err
}

// Sum returns the SHA-256 of an input, in hexadecimal digits, and its size. It reads as Read does, without a
// limit.
func Sum(ctx context.Context, path string) (sum string, bytes int64, err error) {
	f, err := Open(ctx, path)
	if err != nil {
		return "", 0, err
	}
	defer f.Close()
	h := sha256.New()
	if bytes, err = io.Copy(h, f); err != nil {
		return "", bytes, err
	}
	return hex.EncodeToString(h.Sum(nil)), bytes, nil
}

// Open opens an input that is read once, so it may be a pipe. The writer of a pipe may never open
// it or never write. If ctx ends, opening and reading stop.
func Open(ctx context.Context, path string) (io.ReadCloser, error) {
	if err := CheckStream(path); err != nil {
		return nil, err
	}
	type opened struct {
		file *os.File
		err  error
	}
	done := make(chan opened, 1)
	go func() {
		file, err := os.Open(path)
		done <- opened{file, err}
	}()
	select {
	case o := <-done:
		if o.err != nil {
			return nil, o.err
		}
		stop := context.AfterFunc(ctx, func() { o.file.Close() })
		return &stream{ctx, o.file, stop}, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// stream is a file that the end of a context closes.
type stream struct {
	ctx  context.Context
	file *os.File
	stop func() bool
}

// Read reads from the file. If ctx closed the file, it returns the error of ctx.
func (s *stream) Read(p []byte) (int, error) {
	n, err := s.file.Read(p)
	if err != nil && s.ctx.Err() != nil {
		err = s.ctx.Err()
	}
	return n, err
}

// Close closes the file.
func (s *stream) Close() error {
	s.stop()
	return s.file.Close()
}

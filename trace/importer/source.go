package importer

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/kvreplay/kvreplay/internal/files"
	"github.com/kvreplay/kvreplay/internal/gunzip"
)

// source is one open file. Its text comes unpacked; formats that need random access
// get a file of their own.
type source struct {
	path    string
	number  int32 // in the order of the command line
	size    int64 // bytes on disk
	found   Found
	unit    string // what `at` of a record counts: line, row, position
	records int64
	ordered bool // it states the order of its lists
	// candidates is the longest list that it states, M; 0: unsaid
	candidates int
	opts       *Options
	file       *os.File
	closers    []func()
}

// Detect tells from its content, never from its name, what the file at path is.
func Detect(path string) (Found, error) {
	s, err := openSource(path, &Options{})
	if err != nil {
		return Found{}, err
	}
	defer s.close()
	return s.found, nil
}

func openSource(path string, o *Options) (*source, error) {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, fmt.Errorf("open source: %w", err)
	case info.IsDir():
		return nil, fmt.Errorf("%s: is a directory, expected a file; name the files in it", path)
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%s: %s", path, files.NotRegular)
	case info.Size() == 0:
		return nil, fmt.Errorf("%s: is empty, expected one of: %s", path, Known)
	}
	s := &source{path: path, size: info.Size(), opts: o, unit: "row"}
	if s.file, err = os.Open(path); err != nil {
		return nil, fmt.Errorf("open source: %w", err)
	}
	s.closers = append(s.closers, func() { s.file.Close() })
	if err := s.detect(); err != nil {
		s.close()
		return nil, s.explain(err)
	}
	return s, nil
}

func (s *source) detect() error {
	var magic [2]byte
	if _, err := s.file.ReadAt(magic[:], 0); err != nil && err != io.EOF {
		return err
	}
	s.found.Gzip = gunzip.Begins(magic[:])
	r, err := s.reader()
	if err != nil {
		return err
	}
	s.found.Format, err = sniff(r)
	return err
}

// reader returns the unpacked content from its beginning.
func (s *source) reader() (io.Reader, error) {
	if _, err := s.file.Seek(0, io.SeekStart); err != nil {
		return nil, err
	}
	r, err := gunzip.Reader(bufio.NewReaderSize(s.file, 1<<18))
	if err != nil {
		return nil, err
	}
	return withoutMark(r), nil
}

// withoutMark passes over the byte order mark that editors put before a text; no binary
// format begins with its bytes.
func withoutMark(r *bufio.Reader) io.Reader {
	if head, _ := r.Peek(3); string(head) == "\xef\xbb\xbf" {
		_, _ = r.Discard(3)
	}
	return r
}

// randomAccess returns the unpacked content as a file, with its size; gzip'ed
// content is unpacked to a temporary one.
func (s *source) randomAccess() (*os.File, int64, error) {
	if !s.found.Gzip {
		return s.file, s.size, nil
	}
	r, err := s.reader()
	if err != nil {
		return nil, 0, err
	}
	tmp, err := os.CreateTemp(s.opts.Tmp, "kvreplay-unpacked-*")
	if err != nil {
		return nil, 0, fmt.Errorf("unpack to a temporary file (--tmp): %w", err)
	}
	s.closers = append(s.closers, func() { tmp.Close(); os.Remove(tmp.Name()) })
	n, err := io.Copy(tmp, r)
	if err != nil {
		return nil, 0, err
	}
	return tmp, n, nil
}

func (s *source) close() {
	for _, f := range s.closers {
		f()
	}
}

// at names a place in the source.
func (s *source) at(n int64) string { return fmt.Sprintf("%s: %s %d", s.path, s.unit, n) }

// errorAt is an error at a line, row or position.
func (s *source) errorAt(n int64, format string, args ...any) error {
	return fmt.Errorf("%s: %w", s.at(n), fmt.Errorf(format, args...))
}

// explain puts the path before an error that lacks it.
func (s *source) explain(err error) error {
	if strings.HasPrefix(err.Error(), s.path+":") {
		return err
	}
	return fmt.Errorf("%s: %w", s.path, err)
}

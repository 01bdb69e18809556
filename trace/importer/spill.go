package importer

import (
	"bufio"
	"fmt"
	"os"
)

// spill keeps encoded records: in memory up to limit bytes, beyond it in a
// temporary file. First all are appended, then any is read by its offset.
type spill struct {
	limit int64
	dir   string
	mem   []byte
	size  int64
	file  *os.File
	out   *bufio.Writer
}

// add appends b and returns where it begins.
func (s *spill) add(b []byte) (offset int64, err error) {
	offset = s.size
	s.size += int64(len(b))
	if s.file == nil && s.size <= s.limit {
		s.mem = append(s.mem, b...)
		return offset, nil
	}
	if s.file == nil {
		if err := s.overflow(); err != nil {
			return 0, err
		}
	}
	if _, err := s.out.Write(b); err != nil {
		return 0, fmt.Errorf("write temporary file (--tmp names its directory): %w", err)
	}
	return offset, nil
}

// overflow moves what is in memory to a temporary file.
func (s *spill) overflow() (err error) {
	if s.file, err = os.CreateTemp(s.dir, "kvreplay-import-*"); err != nil {
		return fmt.Errorf("create temporary file (--tmp names its directory): %w", err)
	}
	s.out = bufio.NewWriterSize(s.file, 1<<18)
	_, err = s.out.Write(s.mem)
	s.mem = nil
	return err
}

// finish ends the appending.
func (s *spill) finish() error {
	if s.file == nil {
		return nil
	}
	if err := s.out.Flush(); err != nil {
		return fmt.Errorf("write temporary file (--tmp names its directory): %w", err)
	}
	return nil
}

// read returns the n bytes at offset; they are valid until the next call with buf.
func (s *spill) read(offset int64, n int, buf []byte) ([]byte, error) {
	if s.file == nil {
		return s.mem[offset : offset+int64(n)], nil
	}
	if cap(buf) < n {
		buf = make([]byte, n)
	}
	if _, err := s.file.ReadAt(buf[:n], offset); err != nil {
		return nil, fmt.Errorf("read temporary file: %w", err)
	}
	return buf[:n], nil
}

// close removes the temporary file.
func (s *spill) close() {
	s.mem = nil
	if s.file != nil {
		s.file.Close()
		os.Remove(s.file.Name())
	}
}

package longbench

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
)

// maxRow is the size in bytes beyond which a row is refused. The longest contexts, of
// v2, have two million words.
const maxRow = 64 << 20

// value is one row's JSON.
type value struct {
	place
	text []byte
}

// place is where a row is.
type place struct {
	file      string
	line, row int // from 1
}

// wrap says where a row's error is; nil stays nil.
func (p place) wrap(err error) error {
	if err == nil {
		return nil
	}
	return &RowError{p.file, p.line, p.row, err}
}

// values streams the JSON objects of a file: one after another, as JSON lines, or the
// elements of one array. One is in memory at a time; a text is the receiver's.
func values(file string, r io.Reader) iter.Seq2[value, error] {
	return func(yield func(value, error) bool) {
		s := &scanner{lines: &lineReader{r: r, line: 1}}
		s.d = json.NewDecoder(s.lines)
		err := s.open()
		row := 1
		for ; err == nil && s.more(); row++ {
			v := value{place: place{file: file, row: row}}
			if v.text, v.line, err = s.next(); err != nil {
				yield(v, v.wrap(err))
				return
			}
			if !yield(v, nil) {
				return
			}
		}
		if err == nil {
			err = s.close()
		}
		if err == nil && row == 1 {
			err = errNoRows
		}
		if err != nil {
			at := s.lines.offset // what was read last
			if err == errMore {
				at = s.d.InputOffset()
			}
			yield(value{}, fmt.Errorf("%s:%d: %w", file, s.lines.at(at), err))
		}
	}
}

// scanner takes a file apart.
type scanner struct {
	lines *lineReader
	d     *json.Decoder
	array bool
}

// open looks at what the file begins with.
func (s *scanner) open() error {
	first, err := s.lines.first()
	switch {
	case err == io.EOF:
		return errNoRows
	case err != nil:
		return err
	case first == '[':
		s.array = true
		_, err = s.d.Token()
		return err
	case first != '{':
		s.lines.line += bytes.Count(s.lines.pending, []byte("\n"))
		return fmt.Errorf("begins with %q, expected JSON objects, one a line, or an array of them", first)
	}
	return nil
}

// more says whether there is another row.
func (s *scanner) more() bool { return s.d.More() }

// next returns a row and the line that it begins on.
func (s *scanner) next() ([]byte, int, error) {
	var text json.RawMessage
	s.lines.left = maxRow
	before := s.d.InputOffset()
	if err := s.d.Decode(&text); err != nil {
		at := before + s.gap()
		var syntax *json.SyntaxError
		if errors.As(err, &syntax) {
			at = syntax.Offset
		}
		if err == io.ErrUnexpectedEOF {
			err = errors.New("the file ends inside a row")
		}
		return nil, s.lines.at(at), err
	}
	return text, s.lines.at(s.d.InputOffset() - int64(len(text))), nil
}

// gap is the length of what lies before the row that could not be read.
func (s *scanner) gap() int64 {
	rest, _ := io.ReadAll(s.d.Buffered())
	return int64(len(rest) - len(bytes.TrimLeft(rest, " \t\r\n,")))
}

// close checks that the file ends where its rows do.
func (s *scanner) close() error {
	if s.array {
		switch _, err := s.d.Token(); {
		case err == io.EOF:
			return errors.New("the file ends inside the array")
		case err != nil:
			return err
		}
	}
	switch _, err := s.d.Token(); {
	case err == io.EOF:
		return nil
	case err != nil:
		return err
	}
	return errMore
}

var (
	errMore   = errors.New("more after the last row")
	errNoRows = errors.New("no rows")
)

// lineReader knows the line of an offset that was read lately, and how much may be
// read before the next row.
type lineReader struct {
	r        io.Reader
	offset   int64   // of what comes next
	newlines []int64 // offsets after line's beginning
	line     int     // of everything before newlines
	left     int     // bytes until the row is too long
	pending  []byte  // read by first, not yet handed on
}

// first returns the first byte that is not space, and leaves it to be read.
func (l *lineReader) first() (byte, error) {
	one := make([]byte, 1)
	for {
		if _, err := io.ReadFull(l.r, one); err != nil {
			return 0, err
		}
		l.pending = append(l.pending, one[0])
		if !bytes.ContainsAny(one, " \t\r\n") {
			l.left = maxRow
			return one[0], nil
		}
		if len(l.pending) > 1<<20 {
			return 0, errors.New("a megabyte of space, expected JSON")
		}
	}
}

// Read implements io.Reader.
func (l *lineReader) Read(p []byte) (n int, err error) {
	if l.left <= 0 {
		return 0, fmt.Errorf("longer than %d bytes", maxRow)
	}
	if len(l.pending) > 0 {
		n = copy(p, l.pending)
		l.pending = l.pending[n:]
	} else {
		n, err = l.r.Read(p)
	}
	for i, c := range p[:n] {
		if c == '\n' {
			l.newlines = append(l.newlines, l.offset+int64(i))
		}
	}
	l.offset += int64(n)
	l.left -= n
	return n, err
}

// at returns the line of an offset, from 1; offsets must not fall.
func (l *lineReader) at(offset int64) int {
	passed := 0
	for passed < len(l.newlines) && l.newlines[passed] < offset {
		passed++
	}
	l.newlines = l.newlines[passed:]
	l.line += passed
	return l.line
}

package requests

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"time"
)

// Reader streams the requests of a file in order of arrival.
type Reader struct {
	path   string
	format Format
	file   io.Closer
	rows   rows
	size   int64
	read   int           // requests so far
	last   time.Duration // arrival of the last one
	failed error         // what ended the stream
}

// rows are the lines of one format. next fills in a request, its arrival counted from
// the first one's, and returns the number of its line; io.EOF where there is none.
type rows interface {
	next(q *Request) (line int, err error)
}

// Open opens a request trace, gzip'ed or not, whose format is told from its content.
// The caller closes it.
func Open(path string) (*Reader, error) {
	f, err := openFile(path)
	if err != nil {
		return nil, err
	}
	r, err := newReader(path, f)
	if err != nil {
		f.Close()
		return nil, err
	}
	return r, nil
}

func newReader(path string, f *os.File) (*Reader, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("read requests: %w", err)
	}
	r := &Reader{path: path, file: f, size: info.Size()}
	return r, r.begin(f)
}

// begin tells the format of the content and what its header says.
func (r *Reader) begin(content io.Reader) error {
	text, err := unpacked(content)
	if err != nil {
		return fmt.Errorf("read requests: %s: %w", r.path, err)
	}
	switch r.format = sniff(text); r.format {
	case Azure:
		r.rows, err = newAzureRows(text)
		if err != nil {
			return r.errorAt(1, err)
		}
	case Mooncake:
		r.rows = &mooncakeRows{lines: text}
	case Parquet:
		return fmt.Errorf("read requests: %s is a Parquet file, expected %s", r.path, Known)
	default:
		return r.unknown(text)
	}
	return nil
}

// unknown says how content that is no request trace begins.
func (r *Reader) unknown(text *bufio.Reader) error {
	head, err := text.Peek(40)
	switch {
	case len(head) > 0:
		return fmt.Errorf("read requests: %s begins with %q, expected %s", r.path, head, Known)
	case err != io.EOF:
		return fmt.Errorf("read requests: %s: %w", r.path, err)
	}
	return fmt.Errorf("read requests: %s is empty, expected %s", r.path, Known)
}

// Format is what the content turned out to be.
func (r *Reader) Format() Format { return r.format }

// Bytes is the size of the file as it lies on the disk.
func (r *Reader) Bytes() int64 { return r.size }

// Read puts the next request into q, whose PrefixBlocks it reuses; they are valid until
// the next call. io.EOF follows the last request. Any other error ends the stream: a
// failure of reading, or a *RowError for a line that is malformed or contradicts
// itself or the lines before it.
func (r *Reader) Read(q *Request) error {
	if r.failed == nil {
		r.failed = r.next(q)
	}
	return r.failed
}

func (r *Reader) next(q *Request) error {
	line, err := r.rows.next(q)
	switch {
	case err == io.EOF && r.read == 0:
		return fmt.Errorf("read requests: %s: no request in it", r.path)
	case err == io.EOF:
		return io.EOF
	case err == nil && q.Arrival < r.last:
		err = fmt.Errorf("the timestamp is %v before that of the request before, expected requests in order of arrival", r.last-q.Arrival)
	}
	if err != nil {
		return r.errorAt(line, err)
	}
	r.read, r.last = r.read+1, q.Arrival
	return nil
}

func (r *Reader) errorAt(line int, err error) error { return &RowError{r.path, line, err} }

// Close closes the file.
func (r *Reader) Close() error { return r.file.Close() }

// ReadAll returns all requests of a file, each with blocks of its own; errors are those
// of Open and Read.
func ReadAll(path string) ([]Request, error) {
	r, err := Open(path)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	var all []Request
	for {
		var q Request
		if err := r.Read(&q); err == io.EOF {
			return all, nil
		} else if err != nil {
			return nil, err
		}
		all = append(all, q)
	}
}

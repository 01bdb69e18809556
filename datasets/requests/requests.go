// Package requests reads traces of requests as serving systems recorded them. They state when each
// request arrived and the lengths of its prompt and answer. Some also state the blocks of the
// prompt that requests share. They have no selections, so they are not replayed. They drive models
// of serving. README.md describes both formats and every figure of the summary.
package requests

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/kvreplay/kvreplay/internal/bom"
	"github.com/kvreplay/kvreplay/internal/files"
	"github.com/kvreplay/kvreplay/internal/gunzip"
	"github.com/kvreplay/kvreplay/internal/storage"
)

// BlockTokens is the number of prompt tokens of one of Mooncake's hash ids. The last block of a
// prompt may be shorter. Source: Qin et al., "Mooncake", FAST 2025, and the traces of its release,
// in which every request has ⌈input_length ÷ 512⌉ ids.
const BlockTokens = 512

// Request is one request of a trace.
type Request struct {
	Arrival      time.Duration // since the first request's
	InputTokens  int           // of the prompt
	OutputTokens int           // generated
	// FirstToken and LastToken are the times of the answer in a recorded run, since the first arrival.
	// They are 0 in other formats.
	FirstToken, LastToken time.Duration
	// Class is the name of the kind of request, "" if the file states none.
	Class string
	// PrefixBlocks are ids of the prompt's blocks of BlockTokens tokens. The last block may be
	// shorter. Equal ids mean equal blocks behind equal prefixes, so a KV cache may share them. It is
	// nil if the source does not state them.
	PrefixBlocks []int64
}

// Format is a kind of request trace.
type Format int

// The formats, and the other content that Detect recognises.
const (
	Unknown  Format = iota
	Azure           // CSV of the Azure LLM inference traces
	Mooncake        // JSON lines of the Mooncake traces
	Recorded        // CSV of a serving run, with the times of tokens
	Parquet         // not a request trace, but a trace for trace.Open
)

var formatNames = [...]string{"unknown", "azure-csv", "mooncake-jsonl", "recorded-csv", "parquet"}

// String is the name of the format in messages and in JSON.
func (f Format) String() string { return formatNames[f] }

// Known describes the recognised formats, for messages.
const Known = "requests, such as CSV with the header " + arrivalsHeader + " (datasets/requests/README.md)"

// maxTokens bounds a request's tokens. A larger number is damaged.
const maxTokens = 1<<31 - 1

// RowError is a malformed line of a request trace.
type RowError struct {
	File string
	Line int // from 1
	Err  error
}

// Error returns one line: file, line, finding and expectation.
func (e *RowError) Error() string {
	return fmt.Sprintf("read requests: %s:%d: %v", e.File, e.Line, e.Err)
}

// Unwrap returns the cause.
func (e *RowError) Unwrap() error { return e.Err }

// Reader streams the requests of a file in order of arrival.
type Reader struct {
	path   string
	format Format
	file   *os.File
	rows   rows
	size   int64
	read   int           // requests so far
	last   time.Duration // arrival of the last one
	classy bool          // whether the first one has a class
	failed error         // the end of the stream
}

// rows are the lines of one format. next fills in a request, with its arrival counted from the
// first one's, and returns the number of its line. It returns io.EOF if there is none.
type rows interface {
	next(q *Request) (line int, err error)
}

// Open opens a request trace, with or without gzip. Its content decides the format. The caller
// closes it.
func Open(path string) (*Reader, error) {
	f, text, err := openText(path)
	if err != nil {
		return nil, fmt.Errorf("read requests: %w", err)
	}
	r := &Reader{path: path, file: f, format: sniff(text)}
	if err := r.begin(text); err != nil {
		f.Close()
		return nil, err
	}
	return r, nil
}

// openText opens a regular file, unpacks gzip and drops a byte order mark. Its errors name the file.
func openText(path string) (*os.File, *bufio.Reader, error) {
	info, err := os.Stat(path)
	switch {
	case storage.IsURL(path):
		return nil, nil, fmt.Errorf("%s: only Top-K traces are read from an object store. Copy the file here first", path)
	case err != nil:
		return nil, nil, err
	case info.IsDir():
		return nil, nil, fmt.Errorf("%s is a folder, expected a file: name the files in it", path)
	case !info.Mode().IsRegular():
		return nil, nil, fmt.Errorf("%s %s", path, files.NotRegular)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, nil, err
	}
	text, err := gunzip.Reader(f)
	if err != nil {
		f.Close()
		return nil, nil, fmt.Errorf("%s: %w", path, err)
	}
	return f, bufio.NewReaderSize(bom.Reader(text), 1<<16), nil
}

// begin reads the header of the format, and rejects content without one.
func (r *Reader) begin(text *bufio.Reader) error {
	info, err := r.file.Stat()
	if err != nil {
		return fmt.Errorf("read requests: %w", err)
	}
	r.size = info.Size()
	switch r.format {
	case Azure:
		if r.rows, err = newAzureRows(text); err != nil {
			return &RowError{r.path, 1, err}
		}
		return nil
	case Recorded:
		rows, line, err := newRecordedRows(text)
		if err != nil {
			return &RowError{r.path, line, err}
		}
		r.rows = rows
		return nil
	case Mooncake:
		r.rows = &mooncakeRows{lines: text}
		return nil
	case Parquet:
		return fmt.Errorf("read requests: %s is a Parquet file, expected %s", r.path, Known)
	}
	head, err := text.Peek(40)
	switch {
	case len(head) > 0:
		return fmt.Errorf("read requests: %s begins with %q, expected %s", r.path, head, Known)
	case err != io.EOF:
		return fmt.Errorf("read requests: %s: %w", r.path, err)
	}
	return fmt.Errorf("read requests: %s is empty: copy or make it again (datasets/requests/README.md)", r.path)
}

// Format returns the format of the content.
func (r *Reader) Format() Format { return r.format }

// Bytes returns the size of the file on disk.
func (r *Reader) Bytes() int64 { return r.size }

// Read puts the next request into q and reuses q.PrefixBlocks, which are valid until the next call.
// io.EOF follows the last request. Any other error ends the stream: a failure of reading, or a
// *RowError. A *RowError means that a line is malformed, or contradicts itself or earlier lines.
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
		return fmt.Errorf("read requests: %s: no request, expected at least one", r.path)
	case err == io.EOF:
		return io.EOF
	case err == nil && q.Arrival < r.last:
		err = fmt.Errorf("the timestamp is %v before the previous one, expected requests in order of arrival", r.last-q.Arrival)
	case err == nil && r.read > 0 && (q.Class != "") != r.classy:
		err = fmt.Errorf("class %q, expected one for each request or for none", q.Class)
	}
	if err != nil {
		return &RowError{r.path, line, err}
	}
	r.classy = q.Class != ""
	r.read, r.last = r.read+1, q.Arrival
	return nil
}

// Close closes the file.
func (r *Reader) Close() error { return r.file.Close() }

// Detect returns the format of the file at path, from its content and never from its name. It
// returns Unknown for other content. The error is one of reading.
func Detect(path string) (Format, error) {
	f, text, err := openText(path)
	if err != nil {
		return Unknown, err
	}
	defer f.Close()
	return sniff(text), nil
}

// sniffed is the size of the content that decides its format. The first keys of a line identify
// Mooncake's.
const sniffed = 1 << 12

// sniff reads the beginning of unpacked content without consuming it.
func sniff(r *bufio.Reader) Format {
	head, _ := r.Peek(sniffed)
	switch first, _, _ := strings.Cut(string(head), "\n"); {
	case bytes.HasPrefix(head, []byte("PAR1")):
		return Parquet
	case strings.HasPrefix(first, "TIMESTAMP,"):
		return Azure
	case recorded.Match(head):
		return Recorded
	case strings.HasPrefix(first, "{") && hasKey(head, mooncakeKeys[1:4]): // other formats have a timestamp too
		return Mooncake
	}
	return Unknown
}

// hasKey reports whether the first object of the text, which may be cut, has one of the keys.
func hasKey(text []byte, keys []string) bool {
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.Token()
	for dec.More() {
		key, err := dec.Token()
		name, _ := key.(string)
		if err != nil || slices.Contains(keys, name) {
			return err == nil
		}
		var value json.RawMessage
		if dec.Decode(&value) != nil {
			return false
		}
	}
	return false
}

package importer

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/kvreplay/kvreplay/internal/files"
	"github.com/kvreplay/kvreplay/internal/gunzip"
	"github.com/kvreplay/kvreplay/trace"
)

// source is one open file. Readers get its unpacked text. Formats with random access get a
// temporary file.
type source struct {
	path    string
	number  int32 // position on the command line
	size    int64 // bytes on disk
	found   Found
	unit    string // unit of `at` in a record: line, row, position
	records int64
	ordered bool // the source states the order of its lists
	// candidates is the longest list that the source states, M. 0 is not stated.
	candidates int
	opts       *Options
	file       *os.File
	closers    []func()
}

// Detect finds the format of the file at path from its content, never from its name.
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
		return nil, fmt.Errorf("%s: is a folder, expected a file: name the files in it", path)
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%s: %s", path, files.NotRegular)
	case info.Size() == 0:
		return nil, fmt.Errorf("%s: %w", path, errEmpty)
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

// reader returns the unpacked content from its beginning. It skips the byte order mark that editors
// put before a text. No binary format begins with its bytes.
func (s *source) reader() (io.Reader, error) {
	if _, err := s.file.Seek(0, io.SeekStart); err != nil {
		return nil, err
	}
	r, err := gunzip.Reader(bufio.NewReaderSize(s.file, 1<<18))
	if err != nil {
		return nil, err
	}
	if head, _ := r.Peek(3); string(head) == "\xef\xbb\xbf" {
		_, _ = r.Discard(3)
	}
	return r, nil
}

// randomAccess returns the unpacked content as a file, with its size in bytes. Content in gzip is
// unpacked to a temporary file.
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
		return nil, 0, fmt.Errorf("unpack to a temporary file ($TMPDIR names its folder): %w", err)
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

// at returns the name of a place in the source.
func (s *source) at(n int64) string { return fmt.Sprintf("%s: %s %d", s.path, s.unit, n) }

// errorAt returns an error at a line, row or position.
func (s *source) errorAt(n int64, format string, args ...any) error {
	return fmt.Errorf("%s: %w", s.at(n), fmt.Errorf(format, args...))
}

func (s *source) explain(err error) error {
	if strings.HasPrefix(err.Error(), s.path+":") {
		return err
	}
	return fmt.Errorf("%s: %w", s.path, err)
}

// Format is the format of a source.
type Format int

// The formats that Import reads. The names that messages use are in String.
const (
	Unknown Format = iota
	SGLang
	NPZ
	JSONL
	ArrowFile
	ArrowStream
	Parquet
)

var formatNames = [...]string{"unknown", "SGLang JSON", "npz", "JSON lines", "Arrow IPC file", "Arrow IPC stream", "Parquet"}

// String returns the name of the format in messages.
func (f Format) String() string { return formatNames[f] }

// Known lists the formats, for messages.
const Known = "SGLang JSON, npz, JSON lines, Arrow or Parquet (trace/importer/README.md)"

// errEmpty is the error of a source without content.
var errEmpty = errors.New("is empty: copy or record it again")

// Found is the detected format of a file.
type Found struct {
	Format Format
	Gzip   bool
}

// String returns the format and its compression.
func (f Found) String() string {
	if f.Gzip {
		return f.Format.String() + " (gzip)"
	}
	return f.Format.String()
}

// magics are the first bytes of known formats, readable or not.
var magics = []struct {
	bytes  string
	format Format
	name   string // name and remedy of a format that is not read
}{
	{"PK\x03\x04", NPZ, ""},
	{"PK\x05\x06", Unknown, "an empty zip archive"},
	{"ARROW1", ArrowFile, ""},
	{"\xff\xff\xff\xff", ArrowStream, ""},
	{"PAR1", Parquet, ""},
	{"PARE", Unknown, "an encrypted Parquet file (decrypt it first)"},
	{"\x93NUMPY", Unknown, "a single .npy array (numpy.savez saves topk_indices, prompt_len, output_len and slot_ctx0 together)"},
	{"\x28\xb5\x2f\xfd", Unknown, "zstd data (unpack it with `zstd -d`)"},
	{"BZh", Unknown, "bzip2 data (unpack it with `bunzip2`)"},
	{"\xfd7zXZ", Unknown, "xz data (unpack it with `unxz`)"},
	{"\x1f\x8b", Unknown, "gzip inside gzip (unpack one of them)"},
	{"\x89HDF", Unknown, "an HDF5 file"},
	{"\x80\x03", Unknown, pickle},
	{"\x80\x04", Unknown, pickle},
	{"\x80\x05", Unknown, pickle},
	{"\xff\xfe", Unknown, "text in UTF-16 (convert it with `iconv -f utf-16 -t utf-8`)"},
	{"\xfe\xff", Unknown, "text in UTF-16 (convert it with `iconv -f utf-16 -t utf-8`)"},
	{"FEA1", Unknown, "a Feather V1 file (write Arrow IPC, which is Feather V2)"},
}

const pickle = "a Python pickle (save it with numpy.savez, or a table with to_parquet)"

// sniff detects the format of content that is not compressed. It reads r only as far as the keys of
// the first object require.
func sniff(r io.Reader) (Format, error) {
	head := make([]byte, 512)
	n, err := io.ReadFull(r, head)
	if err != nil && err != io.ErrUnexpectedEOF && err != io.EOF {
		return Unknown, err
	}
	head = head[:n]
	if n == 0 {
		return Unknown, errEmpty
	}
	for _, m := range magics {
		if bytes.HasPrefix(head, []byte(m.bytes)) {
			if m.name != "" {
				return Unknown, fmt.Errorf("is %s, expected %s", m.name, Known)
			}
			return m.format, nil
		}
	}
	text := bytes.TrimLeft(head, " \t\r\n")
	if len(text) > 0 && (text[0] == '{' || text[0] == '[') {
		return sniffJSON(io.MultiReader(bytes.NewReader(head), r))
	}
	return Unknown, fmt.Errorf("begins with %q, expected %s", head[:min(n, 16)], Known)
}

// sniffJSON reads the keys of the first object until one identifies the format.
func sniffJSON(r io.Reader) (Format, error) {
	dec := json.NewDecoder(r)
	list := false
	for {
		t, err := dec.Token()
		if err != nil {
			return Unknown, fmt.Errorf("begins like JSON, but: %w", jsonCause(err))
		}
		if t == json.Delim('{') {
			break
		}
		if list = t == json.Delim('['); !list {
			return Unknown, fmt.Errorf("is a JSON list without an object, expected %s", Known)
		}
	}
	var keys []string
	for dec.More() {
		t, err := dec.Token()
		if err != nil {
			return Unknown, fmt.Errorf("begins like JSON, but: %w", jsonCause(err))
		}
		key, _ := t.(string)
		switch {
		case key == "meta_info":
			return SGLang, nil
		case jsonlKeys[key] && list:
			return Unknown, fmt.Errorf("is a JSON list of records: convert it to one record per line with `jq -c '.[]'`")
		case jsonlKeys[key]:
			return JSONL, nil
		}
		keys = append(keys, key)
		if err := skipValue(dec); err != nil {
			return Unknown, fmt.Errorf("begins like JSON, but: %w", jsonCause(err))
		}
	}
	if slices.Contains(keys, trace.ColumnNames[trace.ColIndices]) {
		return Unknown, errors.New("is JSON with columns of a trace, expected Parquet or Arrow (pandas: to_parquet)")
	}
	return Unknown, fmt.Errorf("is JSON with neither meta_info nor selected_token_pos (keys: %s), expected %s",
		strings.Join(keys[:min(len(keys), 10)], ", "), Known)
}

// jsonlKeys are keys that only JSONL has.
var jsonlKeys = map[string]bool{"selected_token_pos": true, "step_idx": true, "seq_len_current": true}

// skipValue consumes the next value at any depth.
func skipValue(dec *json.Decoder) error {
	for depth := 0; ; {
		t, err := dec.Token()
		if err != nil {
			return err
		}
		switch t {
		case json.Delim('{'), json.Delim('['):
			depth++
		case json.Delim('}'), json.Delim(']'):
			depth--
		}
		if depth == 0 {
			return nil
		}
	}
}

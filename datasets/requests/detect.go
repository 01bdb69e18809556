package requests

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/kvreplay/kvreplay/datasets/bom"
	"github.com/kvreplay/kvreplay/internal/files"
	"github.com/kvreplay/kvreplay/internal/gunzip"
)

// Detect tells from its content, never from its name, what the file at path is. The
// error is one of reading; content that is none of the formats is Unknown.
func Detect(path string) (Format, error) {
	f, err := openFile(path)
	if err != nil {
		return Unknown, err
	}
	defer f.Close()
	text, err := unpacked(f)
	if err != nil {
		return Unknown, fmt.Errorf("read requests: %s: %w", path, err)
	}
	return sniff(text), nil
}

// openFile opens what can be read from its beginning more than once.
func openFile(path string) (*os.File, error) {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, fmt.Errorf("read requests: %w", err)
	case info.IsDir():
		return nil, fmt.Errorf("read requests: %s is a directory, expected a file; name the files in it", path)
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("read requests: %s %s", path, files.NotRegular)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read requests: %w", err)
	}
	return f, nil
}

// sniffed is how much of the content decides on its format: a line of Mooncake's is
// known by its first keys.
const sniffed = 1 << 12

// sniff looks at the beginning of unpacked content without consuming it.
func sniff(r *bufio.Reader) Format {
	head, _ := r.Peek(sniffed)
	switch first, _, _ := strings.Cut(string(head), "\n"); {
	case bytes.HasPrefix(head, []byte("PAR1")):
		return Parquet
	case strings.HasPrefix(first, "TIMESTAMP,"):
		return Azure
	case strings.HasPrefix(first, "{") && hasKey(head, mooncakeKeys[1:]): // others have a timestamp too
		return Mooncake
	}
	return Unknown
}

// hasKey tells whether one of the keys is in the first object of the text, as far as
// it goes.
func hasKey(text []byte, keys []string) bool {
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.Token()
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			return false
		}
		for _, k := range keys {
			if key == k {
				return true
			}
		}
		var value json.RawMessage
		if dec.Decode(&value) != nil {
			return false
		}
	}
	return false
}

// unpacked looks through gzip and drops a byte order mark.
func unpacked(r io.Reader) (*bufio.Reader, error) {
	text, err := gunzip.Reader(r)
	if err != nil {
		return nil, err
	}
	return bufio.NewReaderSize(bom.Reader(text), 1<<16), nil
}

package files

import (
	"bytes"
	"io"
	"os"
)

// headBytes is the number of first bytes that kindOf reads.
const headBytes = 4096

// magics are the first bytes of files and the names of their kinds.
var magics = []struct{ begin, kind string }{
	{"PAR1", "a Parquet file"}, {"ARROW1", "an Arrow file"}, {"\x93NUMPY", "a NumPy file"}, {"PK\x03\x04", "a ZIP file"},
	{"\x1f\x8b", "a gzip file"}, {"\x28\xb5\x2f\xfd", "a zstd file"}, {"\x89PNG", "a PNG image"}, {"%PDF", "a PDF file"},
	{"schema: 1\nfamily: ", "a plan"}, {`{"schema":1,"engine":`, "a batch file"},
}

// kindOf returns the kind of a file by its first bytes, without leading blanks and comments of YAML. It is ""
// for a file without content. Other YAML, CSV and Markdown are text.
func kindOf(head []byte) string {
	trimmed := bytes.TrimSpace(head)
	for bytes.HasPrefix(trimmed, []byte("#")) {
		_, after, _ := bytes.Cut(trimmed, []byte("\n"))
		trimmed = bytes.TrimSpace(after)
	}
	begins := func(s string) bool { return bytes.HasPrefix(trimmed, []byte(s)) }
	for _, m := range magics {
		if begins(m.begin) {
			return m.kind
		}
	}
	switch {
	case len(bytes.TrimSpace(head)) == 0:
		return ""
	case bytes.IndexByte(head, 0) >= 0:
		return "a binary file"
	case begins("<") && bytes.Contains(head, []byte("<svg")) && !bytes.Contains(head, []byte("<html")):
		return "an SVG image"
	case begins("<!doctype html"), begins("<!DOCTYPE html"), begins("<html"):
		return "an HTML page"
	case begins("{"), begins("[{"), begins("[\n"):
		return "a JSON file"
	}
	return "text"
}

// CheckKind reports before the work that target exists and has another kind than a file that begins
// with head. Such a file is not replaced, because the user probably meant another name. An empty
// file has no kind. The error is a *TargetError.
func CheckKind(target string, head []byte) error {
	if info, err := os.Stat(target); err != nil || !info.Mode().IsRegular() {
		return nil // Check reports it, and opening a pipe would wait
	}
	f, err := os.Open(target)
	if err != nil {
		return nil
	}
	defer f.Close()
	there, err := io.ReadAll(io.LimitReader(f, headBytes))
	if err != nil {
		return err
	}
	if is, want := kindOf(there), kindOf(head); is != "" && want != "" && is != want {
		return OtherKind(target, is+", not "+want)
	}
	return nil
}

// OtherKind returns the error for an output that exists and is of another kind than the command
// writes.
func OtherKind(target, why string) error {
	return &TargetError{target, why + ". Choose another name or remove it", true}
}

// checkKind is CheckKind for the finished output.
func (f *File) checkKind() error {
	head := make([]byte, headBytes)
	n, err := f.pending.ReadAt(head, 0)
	if err != nil && err != io.EOF {
		return cause(err)
	}
	return CheckKind(f.target, head[:n])
}

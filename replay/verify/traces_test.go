package verify

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/kvreplay/kvreplay/internal/fatal"
	"github.com/kvreplay/kvreplay/policies/all"
	"github.com/kvreplay/kvreplay/trace"
	"github.com/kvreplay/kvreplay/trace/tracetest"
)

// TestFoundByDigest checks that a trace under another name is the same trace.
func TestFoundByDigest(t *testing.T) {
	rows := replayed(t, niahPath, []string{"lru"}, []string{"1x"}, nil)
	wantAllHold(t, "another name", rows, tracetest.Copy(t, niahPath, "other.parquet"))
}

// TestNamesOfTraces checks the names of traces in rows. A name that no file has is noted. A name
// that another trace has is a difference. If several files have one digest, any of their names is
// accepted.
func TestNamesOfTraces(t *testing.T) {
	rows := replayed(t, niahPath, []string{"lru", "fifo"}, []string{"1x"}, nil)
	for name, c := range map[string]struct {
		stated  string
		traces  []string
		differs int
		want    string // expected text in the report
	}{
		"own":     {filepath.Base(niahPath), []string{niahPath, coldPath}, 0, ""},
		"free":    {"llama-3-70b.parquet", []string{niahPath, coldPath}, 0, "other name: trace llama-3-70b.parquet of the rows is the file " + filepath.Base(niahPath) + "\n"},
		"another": {filepath.Base(coldPath), []string{niahPath, coldPath}, 2, "row 1 differs: trace " + filepath.Base(coldPath) + ", replayed " + filepath.Base(niahPath) + "\n"},
		"copy":    {"copy.parquet", []string{niahPath, tracetest.Copy(t, niahPath, "copy.parquet")}, 0, ""},
	} {
		named := slices.Clone(rows)
		for i := range named {
			named[i].Trace = c.stated
		}
		r, err := Rows(context.Background(), named, Options{Policies: all.Table(), Traces: c.traces, Sample: All})
		fatal.If(t, err)
		var text strings.Builder
		fatal.If(t, r.RenderTable(&text))
		if r.Differing != c.differs || r.Holding != len(rows)-c.differs || !strings.Contains(text.String(), c.want) || c.want == "" && len(r.Renamed) != 0 {
			t.Errorf("%s: want %d that differ and %q:\n%s", name, c.differs, c.want, &text)
		}
	}
}

// TestForgedTrace checks that a file with a false digest does not confirm rows.
func TestForgedTrace(t *testing.T) {
	path := manyRequests(t)
	rows := replayed(t, path, []string{"lru"}, []string{"1x"}, nil)
	text, err := os.ReadFile(path)
	fatal.If(t, err)
	f, err := trace.Open(path)
	fatal.If(t, err)
	defer f.Close()
	meta, err := f.Meta().Canonical()
	fatal.If(t, err)
	sealOf := func(digest string) []byte {
		sum := sha256.Sum256([]byte(string(meta) + "\n" + digest))
		return []byte(hex.EncodeToString(sum[:8]))
	}
	stated := rows[0].TraceDigest
	forged := "sha256:" + strings.Repeat("0", 64)
	text = bytes.ReplaceAll(text, sealOf(stated), sealOf(forged))
	text = bytes.ReplaceAll(text, []byte(stated), []byte(forged))
	fatal.If(t, os.WriteFile(path, text, 0o644))
	rows[0].TraceDigest = forged
	if r := verified(t, rows, path); r.Unverifiable != 1 || !strings.Contains(r.Outcomes[0].Reason, "altered after writing") {
		t.Errorf("%s: %q, skipped %q", r.Summary(), r.Outcomes[0].Reason, r.Skipped)
	}
}

// TestTraceFiles checks files that are not traces. They are skipped in a folder, and errors if the
// user names them. Other files and folders are ignored.
func TestTraceFiles(t *testing.T) {
	dir := filepath.Dir(tracetest.Copy(t, niahPath, "niah.parquet"))
	fatal.If(t, os.Mkdir(filepath.Join(dir, "a.parquet"), 0o755))
	fatal.If(t, os.WriteFile(filepath.Join(dir, "README.md"), []byte("traces"), 0o644))
	bad := filepath.Join(dir, "bad.parquet")
	fatal.If(t, os.WriteFile(bad, []byte("no trace"), 0o644))
	rows := replayed(t, niahPath, []string{"lru"}, []string{"1x"}, nil)
	if r := verified(t, rows, dir); r.Holding != 1 || len(r.Skipped) != 1 || !strings.Contains(r.Skipped[0], "bad.parquet") {
		t.Errorf("%s, skipped %q", r.Summary(), r.Skipped)
	}
	for _, path := range []string{bad, filepath.Join(dir, "nowhere")} {
		if _, err := Rows(context.Background(), rows, Options{Policies: all.Table(), Traces: []string{path}}); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: error %v", path, err)
		}
	}
}

// TestTooManyOpen checks traces of a folder that cannot be opened because file descriptors run out.
// They are not skipped as broken, and the error states a remedy.
func TestTooManyOpen(t *testing.T) {
	dir, wanted := t.TempDir(), map[string]bool{}
	for _, path := range []string{niahPath, manyRequests(t)} {
		fatal.If(t, os.Rename(tracetest.Copy(t, path, "x.parquet"), filepath.Join(dir, filepath.Base(path))))
		f, err := trace.Open(path)
		fatal.If(t, err)
		wanted[f.StoredDigest()] = true
		f.Close()
	}
	var limit syscall.Rlimit
	next, err := os.Open(dir)
	fatal.If(t, errors.Join(err, syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit)))
	one := limit
	one.Cur = uint64(next.Fd()) + 1 // leaves one free descriptor
	next.Close()
	fatal.If(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &one))
	_, err = openTraces(t.Context(), []string{dir}, wanted)
	fatal.If(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit))
	if err == nil || !strings.Contains(err.Error(), "too many open files (raise `ulimit -n`") {
		t.Errorf("%v", err)
	}
}

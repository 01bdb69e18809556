// Package importer makes traces of format v1 from the files of serving engines and capture scripts.
// It reads SGLang's indexer_topk, one .npz per request, JSON lines, Arrow IPC and Parquet.
// README.md in this folder lists the fields that each must hold.
//
// Start with Import. A source (source.go) is detected from its content. Its decoder passes records
// on, one per (request, layer, head, step). Parquet and Arrow share a table (table.go), which
// checks columns and rows. The collector keeps records in memory or, beyond Options.Memory, in
// temporary files (spill.go), and computes the metadata (meta.go). The emitter (emit.go) reads the
// records back in key order, and a trace.Writer checks every rule. Options may state a field that a
// source does not state. If neither states it, the field stays absent. If both state it, they must
// agree.
package importer

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"

	"github.com/kvreplay/kvreplay/internal/files"
	"github.com/kvreplay/kvreplay/trace"
	"github.com/kvreplay/kvreplay/trace/parquet"
)

// Import reads the files at paths and writes one trace to out, which appears only after success. An
// error names the source file and, if known, the line, row or position.
func Import(ctx context.Context, o Options, out string, paths ...string) (*Result, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	if err := checkOutput(out, paths); err != nil {
		return nil, err
	}
	c := newCollector(ctx, &o)
	defer c.close()
	for _, path := range paths {
		if err := c.readSource(path); err != nil {
			return nil, fmt.Errorf("import: %w", err)
		}
	}
	meta, err := c.metadata()
	if err != nil {
		return nil, fmt.Errorf("import: %w", err)
	}
	return c.emit(out, meta)
}

// checkOutput checks before the import that out can be written.
func checkOutput(out string, paths []string) error {
	if err := files.Check(out, paths...); err != nil {
		return fmt.Errorf("import: %w", err)
	}
	probe, err := os.CreateTemp(filepath.Dir(out), ".kvreplay-import-*")
	if err != nil {
		return fmt.Errorf("import: cannot write output %s: %w", out, err)
	}
	probe.Close()
	return os.Remove(probe.Name())
}

func (c *collector) readSource(path string) error {
	s, err := openSource(path, c.opts)
	if err != nil {
		return err
	}
	defer s.close()
	s.number = int32(len(c.sources))
	c.sources = append(c.sources, s)
	if err := parquet.Guard(func() error { return decoders[s.found.Format](s, c) }); err != nil {
		return s.explain(err)
	}
	if s.records == 0 {
		return fmt.Errorf("%s: %v holds no record, expected at least one step", path, s.found)
	}
	return nil
}

// decoder turns one kind of source into records.
type decoder func(*source, *collector) error

var decoders = map[Format]decoder{
	SGLang:      decodeSGLang,
	NPZ:         decodeNPZ,
	JSONL:       decodeJSONL,
	ArrowFile:   decodeArrow,
	ArrowStream: decodeArrow,
	Parquet:     decodeParquet,
}

// statement is the metadata that one source states for the whole trace. Zero fields are not stated.
type statement struct {
	source string // its path, empty for flags
	meta   trace.Meta
}

// DefaultMemory is the memory budget if Options states none, in bytes.
const DefaultMemory = 4 << 30

// minMemory is the smallest budget that leaves room for one long record, in bytes.
const minMemory = 64 << 10

// DefaultWindows is the default number of last prompt queries in an SGLang import. ESS warms up
// with 32.
const DefaultWindows = 32

// Options states facts that the sources lack. The zero value states nothing.
type Options struct {
	// Meta holds the caller's metadata. Zero fields are not stated. The others must agree with any
	// source that states them. Version and Candidates are ignored.
	Meta trace.Meta
	// RequestID names the request if a source does not. An .npz never does.
	RequestID string
	// PromptLen is the length of the prompt in tokens if a source does not imply it. 0 is not
	// stated.
	PromptLen int
	// Layers is the number of indexer layers of an SGLang source. 0 is not stated.
	Layers int
	// IndexTopK is the list length of an SGLang source. 0 is not stated.
	IndexTopK int
	// Windows is the largest number of windows to keep, steps -Windows … -1. If it is nil, an
	// SGLang source keeps DefaultWindows, and other sources keep all.
	Windows *int
	// Memory is the memory budget in bytes, 0 for DefaultMemory. Records beyond a quarter of it go
	// to a temporary file. Another quarter is for data that must be held whole: an .npz, one SGLang
	// response or one Arrow record batch.
	Memory int64
	// Progress, if not nil, is called from time to time with the number of records read. After all
	// were read, it also gets the number written. The last call is (read, read).
	Progress func(read, written int64)
	// Tmp is the directory of temporary files, empty for that of the system.
	Tmp string
}

// Validate reports the first field out of range.
func (o *Options) Validate() error {
	switch {
	case o.PromptLen < 0 || o.PromptLen > math.MaxInt32:
		return fmt.Errorf("import: prompt length %d, expected 0 (not stated) to %d", o.PromptLen, math.MaxInt32)
	case o.Layers < 0:
		return fmt.Errorf("import: %d layers, expected at least 1", o.Layers)
	case o.IndexTopK < 0:
		return fmt.Errorf("import: index_topk %d, expected at least 1", o.IndexTopK)
	case o.Windows != nil && *o.Windows < 0:
		return fmt.Errorf("import: %d windows, expected 0 or more", *o.Windows)
	case o.Memory != 0 && o.Memory < minMemory:
		return fmt.Errorf("import: memory of %d bytes, expected at least %d", o.Memory, minMemory)
	case o.Meta.TopK < 0 || o.Meta.BlockTokens < 0:
		return fmt.Errorf("import: topk %d, block_tokens %d, expected none below 1", o.Meta.TopK, o.Meta.BlockTokens)
	}
	probe := o.Meta
	probe.Version, probe.TopK, probe.BlockTokens = trace.Version, max(probe.TopK, 1), max(probe.BlockTokens, 1)
	probe.Order = cmp.Or(probe.Order, trace.OrderRank)
	if err := probe.Validate(); err != nil {
		return fmt.Errorf("import: %w", err)
	}
	return nil
}

func (o *Options) memory() int64 {
	if o.Memory == 0 {
		return DefaultMemory
	}
	return o.Memory
}

// wholeLimit returns the largest size of data that is held in memory whole, in bytes.
func (o *Options) wholeLimit() int64 { return o.memory() / 4 }

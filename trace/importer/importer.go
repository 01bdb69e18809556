// Package importer makes traces of format v1 out of what serving engines and
// capture scripts write: SGLang's indexer_topk, one .npz a request, JSON lines,
// Arrow IPC and Parquet. README.md beside this file says what each must hold.
//
// Every source goes the same way: a decoder hands on records, one a (request,
// layer, head, step); the collector keeps them in memory or, beyond Options.Memory,
// in a temporary file; then they come back in key order and a trace.Writer checks
// every rule. What the sources do not say must be said by Options or stays absent;
// what both say must agree.
package importer

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/kvreplay/kvreplay/internal/files"
	"github.com/kvreplay/kvreplay/trace"
)

// Import reads the files at paths and writes one trace to out, which appears only
// when all went well. An error names the source file and, where there is one, the
// line, row or position.
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
	meta, err := c.settle()
	if err != nil {
		return nil, fmt.Errorf("import: %w", err)
	}
	return c.emit(out, meta)
}

// checkOutput finds out before the work whether out can be written.
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

// readSource opens, detects and decodes one file into the collector.
func (c *collector) readSource(path string) error {
	s, err := openSource(path, c.opts)
	if err != nil {
		return err
	}
	defer s.close()
	c.begin(s)
	if err := guard(func() error { return decoders[s.found.Format](s, c) }); err != nil {
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
	ArrowFile:   decodeArrowFile,
	ArrowStream: decodeArrowStream,
	Parquet:     decodeParquet,
}

// guard turns a panic of a decoding library into an error.
func guard(f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("corrupt data: %v", p)
		}
	}()
	return f()
}

// stated is what a source says of the whole trace; zero fields are unsaid.
type stated struct {
	name string
	meta trace.Meta
}

// Package batch divides a replay of many traces into shards. The machines of a cluster count the
// shards, and a merge makes the rows of one machine from the counts. An engine such as Slurm or
// Kubernetes starts, repeats and watches the shards. A batch has no scheduler of its own.
//
// A batch file lists the traces and the shards. A shard is some chunks of some traces, with every
// policy and capacity of the replay. An attempt at a shard writes one pack, a file with its counts.
// Counts are integers, so the rows do not depend on the cut, on the order, or on the number of
// attempts. FORMAT.md describes both files.
package batch

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/kvreplay/kvreplay/internal/files"
	"github.com/kvreplay/kvreplay/internal/slice"
	"github.com/kvreplay/kvreplay/internal/storage"
	"github.com/kvreplay/kvreplay/internal/text"
	"github.com/kvreplay/kvreplay/replay"
	"github.com/kvreplay/kvreplay/trace"
)

// Schema is the version of batch files and packs.
const Schema = 1

// Batch is the content of a batch file.
type Batch struct {
	Arguments []string // flags of `kvreplay replay` that state policies, capacities and mechanisms
	Engine    string   // version of the replay semantics
	Traces    []Trace
	Shards    []Shard // the largest first
	Packs     string  // folder or URL of the packs, as paths of traces. Empty: see PackFolder

	folder string // of the batch file, or its URL, where relative paths of traces begin
	digest string
}

// Trace is a trace of a batch.
type Trace struct {
	Path    string `json:"trace"` // or URL, with slashes. A relative path begins at the folder of the batch file
	Bytes   int64  `json:"bytes"`
	Digest  string `json:"digest"`
	Pass    string `json:"pass"`    // see replay.Job.Pass
	Streams int    `json:"streams"` // in the trace
	Cells   int    `json:"cells"`
	Chunks  int    `json:"units"`
	Work    int64  `json:"work"` // indices × cells
}

// Shard is the work of one task.
type Shard struct {
	Number int    `json:"shard"`
	Work   int64  `json:"work"`  // indices × cells
	Bytes  int64  `json:"bytes"` // estimate of the bytes to read
	Parts  []Part `json:"parts"`
}

// Part is a run of chunks of a trace.
type Part struct {
	Trace int `json:"trace"` // index in Batch.Traces
	From  int `json:"from"`  // first chunk
	To    int `json:"to"`    // chunk after the last
}

// Permanent marks an error that another attempt meets again.
type Permanent struct{ Err error }

// Error returns the text of the cause.
func (p *Permanent) Error() string { return p.Err.Error() }

// Unwrap returns the cause.
func (p *Permanent) Unwrap() error { return p.Err }

func permanentf(format string, args ...any) error { return &Permanent{fmt.Errorf(format, args...)} }

// Cells returns the number of cells of all traces.
func (b *Batch) Cells() (cells int) {
	return slice.Sum(b.Traces, func(t Trace) int { return t.Cells })
}

// Bytes returns the size of all traces.
func (b *Batch) Bytes() (bytes int64) {
	return slice.Sum(b.Traces, func(t Trace) int64 { return t.Bytes })
}

// Work returns the work of all shards in indices × cells.
func (b *Batch) Work() (work int64) {
	return slice.Sum(b.Shards, func(s Shard) int64 { return s.Work })
}

// header is the first line of a batch file.
type header struct {
	Schema    int      `json:"schema"`
	Engine    string   `json:"engine"`
	Arguments []string `json:"arguments"`
	Traces    int      `json:"traces"`
	Shards    int      `json:"shards"`
	Packs     string   `json:"packs,omitempty"`
}

// sealName is the name in the seal of a batch file, which may be renamed.
const sealName = "kvreplay batch"

// encode returns the bytes of the batch file and sets the digest.
func (b *Batch) encode() []byte {
	var text bytes.Buffer
	line := json.NewEncoder(&text)
	line.SetEscapeHTML(false)
	write := func(v any) {
		if err := line.Encode(v); err != nil {
			panic(err) // cannot happen: v holds only texts and numbers
		}
	}
	write(header{Schema, b.Engine, b.Arguments, len(b.Traces), len(b.Shards), b.Packs})
	for _, t := range b.Traces {
		write(t)
	}
	for _, s := range b.Shards {
		write(s)
	}
	b.digest = digestOf(text.Bytes())
	return append(text.Bytes(), files.Seal(sealName, text.Bytes())...)
}

func digestOf(text []byte) string {
	return fmt.Sprintf("sha256:%x", sha256.Sum256(text))
}

// Write writes the batch file, whole or not at all. If the file of an equal batch exists, it stays. A
// file that is no batch file is not replaced, nor one whose folder of packs has packs. The error is
// then a *files.TargetError.
func (b *Batch) Write(path string) error {
	at, name, err := openFolder(path)
	if err != nil {
		return err
	}
	b.folder = at.at
	old, err := readOld(path)
	if err != nil {
		return err
	}
	if old != nil && old.digest != b.digest {
		status, err := old.Status(old.PackFolder(path))
		if err != nil {
			return err
		}
		if n := slice.Count(status.Shards, func(s State) bool { return s.Chunks > 0 }); n > 0 {
			return &files.TargetError{Target: path, Why: fmt.Sprintf("another batch, and %s has packs of %s. Choose another name, or remove both",
				old.PackFolder(path), text.Count(n, "shard")), Folder: true}
		}
	}
	return at.put(name, b.encode())
}

// mostBatch is the largest batch file, in bytes.
const mostBatch = 1 << 30

// readOld reads the batch file that a new one would replace, or nil if there is none.
func readOld(path string) (*Batch, error) {
	size, err := sizeOf(path)
	switch {
	case errors.Is(err, fs.ErrNotExist), err == nil && size == 0:
		return nil, nil
	case err != nil:
		return nil, err
	case size <= mostBatch && (storage.IsURL(path) || files.CheckKind(path, new(Batch).encode()) == nil):
		old, err := Read(path)
		if err == nil || storage.Unread(err) {
			return old, err
		}
	}
	return nil, files.OtherKind(path, "no batch file")
}

// Read reads a batch file. Its error is Permanent if the file is damaged or of another version.
func Read(path string) (*Batch, error) {
	at, name, err := openFolder(path)
	if err != nil {
		return nil, err
	}
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return nil, permanentf("%s is a folder, expected a batch file, or traces such as %s", path, filepath.Join(path, "*.parquet"))
	}
	text, err := at.get(name)
	if err != nil {
		return nil, fmt.Errorf("read batch file: %w", err)
	}
	b, err := decode(text)
	if err != nil {
		return nil, &Permanent{fmt.Errorf("batch file %s: %w", path, err)}
	}
	b.folder = at.at
	return b, nil
}

// PackFolder returns the folder or URL of the packs, for the batch file at path. Its default is the name of
// the file and ".packs".
func (b *Batch) PackFolder(path string) string {
	if b.Packs == "" {
		return path + ".packs"
	}
	return b.place(b.Packs)
}

// decode reads the bytes of a batch file.
func decode(text []byte) (*Batch, error) {
	text, ok := files.Unseal(sealName, text)
	if !ok {
		return nil, errors.New("damaged, or neither a batch file nor a trace (*.parquet): make it again with kvreplay batch plan")
	}
	b := &Batch{digest: digestOf(text)}
	line := json.NewDecoder(bytes.NewReader(text))
	var h header
	if err := line.Decode(&h); err != nil {
		return nil, err
	}
	lines := bytes.Count(text, []byte("\n")) - 1
	switch {
	case h.Schema != Schema:
		return nil, fmt.Errorf("has schema %d, this program reads %d: use the program that made it", h.Schema, Schema)
	case h.Traces < 0 || h.Shards < 0 || h.Traces > lines || h.Shards > lines-h.Traces:
		return nil, fmt.Errorf("states %d traces and %d shards, and has fewer lines", h.Traces, h.Shards)
	}
	b.Arguments, b.Engine, b.Traces, b.Shards = h.Arguments, h.Engine, make([]Trace, h.Traces), make([]Shard, h.Shards)
	b.Packs = h.Packs
	for i := range b.Traces {
		if err := line.Decode(&b.Traces[i]); err != nil {
			return nil, err
		}
	}
	for i := range b.Shards {
		if err := line.Decode(&b.Shards[i]); err != nil {
			return nil, err
		}
	}
	return b, b.check()
}

// check reports whether the shards cover every chunk of every trace once.
func (b *Batch) check() error {
	parts := make([][]Part, len(b.Traces))
	for i, s := range b.Shards {
		if s.Number != i {
			return fmt.Errorf("shard %d is called %d", i, s.Number)
		}
		for _, p := range s.Parts {
			if p.Trace < 0 || p.Trace >= len(b.Traces) || p.From < 0 || p.From >= p.To {
				return fmt.Errorf("shard %d has the part %+v", i, p)
			}
			parts[p.Trace] = append(parts[p.Trace], p)
		}
	}
	for i, t := range b.Traces {
		slice.Sort(parts[i], func(p, q Part) int { return p.From - q.From })
		at := 0
		for _, p := range parts[i] {
			if p.From != at {
				return fmt.Errorf("the shards count chunk %d of %s twice or never", min(at, p.From), t.Path)
			}
			at = p.To
		}
		if at != t.Chunks || at == 0 {
			return fmt.Errorf("the shards count %d of %d chunks of %s", at, t.Chunks, t.Path)
		}
	}
	return nil
}

// checkEngine returns an error if another version of the engine planned the batch.
func (b *Batch) checkEngine() error {
	if b.Engine != replay.EngineVersion {
		return permanentf("the batch file is of engine version %s, this program has version %s: use one version of kvreplay for the whole batch", b.Engine, replay.EngineVersion)
	}
	return nil
}

// open opens a trace of the batch and plans its replay. An error is Permanent if the trace or the
// program is not the one of the plan.
func (b *Batch) open(t *Trace, o replay.Options) (*trace.File, *replay.Job, error) {
	f, err := trace.Open(b.place(t.Path))
	if err != nil {
		return nil, nil, lasting(err)
	}
	job, err := b.plan(t, f, o)
	if err != nil {
		f.Close()
		return nil, nil, lasting(err)
	}
	return f, job, nil
}

func (b *Batch) plan(t *Trace, f *trace.File, o replay.Options) (*replay.Job, error) {
	if f.StoredDigest() != t.Digest {
		return nil, permanentf("trace %s has the digest %q, the batch file pins %s: restore the trace, or plan again", f.Path(), f.StoredDigest(), t.Digest)
	}
	job, err := replay.Plan(f, o)
	if err != nil {
		return nil, err
	}
	if pass := job.Pass(); pass != t.Pass {
		return nil, permanentf("this program replays %s differently from the one that planned (pass %s, expected %s): "+
			"use one version of kvreplay for the whole batch, and leave the files that the flags name as they were", f.Path(), pass, t.Pass)
	}
	return job, nil
}

// place returns the path or URL that the batch file states. Relative ones begin at its folder.
func (b *Batch) place(path string) string {
	if storage.IsURL(path) || filepath.IsAbs(filepath.FromSlash(path)) {
		return filepath.FromSlash(path)
	}
	return join(b.folder, path)
}

// lasting marks errors that lie in a trace or in the options as Permanent. Errors of the file system
// may pass.
func lasting(err error) error {
	_, ofFile := errors.AsType[*os.PathError](err)
	_, ofPlan := errors.AsType[*replay.PlanError](err)
	if ofFile || storage.Unread(err) && !errors.Is(err, storage.ErrChanged) {
		return err
	}
	if ofPlan || trace.AsError(err) != nil {
		return &Permanent{err}
	}
	return err
}

package replay

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/kvreplay/kvreplay/metrics"
	"github.com/kvreplay/kvreplay/trace/files"
)

// Store keeps what is finished in a folder, so that a run that was stopped, by Ctrl-C,
// a kill, a full disk or a power cut, continues where it was and a larger run replays
// only what is new:
//
//	cells/KEY.jsonl      the rows of a finished cell, named by all that they depend on
//	partial/KEY/*.json   what is counted of an unfinished pass over a trace
//	profiles/KEY.sha256  the digest of a finished profile, whose bytes lie elsewhere
//
// Every file appears whole or not at all. Several runs may share a folder.
type Store struct{ dir string }

// OpenStore opens the store in dir, which is made if need be.
func OpenStore(dir string) (*Store, error) {
	for _, sub := range []string{"cells", "partial", "profiles"} {
		if err := os.MkdirAll(filepath.Join(dir, sub), 0o755); err != nil {
			return nil, fmt.Errorf("open results folder: %w", err)
		}
	}
	for _, written := range []string{".", "cells", "profiles"} {
		files.Sweep(filepath.Join(dir, written))
	}
	return &Store{dir: dir}, nil
}

// cellKey is everything that a cell's rows depend on.
type cellKey struct {
	Trace, Digest, Policy, Capacity, Warmup string
	TopK, Candidates, Sink, Local           int
	EntryBytes                              *int
	BlockTokens, StepTokens, SharedHeads    int
	Layers                                  []int32
	Requests                                []string
	Per                                     Detail
	Prefetch, Tiers, Above, Allocation      string
	Outliers, Clusters                      string
	Tier                                    int
	Pool                                    Pool `json:",omitempty"`
	Seed                                    uint64
	Engine                                  string
	Schema                                  int
}

func (p *plan) key(c *cellPlan) cellKey {
	k := cellKey{Trace: filepath.Base(p.file.Path()), Digest: p.digest, Policy: c.spec.Name(), Warmup: p.warmup.String(),
		TopK: p.topk, Candidates: p.m, Sink: p.pins.Sink, Local: p.pins.Local, EntryBytes: p.bytes, BlockTokens: p.pins.BlockTokens, StepTokens: p.layout.mtp, SharedHeads: p.layout.heads,
		Layers: p.opt.Layers, Requests: p.opt.Requests, Per: p.opt.Per, Outliers: p.opt.Outliers.String(), Clusters: p.opt.Clusters.String(), Prefetch: p.opt.Prefetch.String(), Allocation: p.allocationDigest(), Tiers: tiersText(p.opt.Tiers, p.opt.Inclusive), Above: c.above, Tier: c.tier, Pool: p.opt.Pool, Seed: p.opt.Seed, Engine: EngineVersion, Schema: metrics.RowSchema}
	if c.capacity != nil {
		k.Capacity = c.capacity.String()
	}
	return k
}

// keys are the keys of all cells of the plan.
func (p *plan) keys() []cellKey {
	keys := make([]cellKey, len(p.cells))
	for c := range p.cells {
		keys[c] = p.key(&p.cells[c])
	}
	return keys
}

// hashOf names a file by the content that v describes.
func hashOf(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err) // strings and numbers
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:12])
}

func (s *Store) cellPath(k cellKey) string {
	return filepath.Join(s.dir, "cells", hashOf(k)+".jsonl")
}

// load returns the rows of a finished cell; nil if it is not there. A file that is
// damaged, or is not what its name says, counts as not there: the cell is replayed
// and the file replaced.
func (s *Store) load(k cellKey, parts int) ([]metrics.Row, error) {
	text, err := os.ReadFile(s.cellPath(k))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read finished cell: %w", err)
	}
	rows, err := metrics.DecodeRows(bytes.NewReader(text), s.cellPath(k))
	if err != nil || len(rows) != parts {
		return nil, nil
	}
	for _, r := range rows {
		if r.TraceDigest != k.Digest || r.Policy != k.Policy || r.Engine != k.Engine || r.Warmup != k.Warmup || r.TopK != k.TopK {
			return nil, nil
		}
	}
	return rows, nil
}

// save keeps the rows of a finished cell.
func (s *Store) save(k cellKey, rows []metrics.Row) error { return keepRows(s.cellPath(k), rows) }

func (s *Store) digestPath(key string) string {
	return filepath.Join(s.dir, "profiles", key+".sha256")
}

// saveDigest keeps the digest of a finished profile.
func (s *Store) saveDigest(key, digest string) error {
	return writeWhole(s.digestPath(key), []byte(digest+"\n"))
}

// hasProfile reports whether the file at path is, to the byte, the profile of the key
// that a run with this store has finished.
func (s *Store) hasProfile(key, path string) bool {
	want, err := os.ReadFile(s.digestPath(key))
	if err != nil {
		return false
	}
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		return false
	}
	return hex.EncodeToString(sum.Sum(nil))+"\n" == string(want)
}

// Keep keeps the rows of a run under name in the store's folder.
func (s *Store) Keep(name string, rows []metrics.Row) error {
	return keepRows(filepath.Join(s.dir, name), rows)
}

func keepRows(path string, rows []metrics.Row) error {
	var text bytes.Buffer
	if err := metrics.WriteJSONL(&text, rows); err != nil {
		return err
	}
	return writeWhole(path, text.Bytes())
}

// writeWhole writes a file so that it is there whole or not at all.
func writeWhole(path string, text []byte) error {
	if err := files.Write(path, text); err != nil {
		return fmt.Errorf("keep results: %w", err)
	}
	return nil
}

package run

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
	"strings"

	"github.com/kvreplay/kvreplay/internal/files"
	"github.com/kvreplay/kvreplay/internal/slice"
	"github.com/kvreplay/kvreplay/metrics/result"
)

// Store keeps finished work in a folder. A run continues after Ctrl-C, a kill, a full disk or a
// power cut, and a larger run replays only its new cells:
//
//	NAME.rows.jsonl      the rows of a trace, of all runs into the folder
//	asked/NAME.json      the cells of a trace that runs requested, finished or not
//	cells/TRACE/KEY-F.jsonl
//	                     the rows of a finished cell. TRACE is a digest of the trace's, KEY
//	                     names the setting, F is the fingerprint of its policy, and of others
//	                     that it depends on
//	partial/KEY/*.json   the counts of an unfinished pass over a trace
//	profiles/KEY.sha256  the digest of a finished profile, which is elsewhere
//
// Every file appears whole or not at all. Files of cells and passes end in a seal, which detects
// damage. Several runs may share a folder. A run lists only the cells of its own trace, so a start
// does not get slower with the number of traces.
type Store struct{ dir string }

// OpenStore opens the store in dir. If the folder does not exist, Make or the first file makes it.
func OpenStore(dir string) (*Store, error) {
	s := &Store{dir: dir}
	if _, err := os.Lstat(dir); errors.Is(err, fs.ErrNotExist) {
		return s, nil
	}
	if err := s.Make(); err != nil {
		return nil, err
	}
	for _, written := range []string{".", "profiles", requestedFolder} {
		files.Sweep(filepath.Join(dir, written))
	}
	if err := s.refuseEarly(); err != nil {
		return nil, fmt.Errorf("open results folder: %w", err)
	}
	return s, nil
}

// Make makes the folders of the store that do not exist.
func (s *Store) Make() error {
	for _, made := range []string{s.dir, filepath.Join(s.dir, cellsFolder), filepath.Join(s.dir, requestedFolder)} {
		if err := files.MakeFolder(made); err != nil {
			return fmt.Errorf("open results folder: %w", err)
		}
	}
	return nil
}

const cellsFolder = "cells"

// refuseEarly returns an error if the folder has files of a version before v0.1.0. Those versions kept the
// cells of all traces in one folder, and wrote several rows files per trace.
func (s *Store) refuseEarly() error {
	for _, at := range [][2]string{{cellsFolder, "*.jsonl"}, {".", "*.rows-" + strings.Repeat("[0-9a-f]", 8) + ".jsonl"}} {
		early, err := files.Matching(filepath.Join(s.dir, at[0]), at[1])
		if err != nil {
			return err
		}
		if len(early) > 0 {
			return fmt.Errorf("%s is of a version before v0.1.0: choose another folder, or remove it", early[0])
		}
	}
	return nil
}

// cellKey holds all inputs of a cell's rows. The hash leaves out behaviours, so the rest of the key
// finds a cell that was kept before its policy changed.
type cellKey struct {
	Behaviours []behaviour `json:"-"`
	result.Setting
	Policy, Capacity, Above string
	Tier                    int
	Selected                []string // request ids. Setting joins them with commas, which ids may contain
	Per                     Detail
	Schema                  int
}

func (p *plan) key(c *cellPlan) cellKey {
	k := cellKey{Behaviours: p.behaviours(c), Setting: p.setting, Policy: c.spec.Name(), Above: c.above, Tier: c.tier,
		Selected: p.opt.Requests, Per: p.opt.Per, Schema: result.RowSchema}
	if c.capacity != nil {
		k.Capacity = c.capacity.String()
	}
	return k
}

func (p *plan) keys() []cellKey {
	keys := make([]cellKey, len(p.cells))
	for c := range p.cells {
		keys[c] = p.key(&p.cells[c])
	}
	return keys
}

// hashOf returns a digest of v, which names a file.
func hashOf(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err) // cannot happen: v holds only strings and numbers
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:12])
}

// name returns the name of the cell's file without its suffix.
func (k *cellKey) name() string {
	return strings.Join(append([]string{hashOf(k)}, k.fingerprints()...), "-")
}

// mostFingerprints is the number of fingerprints in a file's name. With it the name fits the 255
// bytes of file systems.
const mostFingerprints = 10

// fingerprints returns the fingerprints of the cell's behaviours. A cell with many tiers may have
// more than mostFingerprints. The last fingerprint is then a digest of all of them.
func (k *cellKey) fingerprints() (all []string) {
	all = slice.Map(k.Behaviours, func(b behaviour) string { return b.fingerprint })
	if len(all) > mostFingerprints {
		all = append(all[:mostFingerprints-1:mostFingerprints-1], hashOf(all))
	}
	return all
}

// cellFolder returns the folder of the finished cells of a trace with a digest.
func (s *Store) cellFolder(trace string) string {
	return filepath.Join(s.dir, cellsFolder, hashOf(trace)[:16])
}

func (s *Store) cellPath(trace, name string) string {
	return filepath.Join(s.cellFolder(trace), name+".jsonl")
}

// load returns the rows of a finished cell, or nil if the store has none. If the file cannot be
// read, is damaged or does not match its name, load returns nil too. The run then replays the
// cell and replaces its file. The run cannot replace a folder, a pipe or a broken link: for these
// load returns an error.
func (s *Store) load(k cellKey, parts int) ([]result.Row, error) {
	path := s.cellPath(k.TraceDigest, k.name())
	text, err := readKept(path)
	if errors.Is(err, errNoFile) {
		return nil, fmt.Errorf("finished cell %s: %w. Remove it", path, err)
	}
	if rows := unsealRows(path, text); err == nil && len(rows) == parts {
		return rows, nil
	}
	return nil, nil
}

// errNoFile reports a name in the store that is not a regular file.
var errNoFile = errors.New("expected a regular file")

// readKept reads a file of the store. It opens only regular files, because a pipe may never end.
func readKept(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		if _, unlinked := os.Lstat(path); unlinked == nil {
			return nil, errNoFile // a symbolic link to nothing
		}
	}
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, errNoFile
	}
	return os.ReadFile(path)
}

// unsealRows returns the rows of a sealed file, or none if it is damaged.
func unsealRows(path string, text []byte) []result.Row {
	text, ok := files.Unseal(filepath.Base(path), text)
	if !ok {
		return nil
	}
	rows, err := result.DecodeRows(bytes.NewReader(text), path)
	if err != nil {
		return nil
	}
	return rows
}

func (s *Store) save(k cellKey, rows []result.Row) error {
	var text bytes.Buffer
	if err := result.WriteJSONL(&text, rows); err != nil {
		return err
	}
	path := s.cellPath(k.TraceDigest, k.name())
	if err := files.MakeFolder(filepath.Dir(path)); err != nil {
		return fmt.Errorf("keep results: %w", err)
	}
	return writeSealed(path, text.Bytes())
}

func (s *Store) digestPath(key string) string {
	return filepath.Join(s.dir, "profiles", key+".sha256")
}

// saveDigest keeps the digest of a finished profile. of is the digest of its policies' behaviours.
func (s *Store) saveDigest(key, of, digest string) error {
	path := s.digestPath(key)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("keep results: %w", err)
	}
	return writeWhole(path, []byte(of+" "+digest+"\n"))
}

// hasProfile reports whether the file at path is the profile of the key, byte by byte. A run with
// this store must have finished it, and its policies must not have changed.
func (s *Store) hasProfile(key, of, path string) bool {
	want, err := readKept(s.digestPath(key))
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
	return of+" "+hex.EncodeToString(sum.Sum(nil))+"\n" == string(want)
}

// writeWhole writes a file that appears whole or not at all.
func writeWhole(path string, text []byte) error {
	err := files.Rewrite(path, func(w io.Writer) error {
		_, err := w.Write(text)
		return err
	})
	if err != nil {
		return fmt.Errorf("keep results: %w", err)
	}
	return nil
}

// writeSealed writes a file with a seal, whole or not at all.
func writeSealed(path string, text []byte) error {
	return writeWhole(path, append(text, files.Seal(filepath.Base(path), text)...))
}

package run

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kvreplay/kvreplay/internal/files"
	"github.com/kvreplay/kvreplay/internal/slice"
	"github.com/kvreplay/kvreplay/metrics/result"
)

// requestedCell is a cell that a run into the folder requested, finished or not.
type requestedCell struct {
	// Cell names the file of the finished cell.
	Cell string `json:"cell"`
	// Row has the settings of the cell's first row, and no counts.
	Row result.Row `json:"row"`
}

// Stem returns the beginning of the names of a trace's files in a results folder. It is the
// trace's file name without its ending, as files.SafeName spells it. Traces with the same stem
// share these files, and each row states the name and digest of its trace.
func Stem(trace string) string {
	return files.SafeName(strings.TrimSuffix(filepath.Base(trace), ".parquet"))
}

// RowsName returns the name of the file with the rows of a trace.
func RowsName(trace string) string { return Stem(trace) + ".rows.jsonl" }

func (s *Store) requestedPath(trace string) string {
	return filepath.Join(s.dir, requestedFolder, Stem(trace)+".json")
}

const requestedFolder = "asked"

// locked calls f while no other run can change the files that runs share.
func (s *Store) locked(f func() error) error {
	if err := s.Make(); err != nil {
		return err
	}
	locked := false
	err := files.Locked(filepath.Join(s.dir, requestedFolder, "lock"), func() error {
		locked = true
		return f()
	})
	if err != nil && !locked {
		return fmt.Errorf("keep results: %w", err)
	}
	return err
}

// requested returns the cells of the plan, in the form of the store.
func (p *plan) requested() []requestedCell {
	all := make([]requestedCell, len(p.cells))
	for c := range p.cells {
		row := p.settingRow(&p.cells[c])
		row.RequestID, row.LayerID, row.Head = p.parts[0].request, p.parts[0].layer, p.parts[0].head
		row.Warnings = nil
		key := p.key(&p.cells[c])
		all[c] = requestedCell{key.name(), row}
	}
	return all
}

// SaveRequested adds the job's cells to those that earlier runs into the store requested.
// Results are incomplete until all of them are finished. Without a store it does nothing.
func (j *Job) SaveRequested() error {
	p := j.plan
	if p.opt.Store == nil {
		return nil
	}
	path := p.opt.Store.requestedPath(p.file.Path())
	return p.opt.Store.locked(func() error {
		before, err := readRequested(path)
		if err != nil {
			return err
		}
		all := mergeRequested(p.requested(), before)
		text, err := encodeRequested(all)
		if err != nil {
			return err
		}
		if old, err := encodeRequested(before); err == nil && bytes.Equal(old, text) {
			return nil
		}
		return writeSealed(path, text)
	})
}

// mergeRequested returns the cells of both lists. A cell of newer replaces the same cell of older,
// even if its policy or the engine has changed.
func mergeRequested(newer, older []requestedCell) []requestedCell {
	cells := map[string]requestedCell{}
	for _, c := range slices.Concat(older, newer) {
		cells[c.Row.CellID()] = c
	}
	return slice.Map(slices.Sorted(maps.Keys(cells)), func(id string) requestedCell { return cells[id] })
}

func encodeRequested(cells []requestedCell) ([]byte, error) {
	var text bytes.Buffer
	enc := json.NewEncoder(&text)
	enc.SetEscapeHTML(false)
	for i := range cells {
		if err := enc.Encode(&cells[i]); err != nil {
			return nil, err
		}
	}
	return text.Bytes(), nil
}

// readRequested reads the requested cells of a trace. Without a file there are none. A
// damaged file is an error, because results would seem complete without its cells.
func readRequested(path string) ([]requestedCell, error) {
	text, err := readKept(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	damaged := fmt.Errorf("%s is damaged. Remove it and repeat the replay commands of this folder (finished cells are kept)", path)
	text, ok := files.Unseal(filepath.Base(path), text)
	if !ok {
		return nil, damaged
	}
	var cells []requestedCell
	for dec := json.NewDecoder(bytes.NewReader(text)); ; {
		var c requestedCell
		switch err := dec.Decode(&c); {
		case errors.Is(err, io.EOF):
			return cells, nil
		case err != nil:
			return nil, damaged
		}
		cells = append(cells, c)
	}
}

// Requested returns the cells that runs into the results folder dir requested, each as one
// of its rows without counts. It returns none for a folder without runs.
func Requested(dir string) ([]result.Row, error) {
	folder := filepath.Join(dir, requestedFolder)
	entries, err := os.ReadDir(folder)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var rows []result.Row
	for _, e := range entries {
		if filepath.Ext(e.Name()) != ".json" {
			continue
		}
		cells, err := readRequested(filepath.Join(folder, e.Name()))
		if err != nil {
			return nil, err
		}
		rows = append(rows, slice.Map(cells, func(c requestedCell) result.Row { return c.Row })...)
	}
	return rows, nil
}

// WriteRows replaces the rows file of the job's trace. The new file has all finished cells
// that runs into the folder requested, and the other cells of the previous file. Notes are for the
// user. Call it after Run.
func (j *Job) WriteRows() (notes []string, err error) {
	p, s := j.plan, j.plan.opt.Store
	path := filepath.Join(s.dir, RowsName(p.file.Path()))
	err = s.locked(func() error {
		newer, err := j.finished()
		if err != nil {
			return err
		}
		var older []result.Row
		switch text, err := readKept(path); {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			return fmt.Errorf("read %s: %w", path, err)
		default:
			if older, err = result.DecodeRows(bytes.NewReader(text), path); err != nil {
				notes = append(notes, fmt.Sprintf("%v. The file is written again from the finished cells", err))
				older = nil
			}
		}
		rows := result.MergeRows(newer, older)
		return files.Rewrite(path, func(w io.Writer) error { return result.WriteJSONL(w, rows) })
	})
	return notes, err
}

// finished returns the rows of the job, and of all other finished cells of its trace that
// runs requested.
func (j *Job) finished() ([]result.Row, error) {
	p, rows, own := j.plan, slices.Clip(j.rows), map[string]bool{}
	for _, c := range p.requested() {
		own[c.Row.CellID()] = true
	}
	cells, err := readRequested(p.opt.Store.requestedPath(p.file.Path()))
	if err != nil {
		return nil, err
	}
	for _, c := range cells {
		if own[c.Row.CellID()] {
			continue
		}
		path := p.opt.Store.cellPath(c.Row.TraceDigest, c.Cell)
		if text, err := readKept(path); err == nil {
			rows = append(rows, unsealRows(path, text)...) // no rows if it is damaged
		}
	}
	return rows, nil
}

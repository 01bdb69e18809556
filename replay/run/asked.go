package run

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/kvreplay/kvreplay/internal/files"
	"github.com/kvreplay/kvreplay/metrics/result"
)

// askedCell is a cell that a run into the folder was asked for.
type askedCell struct {
	// Cell names the file of the finished cell.
	Cell string `json:"cell"`
	// Row has the settings of the cell's first row, and no counts.
	Row result.Row `json:"row"`
}

// Stem is how the files that a run keeps of a trace begin: the trace's file name without
// its ending, as files.SafeName spells it. Two traces may have one stem. They then share
// files, in which their names and digests tell them apart.
func Stem(trace string) string {
	return files.SafeName(strings.TrimSuffix(filepath.Base(trace), ".parquet"))
}

// RowsName is the name of the file that has the rows of a trace.
func RowsName(trace string) string { return Stem(trace) + ".rows.jsonl" }

func (s *Store) rowsPath(trace string) string { return filepath.Join(s.dir, RowsName(trace)) }

func (s *Store) askedPath(trace string) string {
	return filepath.Join(s.dir, askedFolder, Stem(trace)+".json")
}

const askedFolder = "asked"

// locked calls f while no other run reads and replaces files that runs share.
func (s *Store) locked(f func() error) error {
	if err := files.Locked(filepath.Join(s.dir, askedFolder, "lock"), f); err != nil {
		return fmt.Errorf("keep results: %w", err)
	}
	return nil
}

// asked are the cells of the plan, as the store notes them.
func (p *plan) asked() []askedCell {
	all := make([]askedCell, len(p.cells))
	for c := range p.cells {
		row := p.settingRow(&p.cells[c])
		row.RequestID, row.LayerID, row.Head = p.parts[0].request, p.parts[0].layer, p.parts[0].head
		row.Warnings = nil
		key := p.key(&p.cells[c])
		all[c] = askedCell{key.name(), row}
	}
	return all
}

// Ask notes in the job's store that the job's cells are asked for, in addition to those of
// earlier runs. Until they are finished, results are incomplete. Without a store it does
// nothing.
func (j *Job) Ask() error {
	p := j.plan
	if p.opt.Store == nil {
		return nil
	}
	path := p.opt.Store.askedPath(p.file.Path())
	return p.opt.Store.locked(func() error {
		before, err := readAsked(path)
		if err != nil {
			return err
		}
		all := mergeAsked(p.asked(), before)
		text, err := encodeAsked(all)
		if err != nil {
			return err
		}
		if old, err := encodeAsked(before); err == nil && bytes.Equal(old, text) {
			return nil
		}
		return writeSealed(path, text)
	})
}

// mergeAsked returns all cells, those of newer in the place of the same ones of older. A
// cell of a changed policy or engine is the same cell.
func mergeAsked(newer, older []askedCell) []askedCell {
	ids := map[string]bool{}
	type keyed struct {
		askedCell
		id string
	}
	var all []keyed
	for _, c := range slices.Concat(newer, older) {
		if id := c.Row.CellID(); !ids[id] {
			ids[id] = true
			all = append(all, keyed{c, id})
		}
	}
	slices.SortFunc(all, func(a, b keyed) int { return strings.Compare(a.id, b.id) })
	cells := make([]askedCell, len(all))
	for i := range all {
		cells[i] = all[i].askedCell
	}
	return cells
}

// encodeAsked writes a line for each cell.
func encodeAsked(cells []askedCell) ([]byte, error) {
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

// readAsked reads the cells that were asked for of a trace. None if no file is there. A
// damaged file is an error, because results would seem complete without the cells in it.
func readAsked(path string) ([]askedCell, error) {
	text, err := readKept(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	damaged := fmt.Errorf("%s is damaged: remove it, then run the replay commands of this folder again; finished cells are kept", path)
	text, ok := unseal(filepath.Base(path), text)
	if !ok {
		return nil, damaged
	}
	var cells []askedCell
	for dec := json.NewDecoder(bytes.NewReader(text)); ; {
		var c askedCell
		switch err := dec.Decode(&c); {
		case errors.Is(err, io.EOF):
			return cells, nil
		case err != nil:
			return nil, damaged
		}
		cells = append(cells, c)
	}
}

// Asked returns the cells that runs into the results folder dir were asked for, each as one
// of its rows without counts. A folder that no run has written to gives none.
func Asked(dir string) ([]result.Row, error) {
	folder := filepath.Join(dir, askedFolder)
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
		cells, err := readAsked(filepath.Join(folder, e.Name()))
		if err != nil {
			return nil, err
		}
		for i := range cells {
			rows = append(rows, cells[i].Row)
		}
	}
	return rows, nil
}

// Keep writes the rows file of the job's trace, which replaces the one before. It has all
// cells that runs into the folder were asked for and have finished, and the cells of the file
// before that none of them replaces. It removes files of earlier versions that add
// nothing to it. Notes say what a user should know. Call it after Run.
func (j *Job) Keep() (notes []string, err error) {
	p, s := j.plan, j.plan.opt.Store
	path := s.rowsPath(p.file.Path())
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
				notes = append(notes, fmt.Sprintf("%v; the file is written anew from the kept cells", err))
				older = nil
			}
		}
		rows := result.MergeRows(newer, older)
		if err := files.WriteBy(path, func(w io.Writer) error { return result.WriteJSONL(w, rows) }); err != nil {
			return err
		}
		notes = append(notes, s.removeSuperseded(p.file.Path(), rows)...)
		return nil
	})
	return notes, err
}

// finished are the rows of the job, and of all other finished cells of its trace that
// runs were asked for.
func (j *Job) finished() ([]result.Row, error) {
	p, rows, own := j.plan, slices.Clip(j.rows), map[string]bool{}
	for _, c := range p.asked() {
		own[c.Row.CellID()] = true
	}
	cells, err := readAsked(p.opt.Store.askedPath(p.file.Path()))
	if err != nil {
		return nil, err
	}
	for _, c := range cells {
		if own[c.Row.CellID()] {
			continue
		}
		path := p.opt.Store.cellPath(c.Cell)
		if text, err := readKept(path); err == nil {
			rows = append(rows, unsealRows(path, text)...) // none if it is damaged: the cell is missing
		}
	}
	return rows, nil
}

// oldRows is the end of the rows files that earlier versions wrote, several a trace.
var oldRows = regexp.MustCompile(`^\.rows-[0-9a-f]{8}\.jsonl$`)

// removeSuperseded removes rows files of earlier versions whose rows are all in the new file.
func (s *Store) removeSuperseded(trace string, rows []result.Row) (notes []string) {
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		return nil
	}
	for _, e := range entries {
		ending, ok := strings.CutPrefix(e.Name(), Stem(trace))
		if !ok || !oldRows.MatchString(ending) {
			continue
		}
		path := filepath.Join(s.dir, e.Name())
		old, err := decodeOld(path)
		if err == nil && result.Covers(rows, old) && os.Remove(path) == nil {
			notes = append(notes, fmt.Sprintf("removed %s, whose rows are in %s now", path, RowsName(trace)))
			continue
		}
		notes = append(notes, fmt.Sprintf("%s, of an earlier version, has rows that %s lacks: remove it, or replay its policies and capacities again", path, RowsName(trace)))
	}
	return notes
}

// decodeOld reads rows of any schema, for their settings only.
func decodeOld(path string) (rows []result.Row, err error) {
	text, err := readKept(path)
	if err != nil {
		return nil, err
	}
	for dec := json.NewDecoder(bytes.NewReader(text)); ; {
		var r result.Row
		switch err := dec.Decode(&r); {
		case errors.Is(err, io.EOF):
			return rows, nil
		case err != nil:
			return nil, err
		}
		rows = append(rows, r)
	}
}

package longbench

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"unicode/utf8"
)

// Row is a row of v1.
type Row struct {
	Input      string   // question, query or code; may be empty
	Context    string   // documents, examples or code
	Answers    []string // all that count as right
	Length     int      // words (characters in Chinese) of the three above
	Dataset    string   // set
	Language   string
	AllClasses []string // labels of a classification, else nil
	ID         string
	Position   int // in its file, from 0

	place place
}

// RowError is a malformed row.
type RowError struct {
	File string
	Line int // from 1, of the row's beginning
	Row  int // from 1
	Err  error
}

func (e *RowError) Error() string {
	return fmt.Sprintf("%s:%d: row %d: %v", e.File, e.Line, e.Row, e.Err)
}

// Unwrap returns what is wrong with the row.
func (e *RowError) Unwrap() error { return e.Err }

// rowsV1 parses the rows of one file of v1.
func rowsV1(values iter.Seq2[value, error]) iter.Seq2[*Row, error] {
	return func(yield func(*Row, error) bool) {
		seen := idSet{}
		for v, err := range values {
			var row *Row
			if err == nil {
				row, err = parseRow(v.text)
				err = v.wrap(err)
			}
			if err == nil {
				row.Position, row.place = v.row-1, v.place
				err = v.wrap(seen.add(row.ID, v.row))
			}
			if !yield(row, err) || err != nil {
				return
			}
		}
	}
}

// idSet has the ids of a file's rows so far, with the rows.
type idSet map[string]int

func (s idSet) add(id string, row int) error {
	if first, twice := s[id]; twice {
		return fmt.Errorf("_id %q is that of row %d", id, first)
	}
	s[id] = row
	return nil
}

func parseRow(text []byte) (*Row, error) {
	f, err := parseFields(text)
	if err != nil {
		return nil, err
	}
	if f.has("question") && f.has("choice_A") {
		return nil, errors.New("it is of LongBench v2: `kvreplay datasets make longbench-v2` reads it")
	}
	row := &Row{}
	err = cmp.Or(
		f.get("input", &row.Input), f.get("context", &row.Context), f.get("answers", &row.Answers),
		f.get("length", &row.Length), f.get("dataset", &row.Dataset), f.get("language", &row.Language),
		f.get("_id", &row.ID), f.optional("all_classes", &row.AllClasses))
	switch {
	case err != nil:
		return nil, err
	case blank(row.Context):
		return nil, errors.New("context is empty")
	case row.Length < 0:
		return nil, fmt.Errorf("length %d, expected 0 or more", row.Length)
	case row.ID == "":
		return nil, errors.New("_id is empty")
	case !slices.ContainsFunc(row.Answers, func(answer string) bool { return !blank(answer) }):
		return nil, errors.New("answers is empty, expected at least one")
	}
	return row, nil
}

// blank says whether a text has nothing to read.
func blank(text string) bool { return strings.TrimSpace(text) == "" }

// fields are the keys of a row.
type fields map[string]json.RawMessage

func parseFields(text []byte) (fields, error) {
	var f fields
	if !utf8.Valid(text) {
		return nil, errors.New("not UTF-8")
	}
	if err := json.Unmarshal(text, &f); err != nil || f == nil {
		return nil, errors.New("expected a JSON object")
	}
	return f, nil
}

func (f fields) has(key string) bool { return f[key] != nil }

// get reads a key that must be there and not null.
func (f fields) get(key string, to any) error {
	if text := f[key]; text == nil || string(text) == "null" {
		return fmt.Errorf("no %q", key)
	}
	return f.optional(key, to)
}

func (f fields) optional(key string, to any) error {
	if f[key] == nil {
		return nil
	}
	if err := json.Unmarshal(f[key], to); err != nil {
		return fmt.Errorf("%q: %w", key, err)
	}
	return nil
}

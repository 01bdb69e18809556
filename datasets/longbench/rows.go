package longbench

import (
	"bufio"
	"bytes"
	"cmp"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/kvreplay/kvreplay/internal/slice"
)

// Row is a row of v1.
type Row struct {
	Input      string   // question, query or code, may be empty
	Context    string   // documents, examples or code
	Answers    []string // all correct answers
	Length     int      // words (characters in Chinese) of the three above
	Dataset    string   // set
	Language   string
	AllClasses []string // labels of a classification, else nil
	record
}

// record identifies a row in its file.
type record struct {
	ID       string
	Position int // from 0
}

// entry is a *Row or a *Question.
type entry interface{ base() *record }

func (r *record) base() *record { return r }

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

// Unwrap returns the cause.
func (e *RowError) Unwrap() error { return e.Err }

// rows parses the rows of one file, whose ids differ.
func rows[R entry](values iter.Seq2[value, error], parse func([]byte) (R, error)) iter.Seq2[R, error] {
	return func(yield func(R, error) bool) {
		seen := map[string]int{}
		for v, err := range values {
			var row R
			if err == nil {
				row, err = parse(v.text)
				if err == nil {
					r := row.base()
					r.Position = v.row - 1
					if first, twice := seen[r.ID]; twice {
						err = fmt.Errorf("_id %q is also in row %d", r.ID, first)
					}
					seen[r.ID] = v.row
				}
				err = v.wrap(err)
			}
			if !yield(row, err) || err != nil {
				return
			}
		}
	}
}

func parseRow(text []byte) (*Row, error) {
	f, err := parseFields(text)
	if err != nil {
		return nil, err
	}
	if f.has("question") && f.has("choice_A") {
		return nil, errors.New("the row is of LongBench v2: use `kvreplay datasets make longbench-v2`")
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

// get reads a required key that is not null.
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

// RowsV2 is the number of questions in the original data.json.
const RowsV2 = 503

// maxNewTokensV2 is the number of tokens that pred.py of v2 generates without chain of thought.
const maxNewTokensV2 = 128

// promptV2 is prompts/0shot.txt of THUDM/LongBench (MIT).
//
//go:embed prompt_v2.txt
var promptV2 string

// Question is a row of v2.
type Question struct {
	Domain, SubDomain string
	Difficulty        string // easy or hard
	Length            string // short (< 32k words), medium or long (> 128k)
	Question          string
	Choices           [4]string // A … D
	Answer            string    // A, B, C or D
	Context           string
	record
}

type domain struct{ task, domain string }

// domains of v2 by task.
var domains = []domain{
	{"single_document_qa", "Single-Document QA"},
	{"multi_document_qa", "Multi-Document QA"},
	{"long_in_context_learning", "Long In-context Learning"},
	{"long_dialogue_history_understanding", "Long-dialogue History Understanding"},
	{"code_repository_understanding", "Code Repository Understanding"},
	{"long_structured_data_understanding", "Long Structured Data Understanding"},
}

// Difficulties and Contexts are the values of v2's keys difficulty and length.
var (
	Difficulties = []string{"easy", "hard"}
	Contexts     = []string{"short", "medium", "long"}
)

// DomainTasks returns the tasks of v2, one per domain.
func DomainTasks() []string { return slice.Map(domains, func(d domain) string { return d.task }) }

// Fill puts the question into v2's prompt, one placeholder after the other as pred.py does. A
// placeholder in a text that was inserted before is filled too.
func (q *Question) Fill() string {
	text := promptV2
	for _, p := range []struct{ mark, with string }{
		{"$DOC$", q.Context}, {"$Q$", q.Question},
		{"$C_A$", q.Choices[0]}, {"$C_B$", q.Choices[1]}, {"$C_C$", q.Choices[2]}, {"$C_D$", q.Choices[3]},
	} {
		text = strings.ReplaceAll(text, p.mark, strip(p.with))
	}
	return text
}

// strip is Python's str.strip, which strips four more characters than Go's TrimSpace.
func strip(s string) string {
	return strings.TrimFunc(s, func(r rune) bool { return unicode.IsSpace(r) || '\x1c' <= r && r <= '\x1f' })
}

// task returns the task of the question's domain, "" if there is none.
func (q *Question) task() string {
	i := slices.IndexFunc(domains, func(d domain) bool { return d.domain == q.Domain })
	if i < 0 {
		return ""
	}
	return domains[i].task
}

func parseQuestion(text []byte) (*Question, error) {
	f, err := parseFields(text)
	if err != nil {
		return nil, err
	}
	if f.has("input") && f.has("answers") {
		return nil, errors.New("the row is of LongBench v1: use `kvreplay datasets make longbench`")
	}
	q := &Question{}
	err = cmp.Or(
		f.get("_id", &q.ID), f.get("domain", &q.Domain), f.get("sub_domain", &q.SubDomain),
		f.get("difficulty", &q.Difficulty), f.get("length", &q.Length), f.get("question", &q.Question),
		f.get("choice_A", &q.Choices[0]), f.get("choice_B", &q.Choices[1]),
		f.get("choice_C", &q.Choices[2]), f.get("choice_D", &q.Choices[3]),
		f.get("answer", &q.Answer), f.get("context", &q.Context))
	if err != nil {
		return nil, err
	}
	return q, q.validate()
}

func (q *Question) validate() error {
	switch {
	case q.ID == "":
		return errors.New("_id is empty")
	case blank(q.Context) || blank(q.Question):
		return errors.New("context or question is empty")
	case !slices.Contains([]string{"A", "B", "C", "D"}, q.Answer):
		return fmt.Errorf("answer %q, expected A, B, C or D", q.Answer)
	case !slices.Contains(Difficulties, q.Difficulty):
		return fmt.Errorf("difficulty %q, expected easy or hard", q.Difficulty)
	case !slices.Contains(Contexts, q.Length):
		return fmt.Errorf("length %q, expected short, medium or long", q.Length)
	case q.task() == "":
		return fmt.Errorf("domain %q, expected one of the six of v2", q.Domain)
	}
	return nil
}

// maxRow is the largest size of a row in bytes. The longest contexts, of v2, have two million
// words.
const maxRow = 64 << 20

// value is one row's JSON.
type value struct {
	place
	text []byte
}

// place is the position of a row.
type place struct {
	file      string
	line, row int // from 1
}

// wrap adds the position to an error of a row. nil stays nil.
func (p place) wrap(err error) error {
	if err == nil {
		return nil
	}
	return &RowError{p.file, p.line, p.row, err}
}

// values streams the JSON objects of a file: one after another, as JSON lines, or the elements of
// one array. One is in memory at a time. The receiver owns its text.
func values(file string, r io.Reader) iter.Seq2[value, error] {
	return func(yield func(value, error) bool) {
		buffered := bufio.NewReader(r)
		s := &scanner{lines: &lineReader{r: buffered, line: 1, left: maxRow}}
		s.d = json.NewDecoder(s.lines)
		err := s.open(buffered)
		row := 1
		for ; err == nil && s.d.More(); row++ {
			v := value{place: place{file: file, row: row}}
			if v.text, v.line, err = s.next(); err != nil {
				yield(v, v.wrap(err))
				return
			}
			if !yield(v, nil) {
				return
			}
		}
		if err == nil {
			err = s.close()
		}
		if err == nil && row == 1 {
			err = errNoRows
		}
		if err != nil {
			at := s.lines.offset // the position behind the last read byte
			if err == errMore {
				at = s.d.InputOffset()
			}
			yield(value{}, fmt.Errorf("%s:%d: %w", file, s.lines.at(at), err))
		}
	}
}

// scanner splits a file into rows.
type scanner struct {
	lines *lineReader
	d     *json.Decoder
	array bool
}

// open skips white space and decides between objects and an array by the first character.
func (s *scanner) open(r *bufio.Reader) error {
	for range 1 << 20 {
		first, err := r.ReadByte()
		switch {
		case err == io.EOF:
			return errNoRows
		case err != nil:
			return err
		case first == '\n':
			s.lines.line++
		case first == '{':
			return r.UnreadByte()
		case first == '[':
			s.array = true
			err = r.UnreadByte()
			if err == nil {
				_, err = s.d.Token()
			}
			return err
		case !strings.ContainsRune(" \t\r", rune(first)):
			return fmt.Errorf("begins with %q, expected JSON objects, one a line, or an array of them", first)
		}
	}
	return errors.New("a megabyte of white space, expected JSON")
}

// next returns a row and the line at which it begins.
func (s *scanner) next() ([]byte, int, error) {
	var text json.RawMessage
	s.lines.left = maxRow
	before := s.d.InputOffset()
	if err := s.d.Decode(&text); err != nil {
		rest, _ := io.ReadAll(s.d.Buffered())
		at := before + int64(len(rest)-len(bytes.TrimLeft(rest, " \t\r\n,"))) // the row begins behind the gap
		if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
			at = syntax.Offset
		}
		if err == io.ErrUnexpectedEOF {
			err = errors.New("the file ends inside a row")
		}
		return nil, s.lines.at(at), err
	}
	return text, s.lines.at(s.d.InputOffset() - int64(len(text))), nil
}

func (s *scanner) close() error {
	if s.array {
		switch _, err := s.d.Token(); {
		case err == io.EOF:
			return errors.New("the file ends inside the array")
		case err != nil:
			return err
		}
	}
	switch _, err := s.d.Token(); {
	case err == io.EOF:
		return nil
	case err != nil:
		return err
	}
	return errMore
}

var (
	errMore   = errors.New("text after the last row")
	errNoRows = errors.New("no rows")
)

// lineReader returns the line of a recent offset, and limits the bytes read before the next row.
type lineReader struct {
	r        io.Reader
	offset   int64   // of the next byte
	newlines []int64 // offsets after line's beginning
	line     int     // of everything before newlines
	left     int     // bytes until the row is too long
}

// Read implements io.Reader.
func (l *lineReader) Read(p []byte) (n int, err error) {
	if l.left <= 0 {
		return 0, fmt.Errorf("longer than %d bytes", maxRow)
	}
	n, err = l.r.Read(p)
	for i, c := range p[:n] {
		if c == '\n' {
			l.newlines = append(l.newlines, l.offset+int64(i))
		}
	}
	l.offset += int64(n)
	l.left -= n
	return n, err
}

// at returns the line of an offset, from 1. Offsets must not decrease.
func (l *lineReader) at(offset int64) int {
	passed := 0
	for passed < len(l.newlines) && l.newlines[passed] < offset {
		passed++
	}
	l.newlines = l.newlines[passed:]
	l.line += passed
	return l.line
}

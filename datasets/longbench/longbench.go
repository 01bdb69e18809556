// Package longbench makes prompts from LongBench's own files: v1 with its 21 sets and the 13 of
// LongBench-E, and the 503 questions of v2.
//
// Sources: Bai et al., "LongBench: A Bilingual, Multitask Benchmark for Long Context
// Understanding", ACL 2024 (arXiv:2308.14508), and "LongBench v2", arXiv:2412.15204. Prompts,
// tokens to generate, truncation and the sets without a chat template are those of
// github.com/THUDM/LongBench (MIT): config/dataset2prompt.json, config/dataset2maxlen.json and
// pred.py for v1, prompts/0shot.txt and pred.py for v2.
//
// The user supplies the rows. A source may be a file, a folder or a zip, with or without gzip. Its
// content decides which it is.
package longbench

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/text/encoding/unicode"

	"github.com/kvreplay/kvreplay/datasets/prompts"
	"github.com/kvreplay/kvreplay/datasets/tokens"
	"github.com/kvreplay/kvreplay/internal/names"
	"github.com/kvreplay/kvreplay/internal/optional"
)

// Benchmark names of prompts.Row.
const (
	BenchmarkV1 = "longbench"
	BenchmarkV2 = "longbench-v2"
)

// Addresses of the original files, for manifests.
const (
	originV1 = "https://huggingface.co/datasets/THUDM/LongBench, data.zip"
	originV2 = "https://huggingface.co/datasets/THUDM/LongBench-v2, data.json"
)

// Options choose the rows that become prompts, and limit their length.
type Options struct {
	Tasks     []string         // sets, or domains of v2. Empty or "all": see Make and MakeV2
	Samples   int              // largest number of rows per task, 0 for all
	Seed      *uint64          // draws the rows, nil for the first ones
	Length    int              // largest number of tokens of a prompt before any chat template, 0 for no limit
	Tokenizer tokens.Tokenizer // counts and cuts

	Difficulty, Context string // v2: easy or hard, and short, medium or long. "" for all
}

// Validate returns an error if the options are invalid.
func (o *Options) Validate() error {
	switch {
	case o.Samples < 0:
		return fmt.Errorf("samples %d, expected 0 (all) or more", o.Samples)
	case o.Length < 0:
		return fmt.Errorf("length %d, expected 0 (uncut) or more tokens", o.Length)
	case o.Tokenizer == nil:
		return errors.New("no tokenizer")
	}
	return nil
}

// Version changes when the same input gives other prompts than before.
const Version = "2"

// Sink takes the prompts in order.
type Sink = func(*prompts.Row) error

// maker makes prompts from rows.
type maker struct {
	*prompts.Maker
	*Options
}

func (o *Options) maker(benchmark string, write Sink) maker {
	about := prompts.Manifest{Generator: "kvreplay datasets/longbench", Version: Version, Benchmark: benchmark, Seed: optional.Or(o.Seed, 0)}
	return maker{prompts.NewMaker(about, o.Tokenizer, write), o}
}

// Make turns rows of v1 into prompts. A source is a file of a set, with or without gzip, a folder
// of such files, or the original data.zip. A zip is read without unpacking.
//
// Tasks are names of sets. Those of LongBench-E end with _e. "all" are the sources' sets among the
// 21, and "all_e" those of LongBench-E's 13. Make checks all rows of a chosen set, even those that
// do not become prompts. The manifest lacks the command. Errors name the file, and the line and row
// if they concern one.
func Make(ctx context.Context, o Options, sources []string, write Sink) (*prompts.Manifest, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	if len(sources) == 0 {
		return nil, errors.New("no source: name LongBench's files, a folder of them or data.zip")
	}
	l, err := openLibrary(ctx, sources)
	if err != nil {
		return nil, fmt.Errorf("read LongBench: %w", err)
	}
	defer l.close()
	tasks, err := l.choose(o.Tasks)
	if err != nil {
		return nil, fmt.Errorf("choose sets: %w", err)
	}
	m := o.maker(BenchmarkV1, write)
	for _, t := range tasks {
		m.Begin(t.name(), o.Length)
		err := m.checkLength(t.name(), t.Fill("", ""))
		if err == nil {
			err = makeRows(ctx, m, l.rows(t), func(*Row) string { return t.name() }, t.prompt, cutHalves)
		}
		if err != nil {
			return nil, fmt.Errorf("make prompts of %s: %w", t.name(), err)
		}
		f := l.files[t.name()]
		m.Sources = append(m.Sources, prompts.Source{Role: t.name(), Name: f.name, Digest: f.digest, Licence: "MIT (LongBench); texts as in the set that it was made from", Origin: originV1})
	}
	return &m.Manifest, nil
}

// prompt returns the filled, uncut prompt of a row.
func (t task) prompt(row *Row) *prompts.Row {
	return &prompts.Row{
		Input: t.Fill(row.Context, row.Input), Outputs: row.Answers,
		Task: t.name(), ID: t.name() + "-" + row.ID, MaxNewTokens: t.MaxNewTokens, ChatTemplate: t.ChatTemplate,
	}
}

// MakeV2 turns questions of v2 into prompts. The source is data.json, a file of the same rows as
// JSON lines, with or without gzip, or a folder with data.json. Tasks are domains (DomainTasks),
// and "all" is every domain. Difficulty and Context select rows first. Samples then counts the rows
// of a domain. Prompts are in the order of the source. All rows are checked. The manifest and
// errors are like those of Make.
func MakeV2(ctx context.Context, o Options, source string, write Sink) (*prompts.Manifest, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	tasks, err := o.chooseQuestions()
	if err != nil {
		return nil, fmt.Errorf("choose questions: %w", err)
	}
	m := o.maker(BenchmarkV2, write)
	for _, t := range tasks {
		m.Begin(t, o.Length)
	}
	if err := m.checkLength(BenchmarkV2, new(Question).Fill()); err != nil {
		return nil, err
	}
	f, err := fileV2(ctx, source)
	if err != nil {
		return nil, fmt.Errorf("read LongBench v2: %w", err)
	}
	wanted := o.wanted(rows(f.values(), parseQuestion), tasks)
	if err := makeRows(ctx, m, wanted, (*Question).task, (*Question).prompt, cutMiddle); err != nil {
		return nil, fmt.Errorf("make prompts of LongBench v2: %w", err)
	}
	if !slices.ContainsFunc(m.Manifest.Tasks, func(t prompts.Task) bool { return t.Rows > 0 }) {
		return nil, errors.New("make prompts of LongBench v2: no question has these domains, this difficulty and this context")
	}
	m.Sources = []prompts.Source{{Role: "questions", Name: f.name, Digest: f.digest, Licence: "Apache-2.0", Origin: originV2}}
	return &m.Manifest, nil
}

// chooseQuestions checks the options and returns the domains, in order.
func (o *Options) chooseQuestions() ([]string, error) {
	err := cmp.Or(oneOf("difficulty", o.Difficulty, Difficulties), oneOf("context", o.Context, Contexts))
	if err != nil {
		return nil, err
	}
	return prompts.ChooseTasks("domain", o.Tasks, DomainTasks())
}

// oneOf rejects an unknown value. "" is valid.
func oneOf(what, value string, known []string) error {
	if value == "" || slices.Contains(known, value) {
		return nil
	}
	return &names.Error{Kind: what, Text: value, Known: names.Of(known...)}
}

func fileV2(ctx context.Context, path string) (*file, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if info.IsDir() {
		path = filepath.Join(path, "data.json")
		if _, err := os.Stat(path); err != nil {
			return nil, fmt.Errorf("no data.json in the folder: %w", err)
		}
	}
	return onDisk(ctx, path), nil
}

// wanted leaves out the questions of other domains, difficulties and contexts.
func (o *Options) wanted(all iter.Seq2[*Question, error], tasks []string) iter.Seq2[*Question, error] {
	return func(yield func(*Question, error) bool) {
		for q, err := range all {
			if err == nil && (!slices.Contains(tasks, q.task()) ||
				o.Difficulty != "" && q.Difficulty != o.Difficulty ||
				o.Context != "" && q.Length != o.Context) {
				continue
			}
			if !yield(q, err) {
				return
			}
		}
	}
}

// prompt returns the filled, uncut prompt of a question. Its reference is the letter.
func (q *Question) prompt() *prompts.Row {
	return &prompts.Row{
		Input: q.Fill(), Outputs: []string{q.Answer},
		Task: q.task(), ID: BenchmarkV2 + "-" + q.ID, MaxNewTokens: maxNewTokensV2, ChatTemplate: true,
	}
}

// makeRows writes the prompts of rows, at most Samples per task in their order: the first, or those
// drawn with the seed. It always reads all rows to find malformed ones.
//
// A row's lot depends only on seed, task and the row's id. The order of the rows therefore does not
// matter, and a draw of n+1 rows is the draw of n plus one row.
func makeRows[R entry](ctx context.Context, m maker, rows iter.Seq2[R, error],
	task func(R) string, prompt func(R) *prompts.Row, cut cut) error {
	chosen, at := map[string][]lot[R]{}, 0
	for row, err := range rows {
		if err = cmp.Or(err, ctx.Err()); err != nil {
			return err
		}
		if m.Samples == 0 {
			if err := m.write(row.base().Position, prompt(row), cut); err != nil {
				return err
			}
			continue
		}
		t, l := task(row), lot[R]{row: row, at: at, draw: uint64(at)}
		if m.Seed != nil {
			l.draw = draw(*m.Seed, t, row.base().ID)
		}
		chosen[t] = keep(chosen[t], l, m.Samples)
		at++
	}
	lots := slices.Concat(slices.Collect(maps.Values(chosen))...)
	slices.SortFunc(lots, func(a, b lot[R]) int { return a.at - b.at })
	for _, l := range lots {
		if err := m.write(l.row.base().Position, prompt(l.row), cut); err != nil {
			return err
		}
	}
	return nil
}

// write cuts a filled prompt and writes it as the row of a position.
func (m maker) write(position int, row *prompts.Row, cut cut) error {
	text, err := cut(m.Options.Tokenizer, row.Input, m.Length)
	if err != nil {
		return err
	}
	row.Index, row.Input, row.MaxLength = position, text, m.Length
	row.Length = m.Count(text) + row.MaxNewTokens
	return m.Write(row)
}

// keep inserts a lot into the n smallest, which are sorted.
func keep[R any](lots []lot[R], l lot[R], n int) []lot[R] {
	place, _ := slices.BinarySearchFunc(lots, l, func(a, b lot[R]) int {
		return cmp.Or(cmp.Compare(a.draw, b.draw), cmp.Compare(a.at, b.at))
	})
	if place == n {
		return lots
	}
	lots = slices.Insert(lots, place, l)
	return lots[:min(n, len(lots))]
}

// lot is a row with the key that decides whether it is chosen, smallest first.
type lot[R any] struct {
	row  R
	at   int
	draw uint64
}

// draw returns a number that depends only on its arguments.
func draw(seed uint64, task, id string) uint64 {
	text := binary.LittleEndian.AppendUint64(nil, seed)
	text = append(text, task...)
	text = append(text, 0)
	sum := sha256.Sum256(append(text, id...))
	return binary.LittleEndian.Uint64(sum[:])
}

// cut shortens a prompt to length tokens. 0 leaves it unchanged.
type cut func(t tokens.Tokenizer, prompt string, length int) (string, error)

// cutHalves keeps the first and the last half of the tokens, as pred.py of v1 does. Each half is
// length/2 rounded down, decoded by itself, and then joined. pred.py also counts the tokenizer's
// special tokens. Ours adds none, so one more token of text fits.
func cutHalves(t tokens.Tokenizer, prompt string, length int) (string, error) {
	ids := excess(t, prompt, length)
	if ids == nil {
		return prompt, nil
	}
	half := length / 2
	first, err := decode(t, ids[:half])
	if err != nil {
		return "", err
	}
	last, err := decode(t, ids[len(ids)-half:])
	return first + last, err
}

// cutMiddle cuts as pred.py of v2 does. It decodes the halves together, and an odd length gives its
// last token to the second half.
func cutMiddle(t tokens.Tokenizer, prompt string, length int) (string, error) {
	ids := excess(t, prompt, length)
	if ids == nil {
		return prompt, nil
	}
	return decode(t, slices.Concat(ids[:length/2], ids[len(ids)-(length+1)/2:]))
}

// excess returns the tokens of a prompt that is too long, otherwise nil.
func excess(t tokens.Tokenizer, prompt string, length int) []int {
	if length == 0 {
		return nil
	}
	if ids := t.Encode(prompt); len(ids) > length {
		return ids
	}
	return nil
}

// decode writes cut characters as U+FFFD, as many as Python's decoders do. It writes one for the
// beginning of a character, and one for each byte that continues none.
func decode(t tokens.Tokenizer, ids []int) (string, error) {
	text, err := t.Decode(ids)
	if err != nil {
		return "", fmt.Errorf("cut prompt: %w", err)
	}
	text, err = unicode.UTF8.NewDecoder().String(text)
	if err != nil {
		return "", fmt.Errorf("cut prompt: %w", err)
	}
	return text, nil
}

// checkLength rejects a length that would cut into the instructions.
func (m maker) checkLength(task, empty string) error {
	if own := m.Count(empty); m.Length != 0 && m.Length <= own {
		return fmt.Errorf("length %d is too short for %s: its instructions alone are %d tokens", m.Length, task, own)
	}
	return nil
}

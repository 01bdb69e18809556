// Package longbench makes prompts of LongBench's own files: v1 with its 21 sets and the
// 13 of LongBench-E, and the 503 questions of v2.
//
// Sources: Bai et al., "LongBench: A Bilingual, Multitask Benchmark for Long Context
// Understanding", ACL 2024 (arXiv:2308.14508), and "LongBench v2", arXiv:2412.15204.
// Prompts, tokens to generate, truncation and the sets that go without a chat template
// are those of github.com/THUDM/LongBench (MIT): config/dataset2prompt.json,
// config/dataset2maxlen.json and pred.py for v1, prompts/0shot.txt and pred.py for v2.
//
// The rows themselves are the user's to bring; what a source is, a file, a folder or a
// zip, packed by gzip or not, is told from its content.
package longbench

import (
	"errors"
	"fmt"

	"github.com/kvreplay/kvreplay/datasets/prompts"
	"github.com/kvreplay/kvreplay/datasets/tokens"
)

// Benchmark names of prompts.Row.
const (
	BenchmarkV1 = "longbench"
	BenchmarkV2 = "longbench-v2"
)

// Where the original files are, for manifests.
const (
	originV1 = "https://huggingface.co/datasets/THUDM/LongBench, data.zip"
	originV2 = "https://huggingface.co/datasets/THUDM/LongBench-v2, data.json"
)

// Options say which rows become prompts, and how long those may be.
type Options struct {
	Tasks     []string         // sets, or domains of v2; empty or "all": see Make and MakeV2
	Samples   int              // rows of a task at most; 0: all
	Seed      *uint64          // draws the rows; nil: the first ones
	Length    int              // tokens of a prompt at most, before any chat template; 0: uncut
	Tokenizer tokens.Tokenizer // counts and cuts

	Difficulty, Context string // v2: easy or hard; short, medium or long; "": all
}

// Validate says what is wrong with the options, if anything is.
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

// emit turns one filled prompt into a row and hands it on.
func (o *Options) emit(row *prompts.Row, cut cut, write Sink) error {
	text, err := cut(o.Tokenizer, row.Input, o.Length)
	if err != nil {
		return err
	}
	row.Input = text
	row.Length = tokens.Count(o.Tokenizer, text) + row.MaxNewTokens
	row.MaxLength = o.Length
	row.Tokenizer = o.Tokenizer.Name()
	if o.Seed != nil {
		row.Seed = *o.Seed
	}
	return write(row)
}

// manifest is what is known of the prompts before any is made.
func (o *Options) manifest(benchmark string) *prompts.Manifest {
	m := &prompts.Manifest{Generator: "kvreplay datasets/longbench", Version: Version, Benchmark: benchmark, Tokenizer: o.Tokenizer.Name()}
	if o.Seed != nil {
		m.Seed = *o.Seed
	}
	return m
}

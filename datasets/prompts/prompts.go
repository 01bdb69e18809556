// Package prompts reads and writes the file format of workloads: JSON lines, one prompt per line,
// with the keys of RULER's files and a few more. Every maker below datasets writes it, and a
// capture reads it. A manifest in the same folder states its origin.
package prompts

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"path/filepath"
	"unicode/utf8"

	"github.com/kvreplay/kvreplay/internal/files"
)

// Row is one prompt with its references. The model is given Input and then AnswerPrefix. If
// ChatTemplate is true, Input is the user's turn of the model's chat template. AnswerPrefix begins
// the model's own turn.
//
// The first six keys are RULER's (NVIDIA/RULER, scripts/data). kvreplay reads files of that project
// unchanged, and its tools read ours. Rows of RULER's first releases have no answer_prefix: their
// Input ends with it.
type Row struct {
	Index               int      `json:"index"`                           // from 0, within task and length
	Input               string   `json:"input"`                           // the filled prompt, without the answer's prefix
	Outputs             []string `json:"outputs"`                         // references for the task's metric
	Length              int      `json:"length"`                          // tokens(Input + AnswerPrefix) + MaxNewTokens, by Tokenizer
	AnswerPrefix        string   `json:"answer_prefix"`                   // begins the answer, as " The answer is"
	TokenPositionAnswer *int     `json:"token_position_answer,omitempty"` // tokens of Input before Outputs[0]

	Benchmark    string `json:"benchmark,omitempty"`      // ruler, longbench, longbench-v2, substitute
	Task         string `json:"task,omitempty"`           // niah_single_1, gov_report, …
	ID           string `json:"id,omitempty"`             // unique in the file. It becomes the trace's request_id
	MaxLength    int    `json:"max_length,omitempty"`     // requested tokens: bound of Length, or of LongBench's prompt
	MaxNewTokens int    `json:"max_new_tokens,omitempty"` // tokens to generate
	ChatTemplate bool   `json:"chat_template,omitempty"`  // wrap Input as the user's turn before generation
	Tokenizer    string `json:"tokenizer,omitempty"`      // tokenizer of lengths and positions (package tokens)
	Seed         uint64 `json:"seed,omitempty"`           // seed of the draw
	Substitute   string `json:"substitute,omitempty"`     // the substitute for the original source, if any
}

// Validate returns an error if the row is invalid.
func (r *Row) Validate() error {
	switch {
	case r.Input == "":
		return errors.New("input is empty")
	case !utf8.ValidString(r.Input) || !utf8.ValidString(r.AnswerPrefix):
		return errors.New("input or answer_prefix is not UTF-8")
	case len(r.Outputs) == 0:
		return errors.New("outputs is empty, expected at least one reference")
	case r.Index < 0:
		return fmt.Errorf("index %d, expected 0 or more", r.Index)
	case r.Length < 0 || r.MaxLength < 0 || r.MaxNewTokens < 0:
		return fmt.Errorf("length %d, max_length %d, max_new_tokens %d, expected 0 or more", r.Length, r.MaxLength, r.MaxNewTokens)
	case r.TokenPositionAnswer != nil && *r.TokenPositionAnswer < 0:
		return fmt.Errorf("token_position_answer %d, expected 0 or more", *r.TokenPositionAnswer)
	}
	for i, o := range r.Outputs {
		if !utf8.ValidString(o) {
			return fmt.Errorf("outputs[%d] is not UTF-8", i)
		}
	}
	return nil
}

// Writer writes a prompts file and its manifest. Both appear under their names only
// when Close succeeds, and are never half written.
type Writer struct {
	path string
	file *files.File
	out  *bufio.Writer
	sum  hash.Hash
	line bytes.Buffer
	rows int
	seen map[string]bool
}

// Create opens a writer for a file at path. The caller closes or aborts it.
func Create(path string) (*Writer, error) {
	if err := checkManifest(path); err != nil {
		return nil, fmt.Errorf("create prompts: %w", err)
	}
	file, err := files.Create(path)
	if err != nil {
		return nil, fmt.Errorf("create prompts: %w", err)
	}
	w := &Writer{path: path, file: file, sum: sha256.New(), seen: make(map[string]bool)}
	w.out = bufio.NewWriterSize(io.MultiWriter(file, w.sum), 1<<16)
	return w, nil
}

// Write appends a row. Its id must be set and unique in the file.
func (w *Writer) Write(r *Row) error {
	err := r.Validate()
	switch {
	case err != nil:
	case r.ID == "":
		err = fmt.Errorf("id is empty")
	case w.seen[r.ID]:
		err = fmt.Errorf("id %q appears twice", r.ID)
	}
	if err != nil {
		return fmt.Errorf("write %s: row %d: %w", w.path, w.rows+1, err)
	}
	w.seen[r.ID] = true
	w.rows++
	w.line.Reset()
	e := json.NewEncoder(&w.line)
	e.SetEscapeHTML(false)
	if err := e.Encode(r); err != nil {
		return fmt.Errorf("write %s: row %d: %w", w.path, w.rows, err)
	}
	if _, err := w.out.Write(w.line.Bytes()); err != nil {
		return fmt.Errorf("write %s: %w", w.path, err)
	}
	return nil
}

// Close finishes the file and puts its rows and digest into m. It moves the file and then the
// manifest to their names (ManifestPath). After an error nothing is left behind, except a file
// whose manifest could not be moved.
func (w *Writer) Close(m *Manifest) error {
	defer w.Abort()
	if w.rows == 0 {
		return fmt.Errorf("write %s: no prompt was written", w.path)
	}
	if err := w.out.Flush(); err != nil {
		return fmt.Errorf("write %s: %w", w.path, err)
	}
	m.File, m.Rows, m.Digest = filepath.Base(w.path), w.rows, "sha256:"+hex.EncodeToString(w.sum.Sum(nil))
	manifest, err := m.pending(ManifestPath(w.path))
	if err != nil {
		return err
	}
	defer manifest.Abort()
	if err := w.file.Commit(); err != nil {
		return fmt.Errorf("write %s: %w", w.path, err)
	}
	if err := manifest.Commit(); err != nil {
		return fmt.Errorf("write %s: %w", ManifestPath(w.path), err)
	}
	return nil
}

// Abort removes the unfinished file. After Close it does nothing.
func (w *Writer) Abort() { w.file.Abort() }

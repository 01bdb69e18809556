// Package prompts is the file that workloads are handed on in: JSON lines, one prompt
// a line, with the keys that RULER's own files have and a few more. Every maker under
// datasets writes it; a capture reads it. A manifest beside it says where it comes from.
package prompts

import (
	"errors"
	"fmt"
	"unicode/utf8"
)

// Row is one prompt with its references. What the model is given is Input, as the
// user's turn of its chat template where ChatTemplate says so, and then AnswerPrefix,
// which begins the model's own turn.
//
// The first six keys are RULER's (NVIDIA/RULER, scripts/data): a file of that project
// is read as it is, and its tools read ours. Rows of RULER's first releases have no
// answer_prefix: their Input ends with it.
type Row struct {
	Index               int      `json:"index"`                           // from 0, within task and length
	Input               string   `json:"input"`                           // the filled prompt, without the answer's prefix
	Outputs             []string `json:"outputs"`                         // references; what counts as right is the task's metric
	Length              int      `json:"length"`                          // tokens(Input + AnswerPrefix) + MaxNewTokens, by Tokenizer
	AnswerPrefix        string   `json:"answer_prefix"`                   // begins the answer, as " The answer is"
	TokenPositionAnswer *int     `json:"token_position_answer,omitempty"` // tokens of Input before Outputs[0]

	Benchmark    string `json:"benchmark,omitempty"`      // ruler, longbench, longbench-v2, substitute
	Task         string `json:"task,omitempty"`           // niah_single_1, gov_report, …
	ID           string `json:"id,omitempty"`             // unique in the file; becomes the trace's request_id
	MaxLength    int    `json:"max_length,omitempty"`     // tokens asked for, as 4096: the most of Length, of LongBench's the most of the prompt
	MaxNewTokens int    `json:"max_new_tokens,omitempty"` // tokens to generate
	ChatTemplate bool   `json:"chat_template,omitempty"`  // wrap Input as the user's turn before generation
	Tokenizer    string `json:"tokenizer,omitempty"`      // what lengths and positions were counted with (package tokens)
	Seed         uint64 `json:"seed,omitempty"`           // what the row was drawn with
	Substitute   string `json:"substitute,omitempty"`     // what stands in for the original source, if anything does
}

// Validate says what is wrong with a row, if anything is.
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

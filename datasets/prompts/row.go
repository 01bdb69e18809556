// Package prompts is the file that workloads are handed on in: JSON lines, one prompt
// a line, with the keys that RULER's own files have and a few more. Every maker under
// datasets writes it; a capture reads it.
package prompts

// Row is one prompt with its references.
//
// The first six keys are RULER's (NVIDIA/RULER, scripts/data): a file of that project
// is read as it is, and its tools read ours.
type Row struct {
	Index               int      `json:"index"`
	Input               string   `json:"input"`   // the filled prompt, without the answer's prefix
	Outputs             []string `json:"outputs"` // references; what counts as right is the task's metric
	Length              int      `json:"length"`  // tokens(Input + AnswerPrefix) + MaxNewTokens, by Tokenizer
	AnswerPrefix        string   `json:"answer_prefix"`
	TokenPositionAnswer *int     `json:"token_position_answer,omitempty"` // token of Input where the needle of the answer begins

	Benchmark    string `json:"benchmark,omitempty"`      // ruler, longbench, longbench-v2, substitute
	Task         string `json:"task,omitempty"`           // niah_single_1, gov_report, …
	ID           string `json:"id,omitempty"`             // unique in the file; becomes the trace's request_id
	MaxNewTokens int    `json:"max_new_tokens,omitempty"` // tokens to generate
	ChatTemplate bool   `json:"chat_template,omitempty"`  // wrap Input as the user's turn before generation
	Tokenizer    string `json:"tokenizer,omitempty"`      // what Length and TokenPositionAnswer were counted with
	Seed         uint64 `json:"seed,omitempty"`
	Substitute   string `json:"substitute,omitempty"` // what stands in for the original source, if anything does
}

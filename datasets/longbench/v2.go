package longbench

import (
	"cmp"
	_ "embed"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"unicode"
)

// RowsV2 is the number of questions in the original data.json.
const RowsV2 = 503

// maxNewTokensV2 is what pred.py of v2 generates without chain of thought.
const maxNewTokensV2 = 128

// promptV2 is THUDM/LongBench, prompts/0shot.txt (MIT).
//
//go:embed prompt_v2.txt
var promptV2 string

// Question is a row of v2.
type Question struct {
	ID, Domain, SubDomain string
	Difficulty            string // easy or hard
	Length                string // short (< 32k words), medium or long (> 128k)
	Question              string
	Choices               [4]string // A … D
	Answer                string    // A, B, C or D
	Context               string
	Position              int // in its file, from 0
}

// domains of v2 by task.
var domains = []struct{ task, domain string }{
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

// DomainTasks returns the tasks of v2, one a domain.
func DomainTasks() (names []string) {
	for _, d := range domains {
		names = append(names, d.task)
	}
	return names
}

// Fill puts the question into v2's prompt, one placeholder after the other as pred.py
// does: a placeholder in a text that was put in before is filled too.
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

// strip is Python's str.strip, which takes four more characters for space than Go.
func strip(s string) string {
	return strings.TrimFunc(s, func(r rune) bool { return unicode.IsSpace(r) || '\x1c' <= r && r <= '\x1f' })
}

// task is that of the question's domain, "" if there is none.
func (q *Question) task() string {
	for _, d := range domains {
		if d.domain == q.Domain {
			return d.task
		}
	}
	return ""
}

func parseQuestion(text []byte) (*Question, error) {
	f, err := parseFields(text)
	if err != nil {
		return nil, err
	}
	if f.has("input") && f.has("answers") {
		return nil, errors.New("it is of LongBench v1: `kvreplay datasets make longbench` reads it")
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
		return fmt.Errorf("domain %q is none of v2's six", q.Domain)
	}
	return nil
}

// questions parses the rows of one file of v2.
func questions(values iter.Seq2[value, error]) iter.Seq2[*Question, error] {
	return func(yield func(*Question, error) bool) {
		seen := idSet{}
		for v, err := range values {
			var q *Question
			if err == nil {
				q, err = parseQuestion(v.text)
				err = v.wrap(err)
			}
			if err == nil {
				q.Position = v.row - 1
				err = v.wrap(seen.add(q.ID, v.row))
			}
			if !yield(q, err) || err != nil {
				return
			}
		}
	}
}

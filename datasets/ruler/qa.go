package ruler

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/kvreplay/kvreplay/datasets/prompts"
	"github.com/kvreplay/kvreplay/internal/slice"
)

// Question answering (scripts/data/synthetic/qa.py) shows the documents that a question needs,
// shuffled among others. For SQuAD the first others are those of the same article. For HotpotQA ten
// paragraphs belong to the question.

// questions are a set of documents and the questions about them.
type questions struct {
	docs []string
	list []question
}

type question struct {
	text    string
	answers []string
	gold    []int // documents that a prompt must have
	near    []int // documents of the same article: the first distractors
}

func newQuestion(role string) func(*maker, int, int, draws) (prompts.Sample, error) {
	return func(m *maker, _, index int, d draws) (prompts.Sample, error) {
		set := m.qa[role]
		if index >= len(set.list) {
			return prompts.Sample{}, fmt.Errorf("ruler: %s has %d questions, expected one for sample %d. Request fewer samples or give a larger file", m.title(role), len(set.list), index)
		}
		return set.sample(index, d), nil
	}
}

// sample makes the sample of a question. The documents join the prompt in an order, and repeat
// after the last.
func (s *questions) sample(index int, d draws) prompts.Sample {
	q := &s.list[index]
	order := q.order(d, len(s.docs))
	return prompts.Sample{Least: len(q.gold), Most: prompts.Unbounded, Prompt: func(n int) prompts.Draft {
		list := slice.Map(slice.Indices(n), func(i int) int { return order[i%len(order)] })
		shuffle(d.stream("positions", n), list)
		shown := slice.Map(slice.Indices(n), func(i int) string { return fmt.Sprintf(qaDocument, i+1, s.docs[list[i]]) })
		return prompts.Draft{
			Input:  fill(qaTemplate.input, "query", q.text, "context", strings.Join(shown, "\n\n")),
			Prefix: qaTemplate.prefix, Outputs: q.answers,
		}
	}}
}

// order returns gold, then near in random order, then all others in random order.
func (q *question) order(d draws, docs int) []int {
	order := slices.Concat(q.gold, q.near)
	shuffle(d.stream("near", 0), order[len(q.gold):])
	taken := make(map[int]bool, len(order))
	for _, i := range order {
		taken[i] = true
	}
	near := len(order)
	for i := range docs {
		if !taken[i] {
			order = append(order, i)
		}
	}
	shuffle(d.stream("others", 0), order[near:])
	return order
}

// documents numbers texts, each once.
type documents struct {
	list  []string
	index map[string]int
}

func (d *documents) add(text string) int {
	if d.index == nil {
		d.index = make(map[string]int)
	}
	i, ok := d.index[text]
	if !ok {
		i = len(d.list)
		d.index[text] = i
		d.list = append(d.list, text)
	}
	return i
}

// squadFile is the format of SQuAD's files (Rajpurkar et al. 2018, dev-v2.0.json). Version 1.1 has
// no is_impossible.
type squadFile struct {
	Data []struct {
		Paragraphs []struct {
			Context string `json:"context"`
			Qas     []struct {
				Question string `json:"question"`
				Answers  []struct {
					Text string `json:"text"`
				} `json:"answers"`
				Impossible bool `json:"is_impossible"`
			} `json:"qas"`
		} `json:"paragraphs"`
	} `json:"data"`
}

// jsonCause returns an error of encoding/json with its place. It names the file that is expected, and no
// type of Go.
func jsonCause(err error, want string) error {
	var kind *json.UnmarshalTypeError
	var syntax *json.SyntaxError
	switch {
	case errors.As(err, &kind) && kind.Field != "":
		return fmt.Errorf("byte %d: %s is a %s, expected %s", kind.Offset, kind.Field, kind.Value, want)
	case errors.As(err, &kind):
		return fmt.Errorf("byte %d: found a JSON %s, expected %s", kind.Offset, kind.Value, want)
	case errors.As(err, &syntax):
		return fmt.Errorf("byte %d: %w, expected %s", syntax.Offset, err, want)
	}
	return fmt.Errorf("%w, expected %s", err, want)
}

// parseSquad returns the questions that have an answer, in the order of the file.
func parseSquad(content []byte) (*questions, error) {
	var file squadFile
	if err := json.Unmarshal(content, &file); err != nil {
		return nil, jsonCause(err, "SQuAD's dev-v2.0.json")
	}
	if file.Data == nil {
		return nil, errors.New("no key data, expected SQuAD's dev-v2.0.json")
	}
	set := &questions{}
	var docs documents
	for i, article := range file.Data {
		var near []int
		for _, p := range article.Paragraphs {
			near = append(near, docs.add(p.Context))
		}
		for j, p := range article.Paragraphs {
			for k, qa := range p.Qas {
				if qa.Impossible {
					continue
				}
				q := question{text: qa.Question, gold: []int{near[j]}, near: slice.Add(nil, without(near, near[j])...)}
				for _, a := range qa.Answers {
					q.answers = append(q.answers, a.Text)
				}
				if err := q.checkIn(p.Context); err != nil {
					return nil, fmt.Errorf("data[%d].paragraphs[%d].qas[%d]: %w", i, j, k, err)
				}
				set.list = append(set.list, q)
			}
		}
	}
	set.docs = docs.list
	return set, set.check()
}

// checkIn rejects a question whose answer is not in its context.
func (q *question) checkIn(context string) error {
	if blank(context) || blank(q.text) || len(q.answers) == 0 {
		return errors.New("context, question or answers missing")
	}
	for _, answer := range q.answers {
		if blank(answer) || !strings.Contains(context, answer) {
			return fmt.Errorf("the answer %q is not in the context", answer)
		}
	}
	return nil
}

func blank(text string) bool { return strings.TrimSpace(text) == "" }

func (s *questions) check() error {
	if len(s.list) == 0 {
		return errors.New("no question with an answer")
	}
	return nil
}

// hotpotRow is a question of HotpotQA's distractor setting (Yang et al. 2018,
// hotpot_dev_distractor_v1.json).
type hotpotRow struct {
	Question string            `json:"question"`
	Answer   string            `json:"answer"`
	Context  []hotpotParagraph `json:"context"`
}

// hotpotParagraph has the form [title, [sentence, …]].
type hotpotParagraph struct {
	title     string
	sentences []string
}

// UnmarshalJSON implements json.Unmarshaler.
func (p *hotpotParagraph) UnmarshalJSON(text []byte) error {
	parts := []any{&p.title, &p.sentences}
	if err := json.Unmarshal(text, &parts); err != nil || len(parts) != 2 || blank(p.title) || p.sentences == nil {
		return errors.New("a paragraph of the context is not a title with a list of sentences")
	}
	return nil
}

// parseHotpotQA returns all questions in the order of the file. Each needs all of its paragraphs:
// the two that answer it and the distractors.
func parseHotpotQA(content []byte) (*questions, error) {
	var rows []hotpotRow
	if err := json.Unmarshal(content, &rows); err != nil {
		return nil, jsonCause(err, "HotpotQA's hotpot_dev_distractor_v1.json")
	}
	set := &questions{}
	var docs documents
	for i, row := range rows {
		q := question{text: row.Question, answers: []string{row.Answer}}
		for _, p := range row.Context {
			doc := docs.add(p.title + "\n" + strings.Join(p.sentences, ""))
			q.gold = slice.Add(q.gold, doc)
		}
		if blank(row.Question) || blank(row.Answer) || len(q.gold) == 0 {
			return nil, fmt.Errorf("[%d]: question, answer or context missing", i)
		}
		set.list = append(set.list, q)
	}
	set.docs = docs.list
	return set, set.check()
}

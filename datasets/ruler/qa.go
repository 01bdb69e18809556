package ruler

import (
	"fmt"
	"slices"
	"strings"
)

// Question answering (scripts/data/synthetic/qa.py): the documents that a question
// needs, among others, shuffled. SQuAD's others are first those of the same article;
// HotpotQA's ten paragraphs belong to the question.

// questions are a set of documents and what is asked about them.
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

// inquiry is a sample of a question.
type inquiry struct {
	*question
	draws draws
	docs  []string
	order []int // documents as they join the prompt; then they repeat
}

func newQuestion(role string) func(*maker, int, int, draws) (sample, error) {
	return func(m *maker, _, index int, d draws) (sample, error) {
		set := m.qa[role]
		if index >= len(set.list) {
			return nil, fmt.Errorf("ruler: %s has %d questions, sample %d asked for; ask for fewer or give a larger file", m.title(role), len(set.list), index)
		}
		q := &set.list[index]
		return &inquiry{q, d, set.docs, q.order(d, len(set.docs))}, nil
	}
}

// order is gold, near in random order, then all others in random order.
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

func (q *inquiry) sizes() (least, most int) { return len(q.gold), unbounded }

func (q *inquiry) prompt(n int) draft {
	list := make([]int, n)
	for i := range list {
		list[i] = q.order[i%len(q.order)]
	}
	shuffle(q.draws.stream("positions", n), list)
	var context strings.Builder
	for i, doc := range list {
		if i > 0 {
			context.WriteString("\n\n")
		}
		fmt.Fprintf(&context, qaDocument, i+1, q.docs[doc])
	}
	return draft{
		input:   fill(qaTemplate.input, "query", q.text, "context", context.String()),
		prefix:  qaTemplate.prefix,
		outputs: q.answers,
	}
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

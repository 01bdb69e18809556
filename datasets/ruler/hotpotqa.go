package ruler

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// hotpotRow is a question of HotpotQA's distractor setting (Yang et al. 2018,
// hotpot_dev_distractor_v1.json).
type hotpotRow struct {
	Question string            `json:"question"`
	Answer   string            `json:"answer"`
	Context  []hotpotParagraph `json:"context"`
}

// hotpotParagraph is written [title, [sentence, …]].
type hotpotParagraph struct {
	title     string
	sentences []string
}

// UnmarshalJSON implements json.Unmarshaler.
func (p *hotpotParagraph) UnmarshalJSON(text []byte) error {
	var parts []json.RawMessage
	if err := json.Unmarshal(text, &parts); err != nil {
		return err
	}
	if len(parts) != 2 {
		return fmt.Errorf("a paragraph of the context has %d parts, expected title and sentences", len(parts))
	}
	if err := errors.Join(json.Unmarshal(parts[0], &p.title), json.Unmarshal(parts[1], &p.sentences)); err != nil {
		return err
	}
	if blank(p.title) || p.sentences == nil {
		return errors.New("a paragraph of the context has no title or no sentences")
	}
	return nil
}

// parseHotpotQA takes all questions in the order of the file; each needs all of its
// paragraphs, the two that answer it and the distractors.
func parseHotpotQA(content []byte) (*questions, error) {
	var rows []hotpotRow
	if err := json.Unmarshal(content, &rows); err != nil {
		return nil, fmt.Errorf("expected the JSON of HotpotQA, a list of questions: %w", err)
	}
	set := &questions{}
	var docs documents
	for i, row := range rows {
		q := question{text: row.Question, answers: []string{row.Answer}}
		for _, p := range row.Context {
			doc := docs.add(p.title + "\n" + strings.Join(p.sentences, ""))
			if !slices.Contains(q.gold, doc) {
				q.gold = append(q.gold, doc)
			}
		}
		if blank(row.Question) || blank(row.Answer) || len(q.gold) == 0 {
			return nil, fmt.Errorf("[%d]: question, answer or context missing", i)
		}
		set.list = append(set.list, q)
	}
	set.docs = docs.list
	return set, set.check()
}

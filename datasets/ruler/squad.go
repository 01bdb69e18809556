package ruler

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// squadFile is what a file of SQuAD has (Rajpurkar et al. 2018, dev-v2.0.json; 1.1 has
// no is_impossible).
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

// parseSquad takes the questions that have an answer, in the order of the file.
func parseSquad(content []byte) (*questions, error) {
	var file squadFile
	if err := json.Unmarshal(content, &file); err != nil {
		return nil, fmt.Errorf("expected the JSON of SQuAD: %w", err)
	}
	if file.Data == nil {
		return nil, errors.New("no key \"data\"; SQuAD's files have it, as dev-v2.0.json")
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
				q := question{text: qa.Question, gold: []int{near[j]}}
				for _, a := range qa.Answers {
					q.answers = append(q.answers, a.Text)
				}
				if err := q.checkIn(p.Context); err != nil {
					return nil, fmt.Errorf("data[%d].paragraphs[%d].qas[%d]: %w", i, j, k, err)
				}
				for _, other := range near {
					if other != near[j] && !slices.Contains(q.near, other) {
						q.near = append(q.near, other)
					}
				}
				set.list = append(set.list, q)
			}
		}
	}
	set.docs = docs.list
	return set, set.check()
}

// checkIn refuses a question that cannot be judged by its context: an answer is a part of it.
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

// blank says whether a text has nothing to read.
func blank(text string) bool { return strings.TrimSpace(text) == "" }

// check refuses a set without a question.
func (s *questions) check() error {
	if len(s.list) == 0 {
		return errors.New("no question with an answer")
	}
	return nil
}

package ruler

import (
	"fmt"
	"slices"

	"github.com/kvreplay/kvreplay/internal/names"
)

// task is one of the 13: its parameters are those of scripts/synthetic.yaml.
type task struct {
	name      string
	newTokens int      // tokens to generate (scripts/data/synthetic/constants.py)
	unit      string   // what the length is calibrated in
	located   bool     // rows have token_position_answer
	texts     []string // roles of the texts that the prompts are made of
	sample    func(m *maker, length, index int, d draws) (sample, error)
}

// Tokens to generate of each kind of task.
const (
	niahTokens = 128
	vtTokens   = 30
	cweTokens  = 120
	fweTokens  = 50
	qaTokens   = 32
)

var tasks = []task{
	niah{name: "niah_single_1", haystack: noise, key: words, value: numbers, keys: 1, values: 1, queries: 1}.task(),
	niah{name: "niah_single_2", haystack: essays, key: words, value: numbers, keys: 1, values: 1, queries: 1}.task(),
	niah{name: "niah_single_3", haystack: essays, key: words, value: uuids, keys: 1, values: 1, queries: 1}.task(),
	niah{name: "niah_multikey_1", haystack: essays, key: words, value: numbers, keys: 4, values: 1, queries: 1}.task(),
	niah{name: "niah_multikey_2", haystack: needles, key: words, value: numbers, keys: 1, values: 1, queries: 1}.task(),
	niah{name: "niah_multikey_3", haystack: needles, key: uuids, value: uuids, keys: 1, values: 1, queries: 1}.task(),
	niah{name: "niah_multivalue", haystack: essays, key: words, value: numbers, keys: 1, values: 4, queries: 1}.task(),
	niah{name: "niah_multiquery", haystack: essays, key: words, value: numbers, keys: 4, values: 1, queries: 4}.task(),
	{name: "vt", newTokens: vtTokens, unit: "noise sentences", sample: newChain},
	{name: "cwe", newTokens: cweTokens, unit: "words", texts: []string{roleWords}, sample: newCommon},
	{name: "fwe", newTokens: fweTokens, unit: "words", sample: newFrequent},
	{name: "qa_1", newTokens: qaTokens, unit: "documents", texts: []string{roleSquad}, sample: newQuestion(roleSquad)},
	{name: "qa_2", newTokens: qaTokens, unit: "documents", texts: []string{roleHotpotQA}, sample: newQuestion(roleHotpotQA)},
}

// Names are the tasks in the order of scripts/synthetic.yaml.
func Names() []string {
	list := make([]string, len(tasks))
	for i, t := range tasks {
		list[i] = t.name
	}
	return list
}

// ReadersOf are the tasks whose prompts are made of a text that the user may give: essays,
// squad or hotpotqa.
func ReadersOf(text string) (list []string) {
	for _, t := range tasks {
		if slices.Contains(t.texts, text) {
			list = append(list, t.name)
		}
	}
	return list
}

// resolve returns the named tasks in the order of Names; "all" is every one.
func resolve(asked []string) ([]task, error) {
	wanted := make(map[string]bool)
	for _, text := range asked {
		name, err := names.Find("task", text, names.Of(append([]string{"all"}, Names()...)...))
		switch {
		case err != nil:
			return nil, fmt.Errorf("ruler: %w", err)
		case name == "all" && len(asked) == 1:
			return tasks, nil
		case name == "all":
			return nil, fmt.Errorf("ruler: task all and others, expected all by itself")
		case wanted[name]:
			return nil, fmt.Errorf("ruler: task %s is given twice", name)
		}
		wanted[name] = true
	}
	var list []task
	for _, t := range tasks {
		if wanted[t.name] {
			list = append(list, t)
		}
	}
	return list, nil
}

package longbench

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/kvreplay/kvreplay/internal/names"
	"github.com/kvreplay/kvreplay/internal/slice"
)

// Set is one of LongBench's sets of questions.
type Set struct {
	Name         string
	MaxNewTokens int  // config/dataset2maxlen.json
	ChatTemplate bool // pred.py leaves the template away where "chat models are better off without"
	E            bool // LongBench-E has this set too, in <name>_e.jsonl
	Rows         int  // rows of the original set (task.md), without those of LongBench-E
}

// sets are in the order of pred.py.
var sets = []Set{
	{"narrativeqa", 128, true, false, 200},
	{"qasper", 128, true, true, 200},
	{"multifieldqa_en", 64, true, true, 150},
	{"multifieldqa_zh", 64, true, false, 200},
	{"hotpotqa", 32, true, true, 200},
	{"2wikimqa", 32, true, true, 200},
	{"musique", 32, true, false, 200},
	{"dureader", 128, true, false, 200},
	{"gov_report", 512, true, true, 200},
	{"qmsum", 512, true, false, 200},
	{"multi_news", 512, true, true, 200},
	{"vcsum", 512, true, false, 200},
	{"trec", 64, false, true, 200},
	{"triviaqa", 32, false, true, 200},
	{"samsum", 128, false, true, 200},
	{"lsht", 64, false, false, 200},
	{"passage_count", 32, true, true, 200},
	{"passage_retrieval_en", 32, true, true, 200},
	{"passage_retrieval_zh", 32, true, false, 200},
	{"lcc", 64, false, true, 500},
	{"repobench-p", 64, false, true, 500},
}

// Sets returns the 21 sets.
func Sets() []Set { return slices.Clone(sets) }

// Lookup returns the set of a name, and whether it exists.
func Lookup(name string) (Set, bool) {
	i := slices.IndexFunc(sets, func(s Set) bool { return s.Name == name })
	if i < 0 {
		return Set{}, false
	}
	return sets[i], true
}

// promptsJSON has the values of THUDM/LongBench, config/dataset2prompt.json (MIT).
//
//go:embed prompts.json
var promptsJSON []byte

// templates are the prompts by set.
var templates = func() (m map[string]string) {
	if err := json.Unmarshal(promptsJSON, &m); err != nil {
		panic(err)
	}
	return m
}()

// Fill puts context and input into the set's prompt, as Python's str.format does. Text in them that
// looks like a field is not filled.
func (s Set) Fill(context, input string) string {
	return strings.NewReplacer("{context}", context, "{input}", input).Replace(templates[s.Name])
}

// task is a set of v1 or, with e, of LongBench-E.
type task struct {
	Set
	e bool
}

// suffixE ends the names of LongBench-E's files.
const suffixE = "_e"

func (t task) name() string {
	if t.e {
		return t.Name + suffixE
	}
	return t.Name
}

// AllE requests the sets of LongBench-E, as prompts.All requests the 21 sets.
const AllE = "all_e"

// allTasks returns the 21 sets, or LongBench-E's 13.
func allTasks(e bool) (list []task) {
	for _, s := range sets {
		if s.E || !e {
			list = append(list, task{s, e})
		}
	}
	return list
}

func taskNames() []string {
	return slice.Map(append(allTasks(false), allTasks(true)...), func(t task) string { return t.name() })
}

func checkTask(name string) error {
	if _, ok := Lookup(name); ok {
		return nil
	}
	if s, ok := Lookup(strings.TrimSuffix(name, suffixE)); ok && s.E {
		return nil
	}
	return fmt.Errorf("unknown set %q%s (`kvreplay datasets make longbench --help` lists them)", name, names.Nearest(name, taskNames()))
}

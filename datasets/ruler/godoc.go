package ruler

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"regexp"
	"slices"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"
)

// The documentation of Go's standard library stands in for SQuAD and HotpotQA (internal/mkgodoc
// collects it). Rules make the questions from first sentences.
//
// For SQuAD: "Compact replaces consecutive runs of equal elements with a single copy." asks "Which
// function of Go's package slices replaces consecutive …?". For HotpotQA two documents are needed:
// "which method of the type that implements buffering for an io.Reader object reads and returns a
// single byte?". Eight more documents come from the package.

// goEntry is a line of data/godoc.jsonl.gz.
type goEntry struct {
	Package string `json:"package"`
	Kind    string `json:"kind"`
	Type    string `json:"type"`
	Name    string `json:"name"`
	Text    string `json:"text"`
}

// firstSentence matches the name and the purpose, which begins with a verb.
var firstSentence = regexp.MustCompile(`^(?:Package |An? |The )?(\S+) ([a-z]+s\b.{15,200}?)\.(?:\s|$)`)

// does returns the purpose in the first sentence, "" if it has none of this form.
func (e *goEntry) does() string {
	m := firstSentence.FindStringSubmatch(e.Text)
	if m == nil || m[1] != e.lastName() {
		return ""
	}
	return m[2]
}

// lastName returns the name without the path of a package.
func (e *goEntry) lastName() string { return e.Name[strings.LastIndexByte(e.Name, '/')+1:] }

// tells reports whether an entry's purpose contains its name, in any case.
func (e *goEntry) tells() bool {
	return strings.Contains(strings.ToLower(e.does()), strings.ToLower(e.lastName()))
}

// named matches the beginning of a documentation: the name.
var named = regexp.MustCompile(`^(?:Package |An? |The )?(\S+) `)

// says reports whether the documentation of the entry begins with another entry's purpose. Then
// both answer the question.
func (e *goEntry) says(does string) bool {
	m := named.FindStringSubmatchIndex(e.Text)
	if m == nil || e.Text[m[2]:m[3]] != e.lastName() {
		return false
	}
	rest, ok := strings.CutPrefix(e.Text[m[1]:], does)
	next, _ := utf8.DecodeRuneInString(rest)
	return ok && !unicode.IsLetter(next) && !unicode.IsDigit(next)
}

func (e *goEntry) document() string {
	switch e.Kind {
	case "package":
		return fmt.Sprintf("package %s\n%s", e.Package, e.Text)
	case "method":
		return fmt.Sprintf("package %s: method %s of %s\n%s", e.Package, e.Name, e.Type, e.Text)
	}
	return fmt.Sprintf("package %s: %s %s\n%s", e.Package, e.Kind, e.Name, e.Text)
}

// goSet is the documentation with its documents numbered.
type goSet struct {
	entries   []goEntry
	doc       []int // of each entry
	docs      documents
	byPackage map[string][]int // documents
	members   map[string][]int // entries of a package
}

// loadGo reads the documentation, once, for both sets of questions. It also returns its text.
var loadGo = sync.OnceValues(func() (*goSet, []byte) {
	text := unpack(godocFile)
	set := &goSet{byPackage: make(map[string][]int), members: make(map[string][]int)}
	for line := range bytes.Lines(text) {
		var e goEntry
		if err := json.Unmarshal(line, &e); err != nil {
			panic("ruler: godoc: " + err.Error())
		}
		doc := set.docs.add(e.document())
		set.members[e.Package] = append(set.members[e.Package], len(set.entries))
		set.entries = append(set.entries, e)
		set.doc = append(set.doc, doc)
		set.byPackage[e.Package] = append(set.byPackage[e.Package], doc)
	}
	return set, text
})

// single makes the questions that one document answers.
func (s *goSet) single() *questions {
	set := &questions{docs: s.docs.list}
	for i, e := range s.entries {
		does := e.does()
		if does == "" || e.tells() {
			continue
		}
		q := question{answers: s.answers(i, e.Type), gold: []int{s.doc[i]}, near: without(s.byPackage[e.Package], s.doc[i])}
		switch e.Kind {
		case "package":
			q.text = fmt.Sprintf("Which package of Go's standard library %s?", does)
		case "method":
			q.text = fmt.Sprintf("Which method of type %s in Go's package %s %s?", e.Type, e.Package, does)
		default:
			q.text = fmt.Sprintf("Which %s of Go's package %s %s?", e.Kind, e.Package, does)
		}
		set.list = append(set.list, q)
	}
	set.list = mixed(set.list)
	return set
}

// hotpotDocs is the number of paragraphs of a HotpotQA question.
const hotpotDocs = 10

// double makes the questions that two documents answer, a type's and a method's.
func (s *goSet) double() *questions {
	set := &questions{docs: s.docs.list}
	types := make(map[[2]string]int)
	for i, e := range s.entries {
		if e.Kind == "type" && e.does() != "" && !strings.Contains(e.does(), e.Name) {
			types[[2]string{e.Package, e.Name}] = i
		}
	}
	for i, e := range s.entries {
		t, ok := types[[2]string{e.Package, e.Type}]
		does := e.does()
		if e.Kind != "method" || !ok || does == "" || e.tells() {
			continue
		}
		gold := []int{s.doc[t], s.doc[i]}
		rest := without(s.byPackage[e.Package], gold...)
		gold = append(gold, rest[:min(len(rest), hotpotDocs-len(gold))]...)
		set.list = append(set.list, question{
			text:    fmt.Sprintf("In Go's package %s, which method of the type that %s %s?", e.Package, s.entries[t].does(), does),
			answers: s.answers(i, s.answers(t, "")...), gold: gold,
		})
	}
	set.list = mixed(set.list)
	return set
}

// answers returns the name of an entry, and those of others of its package and of the given types
// with the same purpose.
func (s *goSet) answers(entry int, types ...string) []string {
	e := &s.entries[entry]
	names := []string{e.Name}
	for _, i := range s.members[e.Package] {
		o := &s.entries[i]
		if i != entry && o.Kind == e.Kind && slices.Contains(types, o.Type) && !slices.Contains(names, o.Name) && o.says(e.does()) {
			names = append(names, o.Name)
		}
	}
	return names
}

func without(docs []int, taken ...int) []int {
	return slices.DeleteFunc(slices.Clone(docs), func(d int) bool { return slices.Contains(taken, d) })
}

// mixed drops repeated questions and orders the others by a hash, so that the first ones are about
// many packages.
func mixed(list []question) []question {
	seen := make(map[string]int)
	hash := func(q question) uint64 {
		h := fnv.New64a()
		h.Write([]byte(q.text))
		return h.Sum64()
	}
	for _, q := range list {
		seen[q.text]++
	}
	list = slices.DeleteFunc(list, func(q question) bool { return seen[q.text] > 1 })
	slices.SortFunc(list, func(a, b question) int { return cmp.Or(cmp.Compare(hash(a), hash(b)), cmp.Compare(a.text, b.text)) })
	return list
}

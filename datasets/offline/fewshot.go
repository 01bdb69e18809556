package offline

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"path"
	"slices"
	"strings"
)

// labelled is the first sentence of a declaration's documentation, and its package.
type labelled struct{ of, sentence, label string }

// openTrec asks for the package of a comment. A unit is an example; two at least are
// of the same package.
func openTrec(s *sources, _ int) (generator, error) {
	t, err := s.parsedGo()
	if err != nil {
		return nil, err
	}
	var all []labelled
	byLabel := map[string][]labelled{}
	packages := t.publicPackages()
	sentences := map[string]int{}
	for _, p := range packages {
		p.count(sentences)
	}
	for _, p := range packages {
		list := p.labelled(sentences)
		if len(list) < 3 {
			continue
		}
		all = append(all, list...)
		byLabel[p.path] = list
	}
	if len(all) == 0 {
		return nil, errors.New("no package with three documented declarations")
	}
	return func(_ int, r *rand.Rand) (*problem, error) {
		asked := pick(r, all)
		same := shuffled(r, slices.DeleteFunc(slices.Clone(byLabel[asked.label]), func(l labelled) bool { return l == asked }))[:2]
		others := slices.DeleteFunc(shuffled(r, all), func(l labelled) bool { return l == asked || slices.Contains(same, l) })
		shares := [2]float64{r.Float64(), r.Float64()}
		return &problem{
			least: 0, most: len(others),
			origin: fmt.Sprintf("%s, documentation of %s", t.name, asked.of),
			build: func(n int) (string, []string) {
				examples := make([]string, n)
				for i, l := range others[:n] {
					examples[i] = l.example()
				}
				for i, l := range same {
					examples, _ = placed(examples, l.example(), shares[i])
				}
				return published("trec", strings.Join(examples, ""), asked.asked(),
					"the type of the question below", "the package that the comment below documents",
					"examples of questions", "examples of comments"), []string{asked.label}
			},
		}, nil
	}, nil
}

// count adds up how often each first sentence is there.
func (p *goPackage) count(sentences map[string]int) {
	for _, d := range p.decls {
		sentence, _ := splitSentence(d.doc)
		sentences[sentence]++
	}
}

// labelled are the first sentences of a package's documentation that do not name it and
// that are there once in all packages.
func (p *goPackage) labelled(sentences map[string]int) (list []labelled) {
	name := strings.ToLower(path.Base(p.path))
	for _, d := range p.decls {
		sentence, _ := splitSentence(d.doc)
		if n := wordCount(sentence); d.exported() && n >= 6 && n <= 60 && sentences[sentence] == 1 && !strings.Contains(strings.ToLower(sentence), name) {
			list = append(list, labelled{d.qualified(), sentence, p.path})
		}
	}
	return list
}

func (l labelled) asked() string   { return "Comment: " + l.sentence + "\nPackage:" }
func (l labelled) example() string { return l.asked() + " " + l.label + "\n" }

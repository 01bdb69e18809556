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
	for _, p := range t.publicPackages() {
		list := p.labelled()
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

// labelled are the first sentences of a package's documentation that do not name it.
func (p *goPackage) labelled() (list []labelled) {
	name := strings.ToLower(path.Base(p.path))
	seen := map[string]bool{}
	for _, d := range p.decls {
		sentence, _ := splitSentence(d.doc)
		if !d.exported() || wordCount(sentence) < 6 || wordCount(sentence) > 60 || strings.Contains(strings.ToLower(sentence), name) || seen[sentence] {
			continue
		}
		seen[sentence] = true
		list = append(list, labelled{d.qualified(), sentence, p.path})
	}
	return list
}

func (l labelled) asked() string   { return "Comment: " + l.sentence + "\nPackage:" }
func (l labelled) example() string { return l.asked() + " " + l.label + "\n" }

package offline

import (
	"errors"
	"fmt"
	"go/ast"
	"math/rand/v2"
	"slices"
	"strings"
)

// abstract is a piece of documentation, apart from its first sentence.
type abstract struct{ of, summary, rest string }

// openRetrieval asks which paragraph a summary is of. A unit is another paragraph.
func openRetrieval(s *sources, budget int) (generator, error) {
	t, err := s.parsedGo()
	if err != nil {
		return nil, err
	}
	all := t.abstracts(maxBytes(budget))
	if len(all) < 2 {
		return nil, errors.New("no documentation of more than one sentence")
	}
	return func(_ int, r *rand.Rand) (*problem, error) {
		list := shuffled(r, all)
		gold, others := list[0], make([]string, len(list)-1)
		for i, a := range list[1:] {
			others[i] = a.rest
		}
		share := r.Float64()
		return &problem{
			least: 1, most: len(others),
			origin: fmt.Sprintf("%s, documentation of %s", t.name, gold.of),
			build: func(n int) (string, []string) {
				passages, at := placed(others[:n], gold.rest, share)
				return published("passage_retrieval_en", numbered("Paragraph", " ", passages), gold.summary,
					"30 paragraphs from Wikipedia", fmt.Sprintf("%d paragraphs from the documentation of the Go standard library", n+1),
				), []string{fmt.Sprintf("Paragraph %d", at+1)}
			},
		}, nil
	}, nil
}

// abstracts are those of public packages and their declarations: a sentence of six
// words, then forty words or more and so many bytes at most. Sentence and rest are there
// once each, so that only one paragraph is right.
func (t *goTree) abstracts(most int) (list []abstract) {
	seen := map[string]bool{}
	add := func(of, doc string) {
		summary, rest := splitSentence(doc)
		rest = strings.Join(paragraphs(rest), "\n")
		if wordCount(summary) >= 6 && wordCount(rest) >= 40 && len(rest) <= most && !seen[rest] && !seen[summary] {
			seen[rest], seen[summary] = true, true
			list = append(list, abstract{of, summary, rest})
		}
	}
	for _, p := range t.publicPackages() {
		add(p.path, p.doc)
		for _, d := range p.decls {
			if d.exported() {
				add(d.qualified(), d.doc)
			}
		}
	}
	return list
}

func (t *goTree) publicPackages() []*goPackage {
	return slices.DeleteFunc(slices.Clone(t.packages), func(p *goPackage) bool { return !p.public() || p.isMain() })
}

// hop is a function and the type of one of its parameters, of another package.
type hop struct {
	from  *decl
	param string
	to    *decl
}

// openHotpot asks for what a parameter's type is. A unit is a passage that does not
// help.
func openHotpot(s *sources, budget int) (generator, error) {
	t, err := s.parsedGo()
	if err != nil {
		return nil, err
	}
	hops := map[*decl][]hop{}
	var types, all []*decl
	for _, p := range t.publicPackages() {
		for _, d := range p.decls {
			if !d.exported() || d.doc == "" || len(d.passage()) > maxBytes(budget) {
				continue
			}
			all = append(all, d)
			for _, h := range t.hops(d, maxBytes(budget)) {
				if hops[h.to] == nil {
					types = append(types, h.to)
				}
				hops[h.to] = append(hops[h.to], h)
			}
		}
	}
	if len(types) == 0 {
		return nil, errors.New("no function has a parameter of another package's type")
	}
	return func(_ int, r *rand.Rand) (*problem, error) {
		return t.twoHops(r, pick(r, hops[pick(r, types)]), all), nil
	}, nil
}

// hops are a function's parameters of other packages' types, as far as those have
// documentation that begins with a sentence of 6 to 40 words, and a passage of so many
// bytes at most.
func (t *goTree) hops(d *decl, most int) (list []hop) {
	if d.params == nil || d.recv != "" {
		return nil
	}
	for _, field := range d.params.List {
		x := field.Type
		if star, ok := x.(*ast.StarExpr); ok {
			x = star.X
		}
		s, ok := x.(*ast.SelectorExpr)
		if !ok || len(field.Names) == 0 {
			continue
		}
		to := t.lookup(d.file.imports[s.X.(*ast.Ident).Name], s.Sel.Name) // what is left of a type's dot is a name
		if to == nil || to.params != nil || to.doc == "" || !to.pkg.public() || len(to.passage()) > most {
			continue
		}
		if first, _ := splitSentence(to.doc); wordCount(first) >= 6 && wordCount(first) <= 40 {
			list = append(list, hop{d, field.Names[0].Name, to})
		}
	}
	return list
}

// twoHops is the problem of one hop: both passages at random places among others.
func (t *goTree) twoHops(r *rand.Rand, h hop, all []*decl) *problem {
	var others []string
	for _, d := range shuffled(r, all) {
		if d != h.from && d != h.to {
			others = append(others, d.passage())
		}
	}
	first, second := r.Float64(), r.Float64()
	answer, _ := splitSentence(h.to.doc)
	question := fmt.Sprintf("How does the documentation describe the type of the parameter %s of %s? Give its first sentence.", h.param, h.from.qualified())
	return &problem{
		least: 0, most: len(others),
		origin: fmt.Sprintf("%s, documentation of %s and %s", t.name, h.from.qualified(), h.to.qualified()),
		build: func(n int) (string, []string) {
			passages, _ := placed(others[:n], h.from.passage(), first)
			passages, _ = placed(passages, h.to.passage(), second)
			return published("hotpotqa", numbered("Passage", "\n", passages), question), []string{answer}
		},
	}
}

// passage is a declaration with its documentation.
func (d *decl) passage() string {
	return d.qualified() + "\n" + strings.TrimSpace(d.doc) + "\n" + strings.TrimSpace(d.signature)
}

package offline

import (
	"errors"
	"fmt"
	"go/ast"
	"math/rand/v2"
	"path"
	"slices"
	"strings"

	"github.com/kvreplay/kvreplay/datasets/prompts"
	"github.com/kvreplay/kvreplay/internal/slice"
)

// documentationOf makes a task: a package's documentation. A unit is a line of its source.
func documentationOf(t *goTree, budget int) (generator, error) {
	documented := slices.DeleteFunc(slices.Clone(t.packages), func(p *goPackage) bool {
		return p.isMain() || wordCount(p.doc) < 30
	})
	if len(documented) == 0 {
		return nil, errors.New("no package has documentation of 30 words")
	}
	documented = long(documented, budget*bytesPerToken, 8, func(p *goPackage) int {
		return slice.Sum(p.files, func(f *goFile) int { return len(f.clause()) })
	})
	return func(_ int, r *rand.Rand) (*prompts.Sample, error) {
		p := pick(r, documented)
		source, doc := lines(p.undocumented()), paragraphs(p.doc)
		return &prompts.Sample{
			Least: 1, Most: len(source),
			Origin: fmt.Sprintf("%s, package %s", t.name, p.path),
			Prompt: func(n int) prompts.Draft {
				return published("gov_report", strings.Join(source[:n], ""), "", strings.Join(doc[:min(3, len(doc))], "\n\n"),
					"a report by a government agency", "source files of a package of the Go standard library",
					"Write a one-page summary of the report", "Write the documentation of the package: what it does and how it is used",
					"write a one-page summary of the report", "write the documentation of the package",
					"Report:", "Source:", "Summary:", "Documentation:")
			},
		}, nil
	}, nil
}

// undocumented returns the source of all files without the package's documentation.
func (p *goPackage) undocumented() string {
	var b strings.Builder
	for _, f := range p.files {
		fmt.Fprintf(&b, "// File: %s\n%s\n", f.path, f.clause())
	}
	return b.String()
}

// A prompt of multi_summary_go has four packages, or more if they are too short, but no more than a
// summary has room for.
const fewSummarised, manySummarised = 4, 12

// purposesOf makes a task: the purposes of some packages. A unit is a line of each.
func purposesOf(t *goTree, budget int) (generator, error) {
	var apis []api
	for _, p := range t.packages {
		if a, ok := p.api(); ok {
			apis = append(apis, a)
		}
	}
	if len(apis) < fewSummarised {
		return nil, fmt.Errorf("%d packages with documentation, expected %d", len(apis), fewSummarised)
	}
	enough := budget * bytesPerToken
	apis = long(apis, enough/manySummarised, 2*manySummarised, func(a api) int { return a.size })
	return func(_ int, r *rand.Rand) (*prompts.Sample, error) {
		chosen := together(shuffled(r, apis), enough)
		return &prompts.Sample{
			Least: 1, Most: slices.Max(slice.Map(chosen, func(a api) int { return len(a.lines) })),
			Origin: fmt.Sprintf("%s, packages %s", t.name, strings.Join(slice.Map(chosen, func(a api) string { return a.path }), ", ")),
			Prompt: func(n int) prompts.Draft { return multiSummary(chosen, n) },
		}, nil
	}, nil
}

// together returns the first packages whose sizes sum to enough bytes.
func together(list []api, enough int) []api {
	n, size := 0, 0
	for n < len(list) && n < manySummarised && (n < fewSummarised || size < enough) {
		size += list[n].size
		n++
	}
	return list[:n]
}

// api is the documented declarations of a package.
type api struct {
	path, summary string
	lines         []string
	size          int // bytes of the lines
}

// api returns that of a public package with enough documentation.
func (p *goPackage) api() (a api, ok bool) {
	a.path = p.path
	a.summary, _ = splitSentence(p.doc)
	var b strings.Builder
	for _, d := range p.decls {
		if d.exported() && d.doc != "" {
			fmt.Fprintf(&b, "%s\n%s\n\n", strings.TrimSpace(d.signature), strings.TrimSpace(d.doc))
		}
	}
	a.size, a.lines = b.Len(), lines(b.String())
	return a, p.public() && !p.isMain() && wordCount(a.summary) >= 5 && a.size > 2000
}

func multiSummary(apis []api, n int) prompts.Draft {
	answer := strings.Join(slice.Map(apis, func(a api) string { return a.summary }), "\n")
	passages := slice.Map(apis, func(a api) string {
		return "package " + a.path + "\n\n" + strings.TrimSpace(strings.Join(a.lines[:min(n, len(a.lines))], ""))
	})
	return published("multi_news", numbered("Passage", "\n", passages), "", answer,
		"several news passages", "the documentation of several packages",
		"Write a one-page summary of all news. ", "Write what each of the packages is for, in a sentence each. ",
		"write a one-page summary of all the news", "write what each of the packages is for, in a sentence each",
		"News:", "Documentation:")
}

// abstract is a piece of documentation, apart from its first sentence.
type abstract struct{ of, summary, rest string }

// paragraphOf makes a task: the paragraph of a summary. A unit is another paragraph.
func paragraphOf(t *goTree, budget int) (generator, error) {
	all := t.abstracts(maxBytes(budget))
	if len(all) < 2 {
		return nil, errors.New("no documentation of more than one sentence")
	}
	return func(_ int, r *rand.Rand) (*prompts.Sample, error) {
		list := shuffled(r, all)
		gold, others := list[0], slice.Map(list[1:], func(a abstract) string { return a.rest })
		share := r.Float64()
		return &prompts.Sample{
			Least: 1, Most: len(others),
			Origin: fmt.Sprintf("%s, documentation of %s", t.name, gold.of),
			Prompt: func(n int) prompts.Draft {
				passages, at := placed(others[:n], gold.rest, share)
				return published("passage_retrieval_en", numbered("Paragraph", " ", passages), gold.summary, fmt.Sprintf("Paragraph %d", at+1),
					"30 paragraphs from Wikipedia", fmt.Sprintf("%d paragraphs from the documentation of the Go standard library", n+1))
			},
		}, nil
	}, nil
}

// abstracts returns those of public packages and their declarations. A summary is a sentence of six
// words, and the rest has at least forty words. most bounds its bytes. Both are unique, so that
// only one paragraph is right.
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

// typeOf makes a task: the purpose of a parameter's type. A unit is a passage that does not help.
func typeOf(t *goTree, budget int) (generator, error) {
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
	return func(_ int, r *rand.Rand) (*prompts.Sample, error) {
		return t.twoHops(r, pick(r, hops[pick(r, types)]), all), nil
	}, nil
}

// hops returns a function's parameters with types of other packages. The type's documentation must
// begin with a sentence of 6 to 40 words. most bounds the bytes of its passage.
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
		to := t.lookup(d.file.imports[s.X.(*ast.Ident).Name], s.Sel.Name) // a name is left of a type's dot
		if to == nil || to.params != nil || to.doc == "" || !to.pkg.public() || len(to.passage()) > most {
			continue
		}
		if first, _ := splitSentence(to.doc); wordCount(first) >= 6 && wordCount(first) <= 40 {
			list = append(list, hop{d, field.Names[0].Name, to})
		}
	}
	return list
}

// twoHops makes the problem of one hop: both passages at random places among others.
func (t *goTree) twoHops(r *rand.Rand, h hop, all []*decl) *prompts.Sample {
	others := slice.Map(slices.DeleteFunc(shuffled(r, all), func(d *decl) bool { return d == h.from || d == h.to }), (*decl).passage)
	first, second := r.Float64(), r.Float64()
	answer, _ := splitSentence(h.to.doc)
	question := fmt.Sprintf("How does the documentation describe the type of the parameter %s of %s? Give its first sentence.", h.param, h.from.qualified())
	return &prompts.Sample{
		Least: 0, Most: len(others),
		Origin: fmt.Sprintf("%s, documentation of %s and %s", t.name, h.from.qualified(), h.to.qualified()),
		Prompt: func(n int) prompts.Draft {
			passages, _ := placed(others[:n], h.from.passage(), first)
			passages, _ = placed(passages, h.to.passage(), second)
			return published("hotpotqa", numbered("Passage", "\n", passages), question, answer)
		},
	}
}

func (d *decl) passage() string {
	return d.qualified() + "\n" + strings.TrimSpace(d.doc) + "\n" + strings.TrimSpace(d.signature)
}

// labelled is the first sentence of a declaration's documentation, and its package.
type labelled struct{ of, sentence, label string }

// packageOf makes a task: the package of a comment. A unit is an example, and at least two are of
// the same package.
func packageOf(t *goTree, _ int) (generator, error) {
	var all []labelled
	byLabel := map[string][]labelled{}
	packages := t.publicPackages()
	sentences := map[string]int{} // the number of uses of each first sentence
	for _, p := range packages {
		for _, d := range p.decls {
			sentence, _ := splitSentence(d.doc)
			sentences[sentence]++
		}
	}
	for _, p := range packages {
		if list := p.labelled(sentences); len(list) >= 3 {
			all, byLabel[p.path] = append(all, list...), list
		}
	}
	if len(all) == 0 {
		return nil, errors.New("no package with three documented declarations")
	}
	return func(_ int, r *rand.Rand) (*prompts.Sample, error) {
		asked := pick(r, all)
		same := shuffled(r, slices.DeleteFunc(slices.Clone(byLabel[asked.label]), func(l labelled) bool { return l == asked }))[:2]
		others := slices.DeleteFunc(shuffled(r, all), func(l labelled) bool { return l == asked || slices.Contains(same, l) })
		places := [2]float64{r.Float64(), r.Float64()}
		return &prompts.Sample{
			Least: 0, Most: len(others),
			Origin: fmt.Sprintf("%s, documentation of %s", t.name, asked.of),
			Prompt: func(n int) prompts.Draft {
				examples := slice.Map(others[:n], labelled.example)
				for i, l := range same {
					examples, _ = placed(examples, l.example(), places[i])
				}
				return published("trec", strings.Join(examples, ""), asked.asked(), asked.label,
					"the type of the question below", "the package that the comment below documents",
					"examples of questions", "examples of comments")
			},
		}, nil
	}, nil
}

// labelled returns the first sentences of a package's documentation that do not name it and are
// unique among all packages.
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

package offline

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
)

// openSummaryGo asks for a package's documentation. A unit is a line of its source.
func openSummaryGo(s *sources, budget int) (generator, error) {
	t, err := s.parsedGo()
	if err != nil {
		return nil, err
	}
	documented := slices.DeleteFunc(slices.Clone(t.packages), func(p *goPackage) bool {
		return p.isMain() || wordCount(p.doc) < 30
	})
	if len(documented) == 0 {
		return nil, errors.New("no package has documentation of 30 words")
	}
	documented = long(documented, budget*bytesPerToken, 8, (*goPackage).bytes)
	return func(_ int, r *rand.Rand) (*problem, error) {
		p := pick(r, documented)
		source, doc := lines(p.undocumented()), p.docParagraphs(3)
		return &problem{
			least: 1, most: len(source),
			origin: fmt.Sprintf("%s, package %s", t.name, p.path),
			build: func(n int) (string, []string) {
				return published("gov_report", strings.Join(source[:n], ""), "",
					"a report by a government agency", "source files of a package of the Go standard library",
					"Write a one-page summary of the report", "Write the documentation of the package: what it does and how it is used",
					"write a one-page summary of the report", "write the documentation of the package",
					"Report:", "Source:", "Summary:", "Documentation:"), []string{doc}
			},
		}, nil
	}, nil
}

// undocumented is the source of all files without the package's documentation.
func (p *goPackage) undocumented() string {
	var b strings.Builder
	for _, f := range p.files {
		fmt.Fprintf(&b, "// File: %s\n%s\n", f.path, f.clause())
	}
	return b.String()
}

// docParagraphs are the first n paragraphs of a package's documentation.
func (p *goPackage) docParagraphs(n int) string {
	all := paragraphs(p.doc)
	return strings.Join(all[:min(n, len(all))], "\n\n")
}

// A prompt of multi_summary_go has four packages, or more where they are too short, but
// no more than a summary has room for.
const fewSummarised, manySummarised = 4, 12

// openMultiSummary asks what each of some packages is for. A unit is a line of each.
func openMultiSummary(s *sources, budget int) (generator, error) {
	t, err := s.parsedGo()
	if err != nil {
		return nil, err
	}
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
	return func(_ int, r *rand.Rand) (*problem, error) {
		chosen := together(shuffled(r, apis), enough)
		p := &problem{least: 1}
		var names, summaries []string
		for _, a := range chosen {
			p.most = max(p.most, len(a.lines))
			names = append(names, a.path)
			summaries = append(summaries, a.summary)
		}
		p.origin = fmt.Sprintf("%s, packages %s", t.name, strings.Join(names, ", "))
		p.build = func(n int) (string, []string) {
			return multiSummary(chosen, n), []string{strings.Join(summaries, "\n")}
		}
		return p, nil
	}, nil
}

// together are the first packages that have so many bytes.
func together(list []api, enough int) []api {
	n, size := 0, 0
	for n < len(list) && n < manySummarised && (n < fewSummarised || size < enough) {
		size += list[n].size
		n++
	}
	return list[:n]
}

// api is what a package's declarations say of themselves.
type api struct {
	path, summary string
	lines         []string
	size          int // bytes of the lines
}

// api returns that of a public package which has enough to say.
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

func multiSummary(apis []api, n int) string {
	passages := make([]string, len(apis))
	for i, a := range apis {
		passages[i] = "package " + a.path + "\n\n" + strings.TrimSpace(strings.Join(a.lines[:min(n, len(a.lines))], ""))
	}
	return published("multi_news", numbered("Passage", "\n", passages), "",
		"several news passages", "the documentation of several packages",
		"Write a one-page summary of all news. ", "Write what each of the packages is for, in a sentence each. ",
		"write a one-page summary of all the news", "write what each of the packages is for, in a sentence each",
		"News:", "Documentation:")
}

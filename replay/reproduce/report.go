package reproduce

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/kvreplay/kvreplay/internal/names"
)

// Report holds the computed sections of some papers.
type Report struct{ Papers []Reproduced }

// Reproduced is a paper with its sections.
type Reproduced struct {
	Name     string
	Citation string
	Sections []Section
	Gaps     []Gap // figures, tables and printed numbers without a line

	page *Page
}

// Section is one table or figure of a paper.
type Section struct {
	Name           string     `json:"section"`     // unique within the paper, for anchors: "table-2"
	Title          string     `json:"title"`       // "Table 2: decoding throughput, OPT-6.7B to OPT-30B"
	Covers         []string   `json:"covers"`      // figures and tables whose lines it holds: "Fig. 5", "Table 2"
	Method         string     `json:"method"`      // code path that computes our figures
	Assumptions    []string   `json:"assumptions"` // assumptions that the paper does not state, with their effect
	Constants      []Constant `json:"constants"`
	Lines          []Line     `json:"lines"`
	Contradictions []string   `json:"contradictions"` // contradictions within the paper, with the figures
	Figures        []Figure   `json:"figures"`
	Summary        Summary    `json:"summary"`
}

// Constant is a number that a section needs and its paper does not print.
type Constant struct {
	Name  string `json:"name"`
	Value Number `json:"value"`
	Unit  string `json:"unit"`
	From  string `json:"from"` // cells that it was fitted to, or its source
}

// Figure is a plot of our figures in a section.
type Figure struct {
	Name string // file name without extension: "ess-fig-5"
	Alt  string // content in words
	SVG  []byte
}

// MarshalText returns the figure's name.
func (f Figure) MarshalText() ([]byte, error) { return []byte(f.Name), nil }

// Make computes the sections of papers, several papers at once. The report does not depend on the
// number of papers at once.
func Make(ctx context.Context, papers []Paper, in Inputs) (*Report, error) {
	r := &Report{Papers: make([]Reproduced, len(papers))}
	group, ctx := errgroup.WithContext(ctx)
	for i, p := range papers {
		group.Go(func() error {
			s, err := Begin(ctx, p, in)
			if err != nil {
				return fmt.Errorf("reproduce %s: %w", p.Name, err)
			}
			defer s.Close()
			sections, err := s.Run()
			if err != nil {
				return fmt.Errorf("reproduce %s: %w", p.Name, err)
			}
			r.Papers[i] = Reproduced{p.Name, p.Citation, sections, []Gap{}, p.Page}
			if len(in.Sections) == 0 { // gaps belong to the whole paper
				r.Papers[i].Gaps = append(r.Papers[i].Gaps, s.data.Gaps...)
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	return r, nil
}

// page returns the page of the only paper, nil if the report has another form.
func (r *Report) page() *Page {
	if len(r.Papers) != 1 {
		return nil
	}
	return r.Papers[0].page
}

// Run computes sections of the paper, in the order of the data file.
func (s *Study) Run() (sections []Section, err error) {
	err = Try(func() {
		s.paper.Study(s)
		for _, o := range s.data.Sections {
			if s.wants(o.Section) {
				sections = append(sections, s.Section(o.Section).Finish())
			}
		}
	})
	return sections, err
}

// Listed is a section of a paper that can be computed.
type Listed struct {
	Paper, Section string
	Title          string
	Traces         bool // it replays the traces of Inputs
}

// Choose returns the papers that have some of the named sections, and these sections. No names
// choose all. An unknown name is an error that lists all sections of a single paper.
func Choose(papers []Paper, sections []string) (chosen []Paper, list []Listed, err error) {
	in := Inputs{Sections: sections}
	var own, known []string // names without and with the paper
	for _, p := range papers {
		d, err := parse(p.Name+"/paper.yaml", p.Data)
		if err != nil {
			return nil, nil, err
		}
		before := len(list)
		for _, o := range d.Sections {
			own, known = append(own, o.Section), append(known, p.Name+"/"+o.Section)
			if in.wants(p.Name + "/" + o.Section) {
				list = append(list, Listed{p.Name, o.Section, o.Title, o.Traces})
			}
		}
		if len(list) > before {
			chosen = append(chosen, p)
		}
	}
	for _, name := range sections {
		if slices.ContainsFunc(known, func(section string) bool { return named(section, name) }) {
			continue
		}
		all := strings.Join(own, ", ")
		if len(papers) > 1 {
			all = names.Some(known) + " (`kvreplay reproduce --list`)"
		}
		return nil, nil, fmt.Errorf("unknown section %.60q%s; known: %s", name, names.Nearest(name, slices.Concat(own, known)), all)
	}
	return chosen, list, nil
}

// Past lists the lines that miss their gates without a known reason, as
// "paper/section: item".
func (r *Report) Past() (past []string) {
	for _, p := range r.Papers {
		for _, item := range Past(p.Sections) {
			past = append(past, p.Name+"/"+item)
		}
	}
	return past
}

// Past lists the lines of sections that miss their gates without a known reason, as
// "section: item".
func Past(sections []Section) (past []string) {
	for _, s := range sections {
		for _, l := range s.Lines {
			if l.Result == PastGate {
				past = append(past, s.Name+": "+l.Item)
			}
		}
	}
	return past
}

// Summary counts lines.
type Summary struct {
	Judged int    `json:"judged"` // lines that can fail
	Within int    `json:"within"`
	Known  int    `json:"known_misses"`
	Past   int    `json:"past_gate"`
	Fitted int    `json:"fitted"`
	Absent int    `json:"not_computable"`
	Worst  Number `json:"worst_error"` // largest relative error of the judged figures, NaN if there is none
}

// count counts the lines that meet a condition, or all if it is nil.
func count(lines []Line, counts func(*Line) bool) Summary {
	sum := Summary{Worst: Number(None)}
	for i := range lines {
		l := &lines[i]
		switch {
		case counts != nil && !counts(l):
			continue
		case l.Result == PastGate:
			sum.Past++
		case l.Result == KnownMiss:
			sum.Known++
		case l.Result == NotJudged && l.Kind == Fitted:
			sum.Fitted++
			continue
		case l.Result == NotJudged:
			sum.Absent++
			continue
		default:
			sum.Within++
		}
		sum.Judged++
		if e := Number(math.Abs(float64(l.Error))); !math.IsNaN(float64(e)) && !(e <= sum.Worst) {
			sum.Worst = e
		}
	}
	return sum
}

// String returns the line below a section.
func (s Summary) String() string {
	parts := []string{fmt.Sprintf("%d judged, %d within their gates", s.Judged, s.Within)}
	if !math.IsNaN(float64(s.Worst)) {
		parts = append(parts, "worst error "+percent(s.Worst, false))
	}
	for _, p := range []struct {
		n    int
		what string
	}{{s.Past, "past their gates"}, {s.Known, "known to miss"}, {s.Fitted, "fitted"}, {s.Absent, "not computable"}} {
		if p.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", p.n, p.what))
		}
	}
	return strings.Join(parts, "; ")
}

// Split is the number of lines of one kind by verdict. Fitted and not computable lines are not
// judged and have no verdict.
type Split struct {
	Kind    Kind   `json:"kind"`
	Meaning string `json:"meaning"`
	Lines   int    `json:"lines"`
	Within  int    `json:"within"`
	Known   int    `json:"known_misses"`
	Past    int    `json:"past_gate"`
}

// split counts lines by kind, from the kind that proves most to the one that proves least.
func split(lines []Line) (list []Split) {
	for _, k := range kinds {
		n := count(lines, func(l *Line) bool { return l.Kind == k.kind })
		list = append(list, Split{k.kind, k.meaning, n.Judged + n.Fitted + n.Absent, n.Within, n.Known, n.Past})
	}
	return list
}

func (p *Reproduced) lines() (all []Line) {
	for _, s := range p.Sections {
		all = append(all, s.Lines...)
	}
	return all
}

func (r *Report) lines() (all []Line) {
	for i := range r.Papers {
		all = append(all, r.Papers[i].lines()...)
	}
	return all
}

// Headline states the number of judged figures by verdict, the predictions among them, and the
// number of figures that are not judged.
func (r *Report) Headline() string {
	all, predictions := count(r.lines(), nil), split(r.lines())[0]
	return fmt.Sprintf("kvreplay checks %d published figures and statements. %d are within their gates. "+
		"%d are beyond their gates for a stated reason, and %d without one. %d of the checked figures are predictions: "+
		"no constant is fitted to their table. %d of these are within. It does not check %d more: "+
		"%d that a constant is fitted to, and %d that the paper's text does not determine.",
		all.Judged, all.Within, all.Known, all.Past, predictions.Lines, predictions.Within,
		all.Fitted+all.Absent, all.Fitted, all.Absent)
}

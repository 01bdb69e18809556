package reproduce

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"
)

// Report holds the computed sections of some papers.
type Report struct{ Papers []Reproduced }

// Reproduced is a paper with its sections.
type Reproduced struct {
	Paper
	Sections []Section
}

// Make computes the sections of papers, several papers at once. The report does not depend
// on how many.
func Make(ctx context.Context, papers []Paper, in Inputs) (*Report, error) {
	r := &Report{Papers: make([]Reproduced, len(papers))}
	group, ctx := errgroup.WithContext(ctx)
	for i, p := range papers {
		group.Go(func() error {
			sections, err := p.Sections(ctx, in)
			if err != nil {
				return fmt.Errorf("reproduce %s: %w", p.Name, err)
			}
			r.Papers[i] = Reproduced{p, sections}
			return r.Papers[i].check()
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	return r, nil
}

// check rejects a paper that a report cannot present truthfully: two sections of one name,
// an incomplete line, or a figure of the paper that is silently left out.
func (p *Reproduced) check() error {
	seen := map[string]bool{}
	for i := range p.Sections {
		s := &p.Sections[i]
		if s.Name == "" || seen[s.Name] {
			return fmt.Errorf("reproduce %s: two sections are named %q", p.Name, s.Name)
		}
		seen[s.Name] = true
		for j := range s.Lines {
			if err := s.Lines[j].check(); err != nil {
				return fmt.Errorf("reproduce %s, section %s, %s: %w", p.Name, s.Name, s.Lines[j].Item, err)
			}
		}
	}
	return p.account(p.Sections)
}

// Keep leaves the sections of the given names, each "table-2" or "kvpr/table-2", and no
// gaps. It returns the first name that no section has, empty if all are found.
func (r *Report) Keep(names []string) (unknown string) {
	for _, name := range names {
		if !slices.ContainsFunc(r.Names(), func(known string) bool { return matches(name, known) }) {
			return name
		}
	}
	for i := range r.Papers {
		p := &r.Papers[i]
		p.Gaps = nil // they are of the whole paper
		p.Sections = slices.DeleteFunc(p.Sections, func(s Section) bool {
			return !slices.ContainsFunc(names, func(name string) bool { return matches(name, p.Name+"/"+s.Name) })
		})
	}
	r.Papers = slices.DeleteFunc(r.Papers, func(p Reproduced) bool { return len(p.Sections) == 0 })
	return ""
}

func matches(name, known string) bool {
	return name == known || strings.HasSuffix(known, "/"+name)
}

// Names lists the sections as "paper/section".
func (r *Report) Names() (names []string) {
	for _, p := range r.Papers {
		for _, s := range p.Sections {
			names = append(names, p.Name+"/"+s.Name)
		}
	}
	return names
}

// Past lists the lines that miss their gates without a known reason, as
// "paper/section: item".
func (r *Report) Past() (past []string) {
	for _, p := range r.Papers {
		for _, s := range p.Sections {
			for i := range s.Lines {
				if s.Lines[i].Verdict() == PastGate {
					past = append(past, fmt.Sprintf("%s/%s: %s", p.Name, s.Name, s.Lines[i].Item))
				}
			}
		}
	}
	return past
}

// Verdict is the result of a line.
type Verdict string

// Verdicts.
const (
	Within    Verdict = "within"        // its gate
	Holds     Verdict = "holds"         // the statement
	NotJudged Verdict = "not judged"    // fitted, or not computable
	KnownMiss Verdict = "known miss"    // past its gate, or a statement that does not hold, with the reason
	PastGate  Verdict = "past its gate" // the same without a reason: an error
)

// Verdict returns the line's result. A fitted cell past its gate is an error too: the code
// no longer computes the figure that the constant was fitted with.
func (l *Line) Verdict() Verdict {
	switch {
	case !l.Passes() && l.Known:
		return KnownMiss
	case !l.Passes():
		return PastGate
	case !l.Kind.Judged():
		return NotJudged
	case l.Kind == Ordinal:
		return Holds
	}
	return Within
}

// Summary counts lines.
type Summary struct {
	Judged int     `json:"judged"` // lines that can fail
	Within int     `json:"within"`
	Known  int     `json:"known_misses"`
	Past   int     `json:"past_gate"`
	Fitted int     `json:"fitted"`
	Absent int     `json:"not_computable"`
	Worst  float64 `json:"-"` // largest relative error of the judged figures, NaN if there is none
}

// add counts a line.
func (s *Summary) add(l *Line) {
	switch l.Verdict() {
	case PastGate:
		s.Past++
	case KnownMiss:
		s.Known++
	case NotJudged:
		if l.Kind == Fitted {
			s.Fitted++
		} else {
			s.Absent++
		}
		return
	default:
		s.Within++
	}
	s.Judged++
	if e := math.Abs(l.Error()); !math.IsNaN(e) && !(e <= s.Worst) {
		s.Worst = e
	}
}

// Summary counts the lines of a section.
func (s *Section) Summary() Summary { return count([]Section{*s}, func(*Line) bool { return true }) }

// count counts the lines of sections that a condition holds for.
func count(sections []Section, of func(*Line) bool) Summary {
	sum := Summary{Worst: math.NaN()}
	for i := range sections {
		for j := range sections[i].Lines {
			if l := &sections[i].Lines[j]; of(l) {
				sum.add(l)
			}
		}
	}
	return sum
}

// sections are those of all papers.
func (r *Report) sections() (all []Section) {
	for i := range r.Papers {
		all = append(all, r.Papers[i].Sections...)
	}
	return all
}

// String is the line below a section.
func (s Summary) String() string {
	parts := []string{fmt.Sprintf("%d judged, %d within their gates", s.Judged, s.Within)}
	if !math.IsNaN(s.Worst) {
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

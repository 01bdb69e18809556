package reproduce

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"
)

// Report is what the sections of some papers came to.
type Report struct{ Papers []Reproduced }

// Reproduced is a paper with its sections.
type Reproduced struct {
	Paper
	Sections []Section
}

// Make computes the sections of papers, several papers at once; the report is the same at
// any number.
func Make(ctx context.Context, papers []Paper, in Inputs) (*Report, error) {
	r := &Report{Papers: make([]Reproduced, len(papers))}
	group, ctx := errgroup.WithContext(ctx)
	for i, p := range papers {
		group.Go(func() error {
			sections, err := p.Sections(ctx, in)
			if err != nil {
				return fmt.Errorf("reproduce %s: %w", p.Name, err)
			}
			if in.Progress != nil {
				in.Progress()
			}
			r.Papers[i] = Reproduced{p, sections}
			return check(p.Name, sections)
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	return r, nil
}

// check refuses what a report could not show: two sections of one name, a known miss
// without a reason.
func check(paper string, sections []Section) error {
	seen := map[string]bool{}
	for _, s := range sections {
		if s.Name == "" || seen[s.Name] {
			return fmt.Errorf("reproduce %s: two sections are named %q", paper, s.Name)
		}
		seen[s.Name] = true
		for _, l := range s.Lines {
			if (l.Known || l.Status == Missing) && l.Note == "" {
				return fmt.Errorf("reproduce %s, section %s, %s: no reason is given why it misses", paper, s.Name, l.Item)
			}
		}
	}
	return nil
}

// Keep leaves the sections of the given names, each "table-2" or "kvpr/table-2". It
// returns the first name that no section has, empty where all are found.
func (r *Report) Keep(names []string) (unknown string) {
	for _, name := range names {
		if !slices.ContainsFunc(r.Names(), func(known string) bool { return matches(name, known) }) {
			return name
		}
	}
	for i := range r.Papers {
		p := &r.Papers[i]
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

// Past are the lines past their gates that nobody knows of, as "paper/section: item".
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

// Verdict is what a line came to.
type Verdict string

// Verdicts.
const (
	Within    Verdict = "within"        // its gate
	Holds     Verdict = "holds"         // the statement
	NotJudged Verdict = "not judged"    // a fitted cell, or one that cannot be reproduced
	KnownMiss Verdict = "known miss"    // past its gate, or a statement that does not hold, with the reason
	PastGate  Verdict = "past its gate" // the same without: an error
)

// Verdict says what the line came to. A fitted cell past its gate is an error too: the
// code no longer does what the constant was fitted with.
func (l *Line) Verdict() Verdict {
	switch {
	case !l.Passes() && l.Known:
		return KnownMiss
	case !l.Passes():
		return PastGate
	case l.Status == Missing || l.Status == Fitted:
		return NotJudged
	case l.Status == Ordinal:
		return Holds
	}
	return Within
}

// Summary counts the lines of a section.
type Summary struct {
	Judged int     `json:"judged"` // lines that could fail: neither fitted nor missing
	Within int     `json:"within"`
	Known  int     `json:"known_misses"`
	Past   int     `json:"past_gate"`
	Fitted int     `json:"fitted"`
	Absent int     `json:"not_reproducible"`
	Worst  float64 `json:"-"` // largest relative error of the judged figures, NaN where there are none
}

// Summary counts the lines.
func (s *Section) Summary() Summary {
	sum := Summary{Worst: math.NaN()}
	for i := range s.Lines {
		l := &s.Lines[i]
		verdict := l.Verdict()
		switch {
		case verdict == PastGate:
			sum.Past++
		case verdict == KnownMiss:
			sum.Known++
		case l.Status == Fitted:
			sum.Fitted++
			continue
		case l.Status == Missing:
			sum.Absent++
			continue
		default:
			sum.Within++
		}
		sum.Judged++
		if e := math.Abs(l.Error()); l.Status != Ordinal && !math.IsNaN(e) && !(e <= sum.Worst) {
			sum.Worst = e
		}
	}
	return sum
}

// total adds up the sections.
func (r *Report) total() Summary {
	all := Summary{Worst: math.NaN()} // errors of different papers have no common worst
	for _, p := range r.Papers {
		for i := range p.Sections {
			s := p.Sections[i].Summary()
			all.Judged += s.Judged
			all.Within += s.Within
			all.Known += s.Known
			all.Past += s.Past
			all.Fitted += s.Fitted
			all.Absent += s.Absent
		}
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
	}{{s.Past, "past their gates"}, {s.Known, "known to miss"}, {s.Fitted, "fitted"}, {s.Absent, "not reproducible"}} {
		if p.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", p.n, p.what))
		}
	}
	return strings.Join(parts, "; ")
}

package reproduce

import (
	"context"
	"fmt"

	"github.com/kvreplay/kvreplay/metrics/render/chart"
)

// Constant is a number that a section needs and its paper does not print.
type Constant struct {
	Name  string
	Value float64
	Unit  string
	From  string // the cells that it was fitted to, or its source
}

// Section is one table or figure of a paper.
type Section struct {
	Name           string   // unique within the paper, for anchors: "table-2"
	Title          string   // "Table 2: decoding throughput, OPT-6.7B to OPT-30B"
	Covers         []string // the paper's figures and tables that the lines are about: "Fig. 5", "Table 2"
	Method         string   // one or two sentences: through which code our figures come
	Assumptions    []string // that the figures rest on and the paper does not state, with their effect
	Constants      []Constant
	Lines          []Line
	Contradictions []string // where the paper disagrees with itself, with the figures
	Figures        []Figure
}

// Figure is a plot of a section, made of our figures.
type Figure struct {
	Name string // of the file, without ending: "ess-fig-5"
	Alt  string // what it shows, in words
	SVG  []byte
}

// Draw adds a figure; name is that of its file, alt what it shows, in words.
func (s *Section) Draw(name, alt string, c *chart.Chart) error {
	svg, err := c.Draw()
	if err != nil {
		return fmt.Errorf("figure %s: %w", name, err)
	}
	s.Figures = append(s.Figures, Figure{Name: name, Alt: alt, SVG: svg})
	return nil
}

// Inputs are what sections read besides the paper's figures.
type Inputs struct {
	Traces []string // paths of real traces; sections that need some say which by their metadata
	Short  bool     // smaller synthetic traces, for tests
	// Hardware is a folder of machines and models that replace the bundled ones; empty: none.
	Hardware string
	// Progress, if not nil, is called when a part of a paper is done, Paper.Parts times for
	// each paper. Several goroutines call it.
	Progress func()
}

// Done reports that a part of a paper is done.
func (in Inputs) Done() {
	if in.Progress != nil {
		in.Progress()
	}
}

// Paper is one published system.
type Paper struct {
	Name     string // "kvpr", as the command line has it
	Citation string // authors, title, where, identifier
	Figures  int    // the paper numbers its figures 1 to Figures
	Tables   int    // and its tables 1 to Tables
	Gaps     []Gap  // figures, tables and printed numbers without a line
	Parts    int    // that Sections computes one after the other, for progress
	Sections func(context.Context, Inputs) ([]Section, error)
}

package cli

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kvreplay/kvreplay/datasets/synthetic"
	"github.com/kvreplay/kvreplay/internal/files"
	"github.com/kvreplay/kvreplay/internal/names"
	"github.com/kvreplay/kvreplay/internal/slice"
	"github.com/kvreplay/kvreplay/internal/table"
	"github.com/kvreplay/kvreplay/metrics/render"
	"github.com/kvreplay/kvreplay/replay/reproduce"
	"github.com/kvreplay/kvreplay/replay/reproduce/papers"
)

type reproduceFlags struct {
	hardware string // folder
	traces   []string
	sections []string
	list     bool
	out      string
	format   string
}

// traceFolders are the folders of traces in a checkout.
var traceFolders = []string{"datasets/bundled", "datasets/corpus"}

func reproduceCommand() command {
	var f reproduceFlags
	known := append(papers.Names(papers.Known()), "all")
	return command{
		use:   "reproduce [" + strings.Join(known, "|") + "]...",
		short: "Compare kvreplay with what the papers printed",
		long: `Compute the papers' tables, figures and statements with kvreplay's own code and compare each
figure with the printed one. --list prints the sections of a paper. The report of all papers is
replay/REPRODUCTION.md, and replay/reproduce/README.md explains it. blind and trtllm have pages
of their own. The exit code is 1 if a figure misses its gate, the largest error allowed, for no
known reason.`,
		details: "Papers:\n" + strings.Join(slice.Map(papers.Known(), func(p reproduce.Paper) string {
			return fmt.Sprintf("  %-8s %s", p.Name, p.Citation)
		}), "\n"),
		example: `  kvreplay reproduce all
  kvreplay reproduce kvdrive --list
  kvreplay reproduce kvdrive --section fig-20
  kvreplay reproduce all --out report --format json`,
		values: known,
		args:   knownPapers(known),
		flags: func(fl *flagSet) {
			fl.StringSliceVar(&f.traces, "traces", nil, "replay these trace `FILES` and folders (default "+strings.Join(traceFolders, " and ")+")")
			fl.StringVar(&f.hardware, "hardware-dir", "", "replace bundled machines and models by the YAML files of this `FOLDER`")
			fl.StringSliceVar(&f.sections, "section", nil, "compute only these `SECTIONS`, each NAME or PAPER/NAME (default: all)")
			fl.BoolVar(&f.list, "list", false, "list the sections and whether they replay traces, and compute none")
			fl.out(&f.out, "write the report, "+reproduce.FileName+", and its figures to this `FOLDER` too")
			fl.format(&f.format, "", "table", "markdown", "csv", "json", "html")
		},
		run: f.run,
		next: func(c *call) []string {
			if f.list {
				return slices.Concat([]string{"reproduce"}, c.args, []string{"--section", "NAME"})
			}
			if f.out != "" {
				return []string{"hardware", "points"}
			}
			return slices.Concat([]string{"reproduce"}, c.args, c.given("reproduce", "format"), []string{"--out", "report"})
		},
	}
}

func knownPapers(known []string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		for _, arg := range args {
			if _, err := names.Find("paper", arg, names.Of(known...)); err != nil {
				return errUsage{err}
			}
		}
		return nil
	}
}

// chosenPapers are the named papers, or all, in the order of reports.
func chosenPapers(args []string) []reproduce.Paper {
	args = slices.Clone(args)
	for i, arg := range args {
		args[i], _ = names.Find("paper", arg, names.Of(append(papers.Names(papers.Known()), "all")...)) // knownPapers has checked it
	}
	if len(args) == 0 || slices.Contains(args, "all") {
		args = append(args, papers.Names(papers.All())...)
	}
	return slice.Filter(papers.Known(), func(p reproduce.Paper) bool { return slices.Contains(args, p.Name) })
}

// drawSynthetic writes the synthetic trace of a preset for a study, without candidates beyond
// the demand.
func drawSynthetic(ctx context.Context, path, preset string, steps int) error {
	d, err := synthetic.Preset(preset)
	if err != nil {
		return err
	}
	d.Candidates = d.TopK
	if steps > 0 {
		d.Steps = steps
	}
	return synthetic.Write(ctx, path, d, synthetic.Options{})
}

func (f *reproduceFlags) run(c *call) error {
	named := chosenPapers(c.args)
	chosen, sections, err := reproduce.Choose(named, f.sections)
	if err != nil {
		return errUsage{err}
	}
	if i := slices.IndexFunc(named, func(p reproduce.Paper) bool { return !slices.Contains(papers.Names(chosen), p.Name) }); i >= 0 && len(named) == len(c.args) {
		return usagef("%s has none of the sections that --section names: remove it", named[i].Name)
	}
	if f.list {
		if err := onlyWith(c.Command, "list", "section"); err != nil {
			return err
		}
		return tableOf(listSections(sections))(c.stdout)
	}
	if f.traces != nil && !slices.ContainsFunc(sections, func(s reproduce.Listed) bool { return s.Traces }) {
		return usagef("--traces has no effect, because no chosen section replays traces (see --list): remove it")
	}
	traces, err := f.tracePaths()
	if err != nil {
		return err
	}
	if f.out != "" {
		if err := reproduce.Prepare(f.out, reproduce.FileOf(chosen)); err != nil {
			return err
		}
	}
	c.bar.start(int64(len(sections)), "reproduce", "sections")
	report, err := reproduce.Make(c.Context(), chosen, reproduce.Inputs{Traces: traces, Hardware: f.hardware, Sections: f.sections,
		Synthetic: drawSynthetic, Progress: c.bar.add})
	if err != nil {
		return err
	}
	c.bar.close()
	if f.out != "" {
		if err := report.Write(f.out); err != nil {
			return err
		}
		c.wrote(f.out)
	}
	if err := f.render(c, report); err != nil {
		return err
	}
	if past := report.Past(); len(past) > 0 {
		return fmt.Errorf("%d lines miss their gates for no known reason: %s", len(past), strings.Join(past, "; "))
	}
	return nil
}

// sectionsOf returns the names of the sections of papers, with the paper if there are several.
func sectionsOf(args []string) []string {
	chosen, sections, err := reproduce.Choose(chosenPapers(args), nil)
	if err != nil {
		return nil
	}
	return slice.Map(sections, func(s reproduce.Listed) string {
		if len(chosen) == 1 {
			return s.Section
		}
		return s.Paper + "/" + s.Section
	})
}

// listSections returns a table of the sections of papers.
func listSections(sections []reproduce.Listed) *table.Table {
	t := table.New("paper", "section", "traces", "title")
	for _, s := range sections {
		traces := ""
		if s.Traces {
			traces = "yes"
		}
		t.AddTexts([]string{s.Paper, s.Section, traces, s.Title})
	}
	return t
}

// tracePaths are the named traces, or those of a checkout.
func (f *reproduceFlags) tracePaths() ([]string, error) {
	if f.traces != nil {
		return tracesIn(f.traces)
	}
	var paths []string
	for _, folder := range traceFolders {
		found, err := files.Ending(folder, ".parquet")
		if err != nil && !os.IsNotExist(err) {
			return nil, fmt.Errorf("traces: %w", err)
		}
		paths = append(paths, found...)
	}
	return paths, nil
}

func (f *reproduceFlags) render(c *call, r *reproduce.Report) error {
	w := c.stdout
	switch f.format {
	case "markdown":
		return r.RenderMarkdown(w, f.out != "")
	case "csv":
		return r.RenderCSV(w)
	case "json":
		return r.RenderJSON(w)
	case "html":
		var figures []render.PageFigure
		for _, p := range r.Papers {
			for _, s := range p.Sections {
				for _, f := range s.Figures {
					figures = append(figures, render.PageFigure{Title: f.Alt, SVG: f.SVG})
				}
			}
		}
		return c.page("reproduce", r.Headline(), r.Tables(), figures...)
	}
	return r.RenderTable(w)
}

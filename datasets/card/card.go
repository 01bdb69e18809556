// Package card writes the card of a corpus of traces: what they are, how they were made,
// their limits, and what was measured on them, with plots, beside what papers report.
//
// Everything in a card follows from the traces and from the papers' printed figures; no
// sentence about the corpus is fixed. Figures are rounded and dates are left out: equal
// traces give equal bytes, at any number of workers.
package card

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/template"

	"golang.org/x/sync/errgroup"

	"github.com/kvreplay/kvreplay/internal/files"
	"github.com/kvreplay/kvreplay/internal/printable"
)

// Options say how a card is made.
type Options struct {
	Command string // the command that makes the card, as the card shows it
	Plots   string // the plots' folder as the card links to it, relative to the card
	Workers int    // traces measured at once; 0: one
	// Progress is told of each trace that is measured, from any goroutine; may be nil.
	Progress func()
}

// Card is a card in memory.
type Card struct {
	Text  []byte            // Markdown
	Plots map[string][]byte // SVG by file name
}

// PlotNames are all plots that a card may have. One is left out where nothing was measured for it.
var PlotNames = []string{"lru-capacity.svg", "lru-layers.svg", "next-topk.svg", "overlap-layers.svg", "overlap-tasks.svg",
	"reentry-gaps.svg", "selectors.svg", "working-sets.svg"}

// Make measures the traces at paths and writes their card. Errors are of a trace that
// cannot be read, of two traces with one file name, of none, or of ctx.
func Make(ctx context.Context, paths []string, o Options) (*Card, error) {
	if len(paths) == 0 {
		return nil, fmt.Errorf("card: no traces")
	}
	paths = slices.SortedFunc(slices.Values(paths), func(a, b string) int { return strings.Compare(filepath.Base(a), filepath.Base(b)) })
	for i := 1; i < len(paths); i++ {
		if filepath.Base(paths[i]) == filepath.Base(paths[i-1]) {
			return nil, fmt.Errorf("card: %s and %s have one name; the card tells traces apart by it", paths[i-1], paths[i])
		}
	}
	c, err := measure(ctx, paths, o)
	if err != nil {
		return nil, err
	}
	plots, err := c.plots()
	if err != nil {
		return nil, err
	}
	text, err := c.render(o, plots)
	if err != nil {
		return nil, err
	}
	return &Card{Text: text, Plots: plots}, nil
}

// measure reads all traces, then what compares one with another.
func measure(ctx context.Context, paths []string, o Options) (*corpus, error) {
	measured := make([]*source, len(paths))
	g, group := errgroup.WithContext(ctx)
	g.SetLimit(max(1, o.Workers))
	for i, path := range paths {
		g.Go(func() (err error) {
			measured[i], err = readSource(group, path)
			if err == nil && o.Progress != nil {
				o.Progress()
			}
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return nil, fmt.Errorf("card: %w", err)
	}
	c := newCorpus(measured)
	return c, c.compareSelectors(ctx)
}

func (c *corpus) render(o Options, plots map[string][]byte) ([]byte, error) {
	var out bytes.Buffer
	if err := page.Execute(&out, &view{corpus: c, Options: o, plots: plots}); err != nil {
		return nil, fmt.Errorf("card: %w", err)
	}
	lines := strings.Split(printable.Text(out.String()), "\n")
	var text []string
	for _, line := range lines { // what a template leaves out leaves blank lines
		line = strings.TrimRight(line, " ")
		if line != "" || len(text) > 0 && text[len(text)-1] != "" {
			text = append(text, line)
		}
	}
	return []byte(strings.TrimRight(strings.Join(text, "\n"), "\n") + "\n"), nil
}

//go:embed card.md.tmpl
var pageText string

// page is the card's template. Its data is a *view, and line escapes a text of traces.
var page = template.Must(template.New("card").Funcs(template.FuncMap{"line": printable.Markdown}).Parse(pageText))

// PlotsFolder is the name of the folder beside the card that its plots lie in: "card"
// for CARD.md.
func PlotsFolder(path string) string {
	name := filepath.Base(path)
	folder := strings.ToLower(strings.TrimSuffix(name, filepath.Ext(name)))
	if folder == name || folder == "" {
		return name + "-plots"
	}
	return folder
}

// Write writes the plots and then the card, each file whole or not at all, and removes
// plots of an earlier card that this one lacks.
func (c *Card) Write(path string) error {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return fmt.Errorf("write card: %s is a folder, expected a file", path)
	}
	folder := filepath.Join(filepath.Dir(path), PlotsFolder(path))
	if len(c.Plots) > 0 {
		if err := files.MakeFolder(folder); err != nil {
			return fmt.Errorf("write card: %w", err)
		}
	}
	for _, name := range PlotNames {
		file := filepath.Join(folder, name)
		if svg := c.Plots[name]; svg != nil {
			if err := files.Write(file, svg); err != nil {
				return fmt.Errorf("write card: %w", err)
			}
		} else if err := os.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("write card: %w", err)
		}
	}
	if err := files.Write(path, c.Text); err != nil {
		return fmt.Errorf("write card: %w", err)
	}
	return nil
}

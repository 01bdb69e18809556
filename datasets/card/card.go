// Package card writes the card of a corpus of traces. It states the traces, their making and their
// limits. It shows measurements on them, with plots, next to the figures of papers.
//
// Everything in a card follows from the traces and from the papers' printed figures. No sentence
// about the corpus is fixed. Figures are rounded and dates are left out, so equal traces give equal
// bytes at any number of workers.
package card

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/kvreplay/kvreplay/internal/files"
	"github.com/kvreplay/kvreplay/internal/printable"
	"github.com/kvreplay/kvreplay/internal/slice"
)

// Options configure the making of a card.
type Options struct {
	Command string // the command that makes the card, shown in it
	Plots   string // the plots' folder as the card links to it, relative to the card
	Workers int    // traces measured at once, 0 for one
	// Progress is called after each measured trace, from any goroutine. It may be nil.
	Progress func()
}

// Card is a card in memory.
type Card struct {
	Text  []byte            // Markdown
	Plots map[string][]byte // SVG by file name
}

// PlotNames are all plots that a card may have. A plot without measurements is left out.
var PlotNames = []string{"lru-capacity.svg", "lru-layers.svg", "next-topk.svg", "overlap-layers.svg", "overlap-tasks.svg",
	"reentry-gaps.svg", "selectors.svg", "working-sets.svg"}

// Make measures the traces at paths and writes their card. It fails if a trace cannot be read, if
// two traces share a file name, if there is no trace, or if ctx ends.
func Make(ctx context.Context, paths []string, o Options) (*Card, error) {
	if len(paths) == 0 {
		return nil, fmt.Errorf("card: expected at least one trace")
	}
	paths = slices.SortedFunc(slices.Values(paths), func(a, b string) int { return strings.Compare(filepath.Base(a), filepath.Base(b)) })
	for i := 1; i < len(paths); i++ {
		if filepath.Base(paths[i]) == filepath.Base(paths[i-1]) {
			return nil, fmt.Errorf("card: %s and %s have the same file name. Rename one", paths[i-1], paths[i])
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
	return &Card{Text: c.render(o, plots), Plots: plots}, nil
}

// measure reads all traces, then compares them with each other.
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

func (c *corpus) render(o Options, plots map[string][]byte) []byte {
	lines := slice.Map(strings.Split(printable.Text(c.page(o, plots)), "\n"), func(line string) string { return strings.TrimRight(line, " ") })
	lines = slices.CompactFunc(lines, func(a, b string) bool { return a == "" && b == "" }) // omitted parts leave blank lines
	return []byte(strings.Trim(strings.Join(lines, "\n"), "\n") + "\n")
}

// pageText is the card with ${NAME} for each measured part, expanded by page.
//
//go:embed card.md.tmpl
var pageText string

// PlotsFolder returns the name of the folder of a card's plots, next to the card: "card" for
// CARD.md.
func PlotsFolder(path string) string {
	name := filepath.Base(path)
	folder := strings.ToLower(strings.TrimSuffix(name, filepath.Ext(name)))
	if folder == name || folder == "" {
		return name + "-plots"
	}
	return folder
}

// Write writes the plots and then the card. Each file is written whole or not at all. Write removes
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

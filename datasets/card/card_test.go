package card_test

import (
	"bytes"
	"context"
	"encoding/xml"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kvreplay/kvreplay/datasets/card"
	"github.com/kvreplay/kvreplay/internal/fatal"
	"github.com/kvreplay/kvreplay/policies"
	"github.com/kvreplay/kvreplay/policies/all"
	"github.com/kvreplay/kvreplay/replay"
	"github.com/kvreplay/kvreplay/trace"
	"github.com/kvreplay/kvreplay/trace/inspect"
)

var update = flag.Bool("update", false, "rewrite datasets/CARD.md and its plots")

const (
	corpusFolder = "../corpus"
	cardPath     = "../CARD.md"
	largestPlot  = 40 << 10 // bytes
)

// TestCorpus checks that datasets/CARD.md and its plots are the command's output for
// datasets/corpus. -update rewrites them.
func TestCorpus(t *testing.T) {
	if testing.Short() {
		t.Skip("measures the whole corpus")
	}
	if _, err := os.Stat(corpusFolder); errors.Is(err, fs.ErrNotExist) {
		t.Skip("no folder datasets/corpus: the card of the corpus cannot be checked")
	}
	paths := traces(t, corpusFolder)
	made := makeCard(t, paths, card.Options{Command: "kvreplay datasets card datasets/corpus -o datasets/CARD.md", Plots: card.PlotsFolder(cardPath), Workers: 2})
	if *update {
		fatal.If(t, made.Write(cardPath))
	}
	const hint = "; `make build && bin/kvreplay datasets card datasets/corpus -o datasets/CARD.md` from the root writes it anew"
	if text, err := os.ReadFile(cardPath); err != nil || !bytes.Equal(text, made.Text) {
		t.Errorf("datasets/CARD.md is not what the command makes (%v)%s\n%s", err, hint, firstDifference(string(text), string(made.Text)))
	}
	for _, name := range card.PlotNames {
		file := filepath.Join(filepath.Dir(cardPath), card.PlotsFolder(cardPath), name)
		svg, err := os.ReadFile(file)
		if made.Plots[name] == nil {
			if err == nil {
				t.Errorf("%s: the card has no such plot%s", file, hint)
			}
		} else if !bytes.Equal(svg, made.Plots[name]) {
			t.Errorf("%s is not what the command makes (%v)%s", file, err, hint)
		}
	}
	soundPlots(t, made)
}

func traces(t *testing.T, folder string) []string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(folder, "*.parquet"))
	fatal.If(t, err)
	return paths
}

func makeCard(t *testing.T, paths []string, o card.Options) *card.Card {
	t.Helper()
	c, err := card.Make(context.Background(), paths, o)
	fatal.If(t, err)
	return c
}

func firstDifference(a, b string) string {
	x, y := strings.Split(a, "\n"), strings.Split(b, "\n")
	for i := range min(len(x), len(y)) {
		if x[i] != y[i] {
			return fmt.Sprintf("line %d:\n  have %s\n  made %s", i+1, x[i], y[i])
		}
	}
	return fmt.Sprintf("%d lines, made %d", len(x), len(y))
}

// soundPlots checks that plots are small, whole XML and linked from the card.
func soundPlots(t *testing.T, c *card.Card) {
	t.Helper()
	for name, svg := range c.Plots {
		if !slices.Contains(card.PlotNames, name) || len(svg) > largestPlot {
			t.Errorf("plot %s of %d bytes, expected one of %v of at most %d", name, len(svg), card.PlotNames, largestPlot)
		}
		if !bytes.Contains(c.Text, []byte("/"+name+")")) {
			t.Errorf("%s is not in the card", name)
		}
		for dec := xml.NewDecoder(bytes.NewReader(svg)); ; {
			if _, err := dec.Token(); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
		}
	}
	if links := bytes.Count(c.Text, []byte(".svg)")); links != len(c.Plots) {
		t.Errorf("%d links to plots, %d plots", links, len(c.Plots))
	}
}

// TestBundled makes the card of the bundled traces. The figures are those of inspect and replay.
// The bytes do not depend on workers or on the order of the traces.
func TestBundled(t *testing.T) {
	paths := traces(t, "../bundled")
	one := makeCard(t, paths, card.Options{Command: "c", Plots: "card", Workers: 1})
	backwards := slices.Clone(paths)
	slices.Reverse(backwards)
	measured := make(chan bool, len(paths))
	other := makeCard(t, backwards, card.Options{Command: "c", Plots: "card", Workers: 3, Progress: func() { measured <- true }})
	if !bytes.Equal(one.Text, other.Text) || len(measured) != len(paths) {
		t.Errorf("workers or order change the card, or not every trace is told of: %s", firstDifference(string(one.Text), string(other.Text)))
	}
	for name, svg := range one.Plots {
		if !bytes.Equal(svg, other.Plots[name]) {
			t.Errorf("%s depends on workers", name)
		}
	}
	soundPlots(t, one)
	for _, path := range paths {
		row := fmt.Sprintf("| %s | %s | ", stem(path), overlap(t, path))
		if !strings.Contains(string(one.Text), row) {
			t.Errorf("no overlap as inspect has it: %q", row)
		}
		if hits := fmt.Sprintf(" | %s |", lruHits(t, path)); !strings.Contains(string(one.Text), hits) {
			t.Errorf("%s: no hit rate of LRU as replay has it: %q", path, hits)
		}
	}
}

func stem(path string) string { return strings.TrimSuffix(filepath.Base(path), ".parquet") }

func overlap(t *testing.T, path string) string {
	t.Helper()
	r, err := inspect.File(context.Background(), path, inspect.Options{})
	fatal.If(t, err)
	return fmt.Sprintf("%.1f %%", 100**r.Locality.Overlap)
}

// lruHits returns LRU's hit rates at capacities of 1.25 to 4 × K, joined as in the table.
func lruHits(t *testing.T, path string) string {
	t.Helper()
	f, err := trace.Open(path)
	fatal.If(t, err)
	defer f.Close()
	lru, err := all.Table().Parse("lru")
	fatal.If(t, err)
	capacities, err := replay.ParseCapacities([]string{"1.25x", "1.5x", "2x", "3x", "4x"})
	fatal.If(t, err)
	r, err := replay.Run(context.Background(), f, replay.Options{Policies: []policies.Spec{lru}, Capacities: capacities})
	fatal.If(t, err)
	var hits []string
	for _, row := range r.Rows {
		hits = append(hits, fmt.Sprintf("%.1f %%", 100*float64(row.Hits)/float64(row.Demand)))
	}
	return strings.Join(hits, " | ")
}

// TestWrite checks that plots lie next to the card and that those of an earlier card are removed.
func TestWrite(t *testing.T) {
	c := &card.Card{Text: []byte("# x\n"), Plots: map[string][]byte{"lru-layers.svg": []byte("<svg/>")}}
	path := filepath.Join(t.TempDir(), "new", "My Card.md")
	fatal.If(t, c.Write(path))
	c.Plots = map[string][]byte{"selectors.svg": []byte("<svg/>")}
	fatal.If(t, c.Write(path))
	found, err := filepath.Glob(filepath.Join(filepath.Dir(path), "*", "*"))
	if err != nil || len(found) != 1 || !strings.HasSuffix(filepath.ToSlash(found[0]), "/my card/selectors.svg") {
		t.Errorf("%v, %v", found, err)
	}
	if text, err := os.ReadFile(path); err != nil || string(text) != "# x\n" {
		t.Errorf("%q, %v", text, err)
	}
	if err := c.Write(filepath.Dir(path)); err == nil || !strings.Contains(err.Error(), "is a folder") {
		t.Errorf("a folder for a card: %v", err)
	}
	for name, want := range map[string]string{"CARD.md": "card", "a/B.c.md": "b.c", "plain": "plain-plots", "CARD": "card"} {
		if got := card.PlotsFolder(name); got != want {
			t.Errorf("plots of %s in %s, expected %s", name, got, want)
		}
	}
}

// TestRefused: no traces, two of one name, none that can be read, a cancelled context.
func TestRefused(t *testing.T) {
	bundled := traces(t, "../bundled")[0]
	copied := filepath.Join(t.TempDir(), filepath.Base(bundled))
	broken := filepath.Join(t.TempDir(), "broken.parquet")
	for _, path := range []string{copied, broken} {
		fatal.If(t, os.WriteFile(path, []byte("PAR1 no trace PAR1"), 0o644))
	}
	for want, paths := range map[string][]string{"at least one trace": nil, "have the same file name": {bundled, copied}, "broken.parquet": {bundled, broken}, "nowhere": {"nowhere"}} {
		if _, err := card.Make(context.Background(), paths, card.Options{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: error %v, expected %q", paths, err, want)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := card.Make(ctx, []string{bundled}, card.Options{}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kvreplay/kvreplay/datasets/card"
	"github.com/kvreplay/kvreplay/internal/files"
)

func newDatasetsCardCommand() *cobra.Command {
	out, parallel := "", runtime.GOMAXPROCS(0)
	c := &cobra.Command{
		Use:   "card TRACE|FOLDER...",
		Short: "Write the card of a corpus of traces: facts, measurements, plots",
		Long: `Write the card of a corpus: what its traces are and how they were made, licences,
limits, how their demand repeats by task, layer and head, hit rates of LRU, recall of
selectors, and all of it beside what papers report. Of a folder every *.parquet in it is
taken. The plots lie beside the card in a folder of its name: card/ for CARD.md.

Everything follows from the traces; equal traces give equal bytes. The notes part and
task of the metadata group them; datasets/card/README.md says how.`,
		Example: "  kvreplay datasets card datasets/corpus -o datasets/CARD.md\n  kvreplay datasets card a.parquet b.parquet -o mine/CARD.md",
		Args:    atLeast(1, "trace or folder of traces"),
		RunE: func(c *cobra.Command, args []string) error {
			switch {
			case out == "":
				return usagef("output missing: -o CARD.md; the plots go into a folder beside it")
			case parallel < 1:
				return usagef("--parallel %d: expected at least 1", parallel)
			}
			return runDatasetsCard(c, args, out, parallel)
		},
	}
	outVar(c.Flags(), &out, "the card to write (`Markdown`)")
	c.Flags().IntVar(&parallel, "parallel", parallel, "traces measured at once; the card does not depend on it")
	return c
}

func runDatasetsCard(c *cobra.Command, args []string, out string, parallel int) error {
	paths, err := tracesIn(args)
	if err != nil {
		return err
	}
	if err := checkOutput("card", out, paths); err != nil {
		return err
	}
	plots := filepath.Join(filepath.Dir(out), card.PlotsFolder(out))
	if _, err := os.Lstat(plots); err == nil { // whatever it is
		if err := files.MakeFolder(plots); err != nil {
			return fmt.Errorf("card: %w", err)
		}
	}
	bar := newBar(c.ErrOrStderr())
	bar.start(int64(len(paths)), "card", "traces")
	defer bar.close()
	made, err := card.Make(c.Context(), paths, card.Options{
		Command: fmt.Sprintf("kvreplay datasets card %s -o %s", filepath.ToSlash(strings.Join(args, " ")), filepath.ToSlash(out)),
		Plots:   card.PlotsFolder(out), Workers: parallel, Progress: func() { bar.add(1) },
	})
	if err != nil {
		return err
	}
	if err := made.Write(out); err != nil {
		return err
	}
	bar.note("kvreplay: wrote %s and %d plots to %s", out, len(made.Plots), filepath.Join(filepath.Dir(out), card.PlotsFolder(out)))
	return nil
}

// tracesIn are the traces that are named, and those of named folders.
func tracesIn(args []string) ([]string, error) {
	var paths []string
	for _, arg := range args {
		info, err := os.Stat(arg)
		switch {
		case err != nil:
			return nil, fmt.Errorf("traces: %w", err)
		case !info.IsDir():
			paths = append(paths, arg)
			continue
		}
		found, err := parquetIn(arg)
		if err != nil {
			return nil, fmt.Errorf("traces: %w", err)
		}
		if len(found) == 0 {
			return nil, fmt.Errorf("traces: no *.parquet in folder %s: make a corpus with `make corpus`, or import traces into it", arg)
		}
		paths = append(paths, found...)
	}
	return paths, nil
}

// parquetIn are the *.parquet of a folder, by name.
func parquetIn(folder string) (paths []string, err error) {
	entries, err := os.ReadDir(folder)
	for _, e := range entries {
		if !e.IsDir() && filepath.Ext(e.Name()) == ".parquet" {
			paths = append(paths, filepath.Join(folder, e.Name()))
		}
	}
	return paths, err
}

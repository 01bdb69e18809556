package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"github.com/kvreplay/kvreplay/datasets/bundled"
	"github.com/kvreplay/kvreplay/datasets/card"
	"github.com/kvreplay/kvreplay/datasets/catalogue"
	"github.com/kvreplay/kvreplay/internal/files"
	"github.com/kvreplay/kvreplay/internal/slice"
	"github.com/kvreplay/kvreplay/internal/text"
)

// datasetsCommand groups the commands that make and describe workloads and traces.
func datasetsCommand() command {
	return command{
		use:   "datasets",
		short: "List, make and check workloads and traces",
		long:  "List the bundled traces and the workloads that kvreplay can make, describe them, check them and\nmake them. Without a command it lists them.",
		run:   func(c *call) error { return catalogue.Render(c.stdout, catalogue.All(), "table") },
		next:  always("datasets", "list"),
		commands: []command{
			{
				use:   "make",
				short: "Make prompts or a synthetic trace",
				commands: []command{
					longbenchCommand(), longbenchV2Command(), offlineCommand(), rulerCommand(), syntheticCommand(),
				},
			},
			fitCommand(), listCommand(), describeCommand(), datasetsVerifyCommand(), extractCommand(), cardCommand(),
		},
	}
}

func listCommand() command {
	var format string
	return command{
		use:   "list",
		short: "List the catalogue of traces and workloads",
		long: `List the catalogue: bundled traces, workloads, synthetic traces and traces of requests.
The table is a summary. The other formats also have the origin, SHA-256 and the commands that
make an entry again.`,
		example: "  kvreplay datasets list\n  kvreplay datasets list --format csv > catalogue.csv",
		flags: func(fl *flagSet) {
			fl.format(&format, "", catalogue.Formats...)
		},
		run:  func(c *call) error { return catalogue.Render(c.stdout, catalogue.All(), format) },
		next: always("datasets", "describe", embeddedName),
	}
}

func describeCommand() command {
	var format string
	return command{
		use:     "describe NAME...",
		short:   "Describe an entry: licence, origin, SHA-256, commands that make it",
		example: "  kvreplay datasets describe smollm2_niah_1k_sglang\n  kvreplay datasets describe ruler/vt --format json",
		args:    atLeast(1, "name"),
		flags: func(fl *flagSet) {
			fl.format(&format, " (one object per entry)", "text", "json")
		},
		run: func(c *call) error {
			return describeAll(c, format, catalogue.Find, (*catalogue.Entry).Text)
		},
		next: always("datasets", "extract", embeddedName, "-o", "t.parquet"),
	}
}

// describeAll prints the things of the names: as JSON objects, or as texts with a blank line between.
func describeAll[T any](c *call, format string, find func(string) (T, error), textOf func(T) string) error {
	things, err := findAll(c.args, find)
	if err != nil {
		return err
	}
	if format == "text" {
		fmt.Fprint(c.stdout, strings.Join(slice.Map(things, textOf), "\n"))
		return nil
	}
	for _, thing := range things {
		if err := text.WriteJSON(c.stdout, thing); err != nil {
			return err
		}
	}
	return nil
}

// findAll finds the things of the names. An unknown name is an error of the command line.
func findAll[T any](names []string, find func(name string) (T, error)) (all []T, err error) {
	for _, name := range names {
		thing, err := find(name)
		if err != nil {
			return nil, errUsage{err}
		}
		all = append(all, thing)
	}
	return all, nil
}

func datasetsVerifyCommand() command {
	var folder, format string
	return command{
		use:   "verify [NAME...]",
		short: "Check files against the SHA-256 in the catalogue",
		long: `Check files against the catalogue by size, SHA-256 and, for traces, digest.
Without NAME all bundled traces are checked, otherwise the files of the named entries.
A trace with other bytes and the same content was re-encoded. It replays to the same counts, so it
is no error. The exit code is 1 if a file differs or is missing, and a line says what to do.`,
		example: `  kvreplay datasets verify
  kvreplay datasets verify --dir kvreplay
  kvreplay datasets verify --dir kvreplay/datasets/bundled
  kvreplay datasets verify azure-llm-2023 --dir downloads`,
		args: cobra.ArbitraryArgs,
		flags: func(fl *flagSet) {
			fl.StringVar(&folder, "dir", "", "look in this `FOLDER`, or checkout (default: the checkout here, or the current folder)")
			fl.format(&format, " (one object per file)", "text", "json")
		},
		run: func(c *call) error { return verifyDatasets(c, folder, format) },
	}
}

func verifyDatasets(c *call, folder, format string) error {
	entries, err := verifiable(c.args)
	if err != nil {
		return err
	}
	if len(c.args) == 0 && folder != "" {
		if entries, err = entriesIn(folder, entries); err != nil {
			return err
		}
	}
	files, bad := 0, 0
	for _, e := range entries {
		where, err := filesFolder(e, folder)
		if err != nil {
			return err
		}
		checks, err := e.Verify(c.Context(), where)
		if err != nil {
			return err
		}
		for i := range checks {
			files++
			if s := checks[i].State; s != catalogue.Good && s != catalogue.Reencoded {
				bad++
			}
			printCheck(c.stdout, &checks[i], format)
		}
	}
	if bad > 0 {
		return fmt.Errorf("%d of %d files are missing or differ from the catalogue", bad, files)
	}
	return nil
}

// verifiable returns the named entries, or all bundled ones without names.
func verifiable(names []string) ([]*catalogue.Entry, error) {
	if len(names) == 0 {
		var entries []*catalogue.Entry
		for i, e := range catalogue.All() {
			if e.Bundled != "" {
				entries = append(entries, &catalogue.All()[i])
			}
		}
		return entries, nil
	}
	entries, err := findAll(names, catalogue.Find)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if len(e.Files) == 0 {
			return nil, usagef("%s has no SHA-256, because its files depend on options: `kvreplay datasets describe %s` lists them", e.Name, e.Name)
		}
	}
	return entries, nil
}

// entriesIn returns the bundled entries that a folder should have. A checkout should have all,
// another folder those that are bundled together with one of its files.
func entriesIn(folder string, entries []*catalogue.Entry) ([]*catalogue.Entry, error) {
	present := map[string]bool{}
	for _, e := range entries {
		where, err := filesFolder(e, folder)
		if err != nil {
			return nil, err
		}
		for i := range e.Files {
			if _, err := os.Stat(filepath.Join(where, e.Files[i].Name)); err == nil {
				present[e.Bundled] = true
			}
		}
	}
	entries = slices.DeleteFunc(entries, func(e *catalogue.Entry) bool { return !present[e.Bundled] })
	if len(entries) == 0 {
		return nil, fmt.Errorf("verify: folder %s has no bundled trace: name a checkout of kvreplay, or one of its folders, with --dir", folder)
	}
	return entries, nil
}

// filesFolder returns the folder in which the files of an entry should be.
func filesFolder(e *catalogue.Entry, named string) (string, error) {
	folder := named
	switch {
	case named == "" && e.Bundled == "":
		return ".", nil
	case named == "":
		folder = filepath.FromSlash(e.Bundled)
	case e.Bundled != "":
		checkout := filepath.Join(named, filepath.FromSlash(e.Bundled))
		if info, err := os.Stat(checkout); err == nil && info.IsDir() {
			return checkout, nil
		}
	}
	info, err := os.Stat(folder)
	switch {
	case err == nil && info.IsDir():
		return folder, nil
	case err == nil:
		return "", fmt.Errorf("verify: %s is a file, expected a folder", folder)
	case named != "":
		return "", fmt.Errorf("verify: %w", err)
	}
	return "", fmt.Errorf("verify: no folder %s here: run this in a checkout of kvreplay, or name the folder of the bundled traces with --dir", folder)
}

// printCheck prints a check. stdout keeps the first error.
func printCheck(w io.Writer, c *catalogue.Check, format string) {
	if format == "json" {
		_ = json.NewEncoder(w).Encode(c)
		return
	}
	line := fmt.Sprintf("%s: %s: %s", c.Path, c.State, c.Problem)
	if c.State == catalogue.Good {
		line = fmt.Sprintf("%s: good: %s bytes, SHA-256 %s", c.Path, humanize.Comma(c.Bytes), c.SHA256)
		if c.Digest != "" {
			line += ", digest " + c.Digest
		}
	}
	fmt.Fprintln(w, line)
}

// embeddedName is the entry of the trace in the binary.
var embeddedName = strings.TrimSuffix(bundled.EmbeddedFile, ".parquet")

func extractCommand() command {
	var out string
	return command{
		use:   "extract NAME -o TRACE",
		short: "Write the real trace that the program contains",
		long: "Write " + embeddedName + ", the real trace that the program contains, to a file.\n" +
			"It can be replayed without a checkout.",
		example: "  kvreplay datasets extract " + embeddedName + " -o t.parquet\n  kvreplay replay t.parquet",
		args:    exactlyOne("name"),
		flags: func(fl *flagSet) {
			fl.needOut(&out, "TRACE", "write the trace to this `FILE`")
		},
		run: func(c *call) error {
			e, err := catalogue.Find(c.args[0])
			switch {
			case err != nil:
				return errUsage{err}
			case e.Name != embeddedName:
				return usagef("the program does not contain %s, only %s: `kvreplay datasets describe %s` says how it is made",
					e.Name, embeddedName, e.Name)
			}
			if err := files.Write(out, bundled.Embedded); err != nil {
				return fmt.Errorf("extract: %w", err)
			}
			c.wrote(out)
			return nil
		},
		next: withOut("replay"),
	}
}

func cardCommand() command {
	var out string
	return command{
		use:   "card TRACE|FOLDER...",
		short: "Write the card of a corpus: facts, measurements, plots",
		long: `Write the card of a corpus: how its traces were made, licences, limits, the locality of the demand
by task, layer and head, hit rates of LRU and recall of selectors, compared with papers. A FOLDER
stands for its *.parquet. Plots go to a folder named after the card: card/ for CARD.md.
Equal traces give equal bytes. datasets/card/README.md describes how traces are grouped.`,
		example: "  kvreplay datasets card datasets/corpus -o datasets/CARD.md\n  kvreplay datasets card a.parquet b.parquet -o mine/CARD.md",
		args:    atLeast(1, "trace or folder of traces"),
		flags: func(fl *flagSet) {
			fl.needOut(&out, "CARD.md; the plots go into a folder next to it", "write the card to this Markdown `FILE`")
		},
		run: func(c *call) error { return writeCard(c, out) },
	}
}

func writeCard(c *call, out string) error {
	paths, err := tracesIn(c.args)
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
	c.bar.start(int64(len(paths)), "card", "traces")
	corpus, err := card.Make(c.Context(), paths, card.Options{
		Command: fmt.Sprintf("kvreplay datasets card %s -o %s",
			filepath.ToSlash(strings.Join(c.args, " ")), filepath.ToSlash(out)),
		Plots: card.PlotsFolder(out), Workers: runtime.GOMAXPROCS(0), Progress: func() { c.bar.add(1) },
	})
	if err != nil {
		return err
	}
	if err := corpus.Write(out); err != nil {
		return err
	}
	c.wrote(out)
	c.wrote(plots, count(len(corpus.Plots), "plot"))
	return nil
}

// tracesIn returns the named traces and those of the named folders.
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
		found, err := files.Ending(arg, ".parquet")
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

package cli

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/kvreplay/kvreplay/internal/slice"
	"github.com/kvreplay/kvreplay/internal/table"
	"github.com/kvreplay/kvreplay/replay/collective"
	"github.com/kvreplay/kvreplay/replay/hardware"
	"github.com/kvreplay/kvreplay/replay/kernel"
)

// hardwareFlags are the flags that several commands of hardware have.
type hardwareFlags struct {
	dir    string
	format string
}

func hardwareCommand() command {
	var f hardwareFlags
	return command{
		use:   "hardware",
		short: "List machines and models, price transfers, fit links to measurements",
		long: `List and show the data of the time models: GPUs, host links, drives, hosts, model shapes, and
the machines that consist of them. Every number states its unit, its source, and whether it is
measured, from a data sheet, derived, fitted or assumed.
YAML files of --hardware-dir, or of $` + hardware.DirVariable + `, add to the bundled files or
replace them by name. replay/hardware/README.md describes the format.`,
		example: "  kvreplay hardware list\n  kvreplay hardware show h100\n  kvreplay hardware price --hardware h100 --entry-bytes 656 --blocks 2048",
		flags: func(fl *flagSet) {
			f.define(fl.inherited)
		},
		next: always("hardware", "list"),
		commands: []command{
			f.list(), f.show(), f.check(), f.fit(), f.points(), f.price(), f.collective(), f.extents(),
		},
	}
}

func (f *hardwareFlags) define(fl *pflag.FlagSet) {
	fl.StringVar(&f.dir, "hardware-dir", "",
		"read further YAML files from this `FOLDER` (default $"+hardware.DirVariable+")")
}

// folder returns the folder of the user's files, empty for none, and its variable if no flag names it.
func (f *hardwareFlags) folder() (dir, variable string) {
	if dir := os.Getenv(hardware.DirVariable); f.dir == "" && dir != "" {
		return dir, hardware.DirVariable
	}
	return f.dir, ""
}

// load reads the bundled files and those of the user.
func (f *hardwareFlags) load() (*hardware.Library, error) {
	dir, variable := f.folder()
	lib, err := hardware.Load(dir)
	if err != nil && variable != "" {
		return nil, fmt.Errorf("$%s: %w", variable, err)
	}
	return lib, err
}

// machine reads the files, and returns them with a machine by name.
func (f *hardwareFlags) machine(name string) (*hardware.Library, *hardware.Machine, error) {
	lib, err := f.load()
	if err != nil {
		return nil, nil, err
	}
	m, err := lib.Machine(name)
	if err != nil {
		return nil, nil, errUsage{err}
	}
	return lib, m, nil
}

// kinds returns the texts of all kinds, and the kinds that --kind chooses.
func kinds(chosen string) (known []string, kinds []hardware.Kind) {
	for _, k := range hardware.Kinds {
		known = append(known, string(k))
		if chosen == "" || chosen == string(k) {
			kinds = append(kinds, k)
		}
	}
	return known, kinds
}

// tableOf returns a function that writes a table for a terminal.
func tableOf(t *table.Table) func(io.Writer) error {
	return func(w io.Writer) error {
		_, err := io.WriteString(w, t.Text())
		return err
	}
}

// listedItem is an item as `hardware list --format json` prints it.
type listedItem struct {
	Kind    string   `json:"kind"`
	Name    string   `json:"name"`
	Aliases []string `json:"aliases,omitempty"`
	Title   string   `json:"title"`
	File    string   `json:"file"`
	Numbers int      `json:"numbers"`
}

func head(it hardware.Item) listedItem {
	h := hardware.Head(it)
	return listedItem{h.Kind, h.Name, h.Aliases, h.Title, hardware.File(it), len(hardware.Lines(it))}
}

func (f *hardwareFlags) list() command {
	kind := ""
	known, _ := kinds("")
	return command{
		use:     "list",
		short:   "List machines, GPUs, links, drives, hosts and model shapes",
		example: "  kvreplay hardware list\n  kvreplay hardware list --kind gpu --format json",
		flags: func(fl *flagSet) {
			fl.enum(&kind, "kind", "", "list only this `KIND`: machine, gpu, link, drive, host or model (default: all)", known...)
			fl.format(&f.format, "", "table", "json")
		},
		run: func(c *call) error {
			lib, err := f.load()
			if err != nil {
				return err
			}
			var items []listedItem
			_, chosen := kinds(kind)
			for _, k := range chosen {
				items = append(items, slice.Map(lib.Items(k), head)...)
			}
			t := table.New("kind", "name", "what", "file")
			for _, it := range items {
				t.Add(it.Kind, strings.Join(append([]string{it.Name}, it.Aliases...), ", "), it.Title, it.File)
			}
			return c.print(f.format, items, tableOf(t))
		},
		next: always("hardware", "show", "h100"),
	}
}

// shownItem is an item as `hardware show --format json` prints it.
type shownItem struct {
	listedItem
	Note  string            `json:"note,omitempty"`
	Parts map[string]string `json:"parts,omitempty"` // of a machine, by kind
	Lines []hardware.Line   `json:"lines"`
}

func (f *hardwareFlags) show() command {
	kind := ""
	known, _ := kinds("")
	return command{
		use:   "show NAME",
		short: "Show every number of a machine, GPU, link, drive, host or model",
		long: `Show every number of an item, with its status and source. If a machine and a GPU share the name,
the machine and its parts are shown. --kind chooses another item.`,
		example: "  kvreplay hardware show h100\n  kvreplay hardware show deepseek-v3.2 --format json",
		args:    exactlyOne("name"),
		flags: func(fl *flagSet) {
			fl.enum(&kind, "kind", "", "show the item of this `KIND`: machine, gpu, link, drive, host or model (default: the machine)", known...)
			fl.format(&f.format, "", "table", "json")
		},
		run: func(c *call) error {
			lib, err := f.load()
			if err != nil {
				return err
			}
			_, chosen := kinds(kind)
			items, err := shown(lib, c.args[0], chosen)
			if err != nil {
				return err
			}
			var all []shownItem
			for _, it := range items {
				s := shownItem{head(it), hardware.Head(it).Note, nil, hardware.Lines(it)}
				if m, err := lib.Resolve(it); err == nil {
					s.Parts = map[string]string{"gpu": m.GPU.Name, "link": m.Link.Name, "host": m.Host.Name, "drive": m.Drive.Name}
				}
				all = append(all, s)
			}
			return printAll(c, f.format, all, (*shownItem).print)
		},
		next: always("hardware", "price", "--hardware", "h100", "--entry-bytes", "656", "--blocks", "2048"),
	}
}

// shown returns the item of a name. The parts of a machine follow it.
func shown(lib *hardware.Library, name string, kinds []hardware.Kind) ([]hardware.Item, error) {
	found, err := lib.Any(name)
	if err != nil && len(kinds) == 1 {
		_, err = lib.Item(kinds[0], name) // which lists those of the kind
	}
	if err != nil {
		return nil, errUsage{err}
	}
	found = slices.DeleteFunc(found, func(it hardware.Item) bool { return !slices.Contains(kinds, hardware.Kind(hardware.Head(it).Kind)) })
	if len(found) == 0 {
		_, err := lib.Item(kinds[0], name)
		return nil, errUsage{err}
	}
	items := found[:1]
	if m, err := lib.Resolve(found[0]); err == nil {
		items = append(items, m.GPU, m.Link, m.Host, m.Drive)
	}
	return items, nil
}

// printAll prints values as JSON, or as texts with a blank line between. stdout keeps the first error.
func printAll[T any](c *call, format string, all []T, print func(*T, io.Writer)) error {
	return c.print(format, all, func(w io.Writer) error {
		for i := range all {
			if i > 0 {
				fmt.Fprintln(w)
			}
			print(&all[i], w)
		}
		return nil
	})
}

// print writes the numbers, and below them sources and notes by number.
func (s *shownItem) print(w io.Writer) {
	fmt.Fprintf(w, "%s %s: %s (%s)\n", s.Kind, s.Name, s.Title, s.File)
	if s.Note != "" {
		fmt.Fprintln(w, s.Note)
	}
	t := table.New("number", "value", "status", "source", "note").Right(1)
	var sources []string
	for _, l := range s.Lines {
		sources = slice.Add(sources, l.Source)
		t.Add(l.Field, l.Text, l.Status, fmt.Sprintf("[%d]", slices.Index(sources, l.Source)+1), l.Note)
	}
	fmt.Fprint(w, t.Text())
	for i, source := range sources {
		fmt.Fprintf(w, "[%d] %s\n", i+1, source)
	}
}

func (f *hardwareFlags) check() command {
	each, collectives := false, false
	return command{
		use:   "check [FILE...]",
		short: "Check YAML files for --hardware-dir, or the errors of the kernel model",
		long: `Check YAML files as --hardware-dir reads them: known keys, a unit, status and source for every
number, no rate above its link's, and all parts of a machine. All problems of a file are
printed with their lines.
Without files, print the errors of the kernel model on measurements that its fit left out, or with
--collectives those of all-reduces and of published exchanges of experts.`,
		details: `A fit leaves out a device, a model, or a fifth of the widths or shapes of a device. The last two
columns count only errors beyond the resolution of the profiler's clock.
replay/kernel/README.md describes the model, replay/collective/README.md that of communication.`,
		args:    cobra.ArbitraryArgs,
		example: "  kvreplay hardware check mine.yaml\n  kvreplay hardware check --each-operator --format csv\n  kvreplay hardware check --collectives",
		flags: func(fl *flagSet) {
			fl.BoolVar(&each, "each-operator", false, "print also a line for each operator, without files")
			fl.BoolVar(&collectives, "collectives", false, "print the errors of communication between GPUs, without files")
			fl.format(&f.format, "", "table", "json", "csv")
		},
		run: func(c *call) error {
			if each && collectives {
				return usagef("--each-operator is for kernels, --collectives for communication: remove one")
			}
			for _, name := range []string{"each-operator", "collectives", "format"} {
				if c.changed(name) && len(c.args) > 0 {
					return usagef("--%s is for the errors of models: remove it, or the files", name)
				}
			}
			lib, err := f.load()
			switch {
			case err != nil:
				return err
			case len(c.args) > 0:
				return checkFiles(c, lib)
			case collectives:
				all, err := collective.Judge(lib)
				if err != nil {
					return err
				}
				return f.printErrors(c, all, collective.ErrorTable(all), collective.ErrorShares(all))
			}
			points, err := kernel.Bundled(lib)
			if err != nil {
				return err
			}
			all, err := kernel.Judge(c.Context(), points, each)
			if err != nil {
				return err
			}
			return f.printErrors(c, all, kernel.ErrorTable(all), kernel.ErrorShares(all))
		},
		next: func(c *call) []string {
			if len(c.args) == 0 {
				return []string{"hardware", "list"}
			}
			return []string{"hardware", "list", "--hardware-dir", filepath.Dir(c.args[0])}
		},
	}
}

// printErrors prints errors in the format of --format: shares as CSV, percentages as a table.
func (f *hardwareFlags) printErrors(c *call, all any, percentages, shares *table.Table) error {
	if f.format == "csv" {
		return shares.CSV(c.stdout)
	}
	return c.print(f.format, all, tableOf(percentages))
}

func checkFiles(c *call, lib *hardware.Library) error {
	items, err := lib.AddFiles(c.args) // a machine may be made of parts in other files
	if err != nil {
		return err
	}
	for i, path := range c.args {
		h := head(items[i])
		fmt.Fprintf(c.stdout, "%s: %s %s, %d numbers, sound\n", path, h.Kind, h.Name, h.Numbers)
	}
	return nil
}

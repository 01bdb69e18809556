package cli

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/dustin/go-humanize/english"
	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
	"github.com/spf13/cobra"

	"github.com/kvreplay/kvreplay/internal/names"
	"github.com/kvreplay/kvreplay/metrics/render/texttable"
	"github.com/kvreplay/kvreplay/replay/hardware"
)

// hardwareFlags are shared by the commands that look at hardware.
type hardwareFlags struct {
	dir    string
	format string
}

func newHardwareCommand() *cobra.Command {
	f := &hardwareFlags{}
	c := &cobra.Command{
		Use:   "hardware",
		Short: "List and show machines and models, price transfers, fit links to measurements",
		Long: `Look at what the time models know: GPUs, host links, drives, hosts, model shapes, and
the machines that are put together from them. Every number states its unit, whether it
is measured, from a data sheet, derived, fitted or assumed, and its source.

YAML files of --hardware-dir, or of the folder that $` + hardware.DirVariable + ` names, add
to the bundled ones or replace them by name. replay/hardware/README.md has the format.`,
		Example: "  kvreplay hardware list\n  kvreplay hardware show h100\n  kvreplay hardware price --hardware h100 --entry-bytes 656 --blocks 2048",
		Args:    unknownCommand,
		RunE:    func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.PersistentFlags().StringVar(&f.dir, "hardware-dir", "", "`folder` of YAML files that add to the bundled ones or replace them (default $"+hardware.DirVariable+")")
	c.AddCommand(newHardwareListCommand(f), newHardwareShowCommand(f), newHardwareCheckCommand(f),
		newHardwareFitCommand(f), newHardwarePointsCommand(f), newHardwarePriceCommand(f), newHardwareExtentsCommand(f))
	return c
}

// load reads the bundled files and the user's.
func (f *hardwareFlags) load() (*hardware.Library, error) {
	if dir := os.Getenv(hardware.DirVariable); f.dir == "" && dir != "" {
		lib, err := hardware.Load(dir)
		if err != nil {
			return nil, fmt.Errorf("$%s: %w", hardware.DirVariable, err)
		}
		return lib, nil
	}
	return hardware.Load(f.dir)
}

// formats adds --format; the first is the default.
func (f *hardwareFlags) formats(c *cobra.Command, known ...string) {
	quoted := append([]string{"`" + known[0] + "`"}, known[1:]...)
	c.Flags().StringVar(&f.format, "format", known[0], english.WordSeries(quoted, "or"))
	c.PreRunE = func(*cobra.Command, []string) error {
		if !slices.Contains(known, f.format) {
			return usagef("--format %q, expected %s%s", f.format, strings.Join(known, " or "), names.Nearest(f.format, known))
		}
		return nil
	}
}

// kindFlag reads --kind.
func kindFlag(kind string) ([]hardware.Kind, error) {
	if kind == "" {
		return hardware.Kinds, nil
	}
	var known []string
	for _, k := range hardware.Kinds {
		if string(k) == kind {
			return []hardware.Kind{k}, nil
		}
		known = append(known, string(k))
	}
	return nil, usagef("--kind %q, expected one of %s%s", kind, strings.Join(known, ", "), names.Nearest(kind, known))
}

// printTable writes a table without blanks at line ends.
func printTable(w io.Writer, t table.Writer) error {
	for line := range strings.Lines(t.Render() + "\n") {
		if _, err := fmt.Fprintln(w, strings.TrimRight(line, " \n")); err != nil {
			return err
		}
	}
	return nil
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

func newHardwareListCommand(f *hardwareFlags) *cobra.Command {
	kind := ""
	c := &cobra.Command{
		Use:     "list",
		Short:   "List machines, GPUs, links, drives, hosts and model shapes",
		Example: "  kvreplay hardware list\n  kvreplay hardware list --kind gpu --format json",
		Args:    noArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			kinds, err := kindFlag(kind)
			if err != nil {
				return err
			}
			lib, err := f.load()
			if err != nil {
				return err
			}
			return f.list(c.OutOrStdout(), lib, kinds)
		},
	}
	c.Flags().StringVar(&kind, "kind", "", "only one `kind`: machine, gpu, link, drive, host or model (default: all)")
	f.formats(c, "table", "json")
	return c
}

func (f *hardwareFlags) list(w io.Writer, lib *hardware.Library, kinds []hardware.Kind) error {
	var items []listedItem
	for _, k := range kinds {
		for _, it := range lib.Items(k) {
			h := hardware.Head(it)
			items = append(items, listedItem{h.Kind, h.Name, h.Aliases, h.Title, hardware.File(it), len(hardware.Lines(it))})
		}
	}
	if f.format == "json" {
		return writeJSON(w, items)
	}
	t := texttable.New(table.Row{"kind", "name", "what", "file"})
	for _, it := range items {
		t.AppendRow(table.Row{it.Kind, strings.Join(append([]string{it.Name}, it.Aliases...), ", "), it.Title, it.File})
	}
	return printTable(w, t)
}

// shownItem is an item as `hardware show --format json` prints it.
type shownItem struct {
	listedItem
	Note  string            `json:"note,omitempty"`
	Parts map[string]string `json:"parts,omitempty"` // of a machine, by kind
	Lines []hardware.Line   `json:"lines"`
}

func newHardwareShowCommand(f *hardwareFlags) *cobra.Command {
	kind := ""
	c := &cobra.Command{
		Use:   "show NAME",
		Short: "Show every number of a machine and its parts, a GPU, link, drive, host or model",
		Long: `Show every number of what NAME names, with its status and source. A name that a
machine and a GPU share shows the machine with its parts; --kind chooses.`,
		Example: "  kvreplay hardware show h100\n  kvreplay hardware show deepseek-v3.2 --format json",
		Args:    exactlyOne("name"),
		RunE: func(c *cobra.Command, args []string) error {
			kinds, err := kindFlag(kind)
			if err != nil {
				return err
			}
			lib, err := f.load()
			if err != nil {
				return err
			}
			items, err := shown(lib, args[0], kinds)
			if err != nil {
				return err
			}
			return f.show(c.OutOrStdout(), lib, items)
		},
	}
	c.Flags().StringVar(&kind, "kind", "", "only this `kind`: machine, gpu, link, drive, host or model (default: the machine where several have the name)")
	f.formats(c, "table", "json")
	return c
}

// shown is the item of a name, and the parts of a machine behind it.
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

func (f *hardwareFlags) show(w io.Writer, lib *hardware.Library, items []hardware.Item) error {
	var all []shownItem
	for _, it := range items {
		h := hardware.Head(it)
		s := shownItem{listedItem{h.Kind, h.Name, h.Aliases, h.Title, hardware.File(it), 0}, h.Note, nil, hardware.Lines(it)}
		s.Numbers = len(s.Lines)
		if m, err := lib.Resolve(it); err == nil {
			s.Parts = map[string]string{"gpu": m.GPU.Name, "link": m.Link.Name, "host": m.Host.Name, "drive": m.Drive.Name}
		}
		all = append(all, s)
	}
	if f.format == "json" {
		return writeJSON(w, all)
	}
	for i := range all {
		if i > 0 {
			fmt.Fprintln(w)
		}
		if err := all[i].print(w); err != nil {
			return err
		}
	}
	return nil
}

// print writes the numbers, and below them sources and notes by number.
func (s *shownItem) print(w io.Writer) error {
	fmt.Fprintf(w, "%s %s: %s (%s)\n", s.Kind, s.Name, s.Title, s.File)
	if s.Note != "" {
		fmt.Fprintln(w, s.Note)
	}
	t := texttable.New(table.Row{"number", "value", "status", "source", "note"}, 2)
	t.SetColumnConfigs([]table.ColumnConfig{{Number: 2, Align: text.AlignRight, AlignHeader: text.AlignRight}, {Number: 5, WidthMax: 60, WidthMaxEnforcer: text.WrapSoft}})
	var sources []string
	for _, l := range s.Lines {
		if !slices.Contains(sources, l.Source) {
			sources = append(sources, l.Source)
		}
		t.AppendRow(table.Row{l.Field, l.Text, string(l.Status), fmt.Sprintf("[%d]", slices.Index(sources, l.Source)+1), l.Note})
	}
	if err := printTable(w, t); err != nil {
		return err
	}
	for i, source := range sources {
		if _, err := fmt.Fprintf(w, "[%d] %s\n", i+1, source); err != nil {
			return err
		}
	}
	return nil
}

func newHardwareCheckCommand(f *hardwareFlags) *cobra.Command {
	c := &cobra.Command{
		Use:   "check FILE...",
		Short: "Check YAML files: keys, units, statuses, sources, and what a machine is made of",
		Long: `Check files as they would be read from --hardware-dir: every key known, every number
with unit, status and source, no rate above its link's, every part of a machine there.
All that is wrong with a file is said at once, with its lines.`,
		Example: "  kvreplay hardware check mine.yaml",
		Args:    atLeast(1, "file"),
		RunE: func(c *cobra.Command, args []string) error {
			lib, err := f.load()
			if err != nil {
				return err
			}
			items, err := lib.AddFiles(args) // a machine may be made of parts in other files
			if err != nil {
				return err
			}
			for i, path := range args {
				it := items[i]
				fmt.Fprintf(c.OutOrStdout(), "%s: %s %s, %d numbers, sound\n", path, hardware.Head(it).Kind, hardware.Head(it).Name, len(hardware.Lines(it)))
			}
			return nil
		},
	}
	return c
}

package cli

import (
	"fmt"
	"io"
	"math"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
	"github.com/spf13/cobra"

	"github.com/kvreplay/kvreplay/datasets/synthetic"
	"github.com/kvreplay/kvreplay/datasets/synthetic/twin"
	"github.com/kvreplay/kvreplay/internal/files"
	"github.com/kvreplay/kvreplay/trace"
)

// fitFlags are the flags of `datasets fit` as typed.
type fitFlags struct {
	out      string
	check    bool
	seed     uint64
	parallel int
}

func newDatasetsFitCommand() *cobra.Command {
	var f fitFlags
	c := &cobra.Command{
		Use:   "fit TRACE",
		Short: "Estimate the dials of a trace, and check a synthetic twin",
		Long: `Estimate the dials that describe a trace, layer by layer, or head by head where heads
select, and print them; -o keeps them as a file for ` + "`kvreplay datasets make synthetic --dials`" + `.

--check makes a synthetic twin, of eight times the requests, replays both traces and
prints the misses of LRU, lookahead and the optimum, the twin's for as much demand,
with the twin's error. A warning says where it exceeds 12 %.`,
		Example: "  kvreplay datasets fit t.parquet -o dials.yaml --check\n  kvreplay datasets make synthetic --dials dials.yaml --requests 100 -o scaled.parquet",
		Args:    exactlyOne("trace"),
		RunE:    func(c *cobra.Command, args []string) error { return runFit(c, args[0], &f) },
	}
	fl := c.Flags()
	outVar(fl, &f.out, "the dial file to write (YAML)")
	fl.BoolVar(&f.check, "check", false, "make the twin and compare misses")
	fl.Uint64Var(&f.seed, "seed", 1, "seed of the twin, kept in the dial file")
	fl.IntVar(&f.parallel, "parallel", runtime.GOMAXPROCS(0), "layers or heads fitted at once; the dials do not depend on it")
	return c
}

func runFit(c *cobra.Command, path string, f *fitFlags) error {
	if f.parallel < 1 {
		return usagef("--parallel %d: expected at least 1", f.parallel)
	}
	if err := checkOutput("fit", f.out, []string{path}); err != nil {
		return err
	}
	original, err := trace.Open(path)
	if err != nil {
		return err
	}
	defer original.Close()
	d, err := synthetic.Fit(c.Context(), original, synthetic.FitOptions{Workers: f.parallel})
	if err != nil {
		return err
	}
	d.Seed = f.seed
	if f.out != "" {
		text, err := d.Encode()
		if err != nil {
			return fmt.Errorf("write %s: %w", f.out, err)
		}
		if err := files.Write(f.out, text); err != nil {
			return fmt.Errorf("write dials: %w", err)
		}
	}
	if err := printDials(c.OutOrStdout(), d); err != nil || !f.check {
		return err
	}
	rows, err := twin.Check(c.Context(), original, d, f.parallel)
	if err != nil {
		return err
	}
	if worst, ok := twin.Worst(rows); ok && math.Abs(worst.Error()) > twin.Most {
		fmt.Fprintf(c.ErrOrStderr(), "warning: the twin's misses are off by up to %s (%s at %s), more than %.0f %%: do not let it stand in for the trace there\n",
			errorText(worst), worst.Policy, worst.Capacity, 100*twin.Most)
	}
	return printTwin(c.OutOrStdout(), rows)
}

func fitTable(header ...any) table.Writer {
	t := table.NewWriter()
	style := table.StyleLight
	style.Format.Header = text.FormatDefault
	style.Options.DrawBorder, style.Options.SeparateColumns = false, false
	t.SetStyle(style)
	t.AppendHeader(header)
	return t
}

// printDials prints the mean of each dial and its range over the layers.
func printDials(w io.Writer, d *synthetic.Dials) error {
	t := fitTable("dial", "mean", "least", "most", "")
	number := func(v float64) string { return strconv.FormatFloat(v, 'g', 4, 64) }
	for i := range synthetic.LocalityDials {
		dial := &synthetic.LocalityDials[i]
		mean := *dial.At(&d.Locality)
		least, most := mean, mean
		if values := d.ByLayer[dial.Name]; len(values) > 0 {
			least, most = slices.Min(values), slices.Max(values)
		}
		t.AppendRow(table.Row{dial.Name, number(mean), number(least), number(most), dial.Usage})
	}
	return printLines(w, fmt.Sprintf("%s\n%d layers, K = %d, M = %d, context %d, %d steps after %d windows; over the layers:\n%s",
		d.About, d.Layers, d.TopK, d.Candidates, d.Context, d.Steps, d.Windows, t.Render()))
}

// errorText is the twin's error; +∞ where only the twin misses.
func errorText(r twin.Row) string {
	if math.IsInf(r.Error(), 1) {
		return "+∞"
	}
	return fmt.Sprintf("%+.1f %%", 100*r.Error())
}

// printTwin prints the misses on both traces.
func printTwin(w io.Writer, rows []twin.Row) error {
	t := fitTable("policy", "capacity", "misses", "twin", "error")
	for _, r := range rows {
		t.AppendRow(table.Row{r.Policy, r.Capacity, r.Original, r.Twin, errorText(r)})
	}
	return printLines(w, "\nMisses of the trace and of its synthetic twin\n"+t.Render())
}

// printLines prints text without blanks at the ends of its lines.
func printLines(w io.Writer, s string) error {
	lines := strings.Split(s, "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " ")
	}
	_, err := fmt.Fprintln(w, strings.Join(lines, "\n"))
	return err
}

package cli

import (
	"fmt"
	"io"
	"math"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/dustin/go-humanize"
	"github.com/spf13/pflag"

	"github.com/kvreplay/kvreplay/datasets/synthetic"
	"github.com/kvreplay/kvreplay/datasets/synthetic/twin"
	"github.com/kvreplay/kvreplay/internal/files"
	"github.com/kvreplay/kvreplay/internal/table"
	"github.com/kvreplay/kvreplay/trace"
)

// syntheticFlags are the flags of `make synthetic` as typed. Those for the dials of locality
// are read where they are used.
type syntheticFlags struct {
	out, preset, dials string
	given              synthetic.Dials // fields of flags for the extent
}

func syntheticCommand() command {
	var f syntheticFlags
	g, d := &f.given, synthetic.Default() // which --help shows
	return command{
		use:   "synthetic -o TRACE",
		short: "Make a synthetic Top-K trace with the locality of your choice",
		long: `Make a synthetic Top-K trace. Its dials come from --preset, then from --dials, then from flags,
and the last value counts. A flag sets its dial for all layers.
The same dials and seed give the same bytes. datasets/synthetic/README.md describes the limits
of synthetic traces.`,
		example: `  kvreplay datasets make synthetic --preset deepseek-v3.2-32k -o x.parquet
  kvreplay datasets make synthetic --preset deepseek-v3.2-128k --layers 4 -o small.parquet
  kvreplay datasets fit real.parquet -o dials.yaml
  kvreplay datasets make synthetic --dials dials.yaml --requests 100 -o scaled.parquet`,
		flags: func(fl *flagSet) {
			fl.needOut(&f.out, "TRACE", "write the trace to this `FILE`")
			fl.StringVar(&f.preset, "preset", "", "begin with this `PRESET`: "+strings.Join(synthetic.Presets(), ", "))
			fl.StringVar(&f.dials, "dials", "", "read dials from this `FILE` (YAML or JSON), as kvreplay datasets fit writes it")
			fl.IntVar(&g.Requests, "requests", d.Requests, "number of requests")
			fl.IntVar(&g.Layers, "layers", d.Layers, "number of layers, the first of a preset")
			fl.IntVar(&g.Heads, "heads", 0, "number of heads with their own lists (default 0, one list per layer)")
			g.Context = d.Context
			tokensVar(fl, &g.Context, "context", "number of prompt tokens, as in 32K")
			fl.IntVar(&g.Steps, "steps", d.Steps, "number of decode steps")
			fl.IntVar(&g.Windows, "windows", d.Windows, "number of prompt windows before the decode steps")
			fl.IntVar(&g.TopK, "topk", d.TopK, "`K`, the list entries that a step reads")
			fl.Float64(flagOf(&synthetic.LocalityDials[0]), *synthetic.LocalityDials[0].At(&d.Locality), synthetic.LocalityDials[0].Usage)
			fl.Uint64Var(&g.Seed, "seed", d.Seed, "seed of all random numbers")
			fl.more()
			fl.IntVar(&g.Candidates, "candidates", 0, "`M`, the length of a list (default: 1.25 × K)")
			fl.IntVar(&g.Sink, "sink", 0, "pin the first `N` tokens, with --local (default 0)")
			fl.IntVar(&g.Local, "local", 0, "pin the last `N` tokens, with the one being decoded (default 0, pins are not recorded)")
			fl.StringVar(&g.Order, "order", d.Order, "order of a list: rank, or index with M = K")
			fl.Float64Var(&g.Scores, "scores", 0, "exponent of scores as a power of the rank (default 0, no scores)")
			sizeVar(fl, &g.EntryBytes, "entry-bytes", 0, mostBytes, "size of an entry that the trace states (default: none)")
			for i := range synthetic.LocalityDials[1:] {
				dial := &synthetic.LocalityDials[1+i]
				fl.Float64(flagOf(dial), *dial.At(&d.Locality), dial.Usage)
			}
		},
		run:  f.run,
		next: withOut("replay"),
	}
}

func flagOf(d *synthetic.Dial) string { return strings.ReplaceAll(d.Name, "_", "-") }

// mostOverlapError is the error of the overlap above which a warning is printed.
const mostOverlapError = 0.02

// run writes the trace. stdout stays empty, the summary goes to stderr.
func (f *syntheticFlags) run(c *call) error {
	if err := checkOutput("make synthetic", f.out, []string{f.dials}); err != nil {
		return err
	}
	d, err := f.options(c)
	if err != nil {
		return err
	}
	streams := synthetic.NewSource(d).Streams()
	c.bar.start(int64(streams), "draw", "streams")
	if err := synthetic.Write(c.Context(), f.out, d, synthetic.Options{Workers: runtime.GOMAXPROCS(0), Progress: c.bar.add}); err != nil {
		return err
	}
	c.bar.close()
	rows := int64(streams) * int64(d.Windows+d.Steps)
	layers := ""
	if c.changed("layers") {
		if layers = "; layer 0"; d.Layers > 1 { // the count, not the numbers
			layers = fmt.Sprintf("; layers 0 to %d", d.Layers-1)
		}
	}
	c.wrote(f.out, fmt.Sprintf("%s, %s, %s indices%s", count(streams, "stream"), count(rows, "row"), humanize.Comma(rows*int64(d.Candidates)), layers))
	if overlap, asked := d.Reached(); math.Abs(overlap-asked) > mostOverlapError {
		fmt.Fprintf(c.stderr, "warning: the overlap is %.3f instead of %.3f, because the dials contradict each other: "+
			"lower --burst, lengthen --context, or move the overlap away from 0\n", overlap, asked)
	}
	return nil
}

// options returns the dials: those of the preset, then of the file, then of flags.
func (f *syntheticFlags) options(c *call) (*synthetic.Dials, error) {
	d := synthetic.Default()
	layers := 0 // of the preset
	if f.preset != "" {
		preset, err := synthetic.Preset(f.preset)
		if err != nil {
			return nil, errUsage{err}
		}
		d, layers = *preset, preset.Layers
	}
	if f.dials != "" {
		if err := d.Read(c.Context(), f.dials); err != nil {
			return nil, err
		}
	}
	if err := f.override(c.Flags(), &d); err != nil {
		return nil, err
	}
	if layers > 0 && d.Layers > layers {
		return nil, usagef("layers %d: preset %s has only %d", d.Layers, f.preset, layers)
	}
	if err := d.Validate(); err != nil {
		return nil, errUsage{err}
	}
	return &d, nil
}

// override sets the dials that flags give.
func (f *syntheticFlags) override(fl *pflag.FlagSet, d *synthetic.Dials) error {
	g := &f.given
	if fl.Changed("topk") {
		d.Candidates = g.TopK + g.TopK/4
	}
	for _, o := range []struct {
		name string
		set  func()
	}{
		{"seed", func() { d.Seed = g.Seed }}, {"requests", func() { d.Requests = g.Requests }},
		{"layers", func() { d.SetLayers(g.Layers) }}, {"heads", func() { d.SetHeads(g.Heads) }},
		{"context", func() { d.Context = g.Context }}, {"steps", func() { d.Steps = g.Steps }},
		{"windows", func() { d.Windows = g.Windows }}, {"topk", func() { d.TopK = g.TopK }},
		{"sink", func() { d.Sink = g.Sink }}, {"local", func() { d.Local = g.Local }},
		{"order", func() { d.Order = g.Order }}, {"scores", func() { d.Scores = g.Scores }},
		{"entry-bytes", func() { d.EntryBytes = g.EntryBytes }},
	} {
		if fl.Changed(o.name) {
			o.set()
		}
	}
	switch {
	case fl.Changed("candidates"):
		d.Candidates = g.Candidates
	case fl.Changed("order") && d.Order == trace.OrderIndex:
		d.Candidates = d.TopK
	}
	for i := range synthetic.LocalityDials {
		dial := &synthetic.LocalityDials[i]
		name := flagOf(dial)
		if !fl.Changed(name) {
			continue
		}
		v, err := fl.GetFloat64(name)
		if err != nil {
			return errUsage{err}
		}
		if err := d.Set(dial.Name, v); err != nil {
			return errUsage{err}
		}
	}
	return nil
}

type fitFlags struct {
	out   string
	check bool
	seed  uint64
}

func fitCommand() command {
	var f fitFlags
	return command{
		use:   "fit TRACE",
		short: "Estimate the dials of a trace for make synthetic",
		long: `Estimate the dials that describe each layer of a trace, or each head if heads have their own lists.
-o keeps them in a file for kvreplay datasets make synthetic --dials.
--check makes a synthetic twin with eight times the requests, replays both and prints the misses of
LRU, lookahead and the optimum. A warning follows if an error exceeds 12 %.`,
		example: "  kvreplay datasets fit t.parquet -o dials.yaml --check\n  kvreplay datasets make synthetic --dials dials.yaml --requests 100 -o scaled.parquet",
		args:    exactlyOne("trace"),
		flags: func(fl *flagSet) {
			fl.out(&f.out, "write the dials to this `FILE` (YAML)")
			fl.BoolVar(&f.check, "check", false, "make a synthetic twin and compare the misses")
			fl.Uint64Var(&f.seed, "seed", 1, "seed of the twin, which the dial file keeps")
		},
		run:  f.run,
		next: withOut("datasets", "make", "synthetic", "-o", "synthetic.parquet", "--dials"),
	}
}

func (f *fitFlags) run(c *call) error {
	path := c.args[0]
	if err := checkOutput("fit", f.out, []string{path}); err != nil {
		return err
	}
	original, err := trace.Open(path)
	if err != nil {
		return err
	}
	defer original.Close()
	d, err := synthetic.Fit(c.Context(), original, synthetic.FitOptions{Workers: runtime.GOMAXPROCS(0)})
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
		c.wrote(f.out)
	}
	if err := printDials(c.stdout, d); err != nil || !f.check {
		return err
	}
	rows, err := twin.Check(c.Context(), original, d, runtime.GOMAXPROCS(0))
	if err != nil {
		return err
	}
	if worst, ok := twin.Worst(rows); ok && math.Abs(worst.Error()) > twin.Most {
		fmt.Fprintf(c.stderr, "warning: the twin's misses are off by up to %s (%s at %s), more than %.0f %%: do not use the twin for the trace there\n",
			errorText(worst), worst.Policy, worst.Capacity, 100*twin.Most)
	}
	t := table.New("policy", "capacity", "misses", "twin", "error").Right(2, 3)
	for _, r := range rows {
		t.Add(r.Policy, r.Capacity, r.Original, r.Twin, errorText(r))
	}
	_, err = io.WriteString(c.stdout, "\nMisses of the trace and of its synthetic twin\n"+t.Text())
	return err
}

// printDials prints the mean of each dial and its range over the layers.
func printDials(w io.Writer, d *synthetic.Dials) error {
	t := table.New("dial", "mean", "least", "most", "")
	number := func(v float64) string { return strconv.FormatFloat(v, 'g', 4, 64) }
	for i := range synthetic.LocalityDials {
		dial := &synthetic.LocalityDials[i]
		mean := *dial.At(&d.Locality)
		least, most := mean, mean
		if values := d.ByLayer[dial.Name]; len(values) > 0 {
			least, most = slices.Min(values), slices.Max(values)
		}
		t.Add(dial.Name, number(mean), number(least), number(most), dial.Usage)
	}
	_, err := fmt.Fprintf(w, "%s\n%d layers, K = %d, M = %d, context %d, %d steps after %d windows; over the layers:\n%s",
		d.About, d.Layers, d.TopK, d.Candidates, d.Context, d.Steps, d.Windows, t.Text())
	return err
}

// errorText returns the twin's error. It is +∞ if only the twin misses.
func errorText(r twin.Row) string {
	if math.IsInf(r.Error(), 1) {
		return "+∞"
	}
	return fmt.Sprintf("%+.1f %%", 100*r.Error())
}

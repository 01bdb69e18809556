package cli

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"strings"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/kvreplay/kvreplay/datasets/synthetic"
	"github.com/kvreplay/kvreplay/trace"
)

// syntheticFlags are the flags of `make synthetic` as typed.
type syntheticFlags struct {
	out, preset, dials string
	parallel           int
	given              synthetic.Dials    // fields of flags for the extent
	locality           map[string]*string // flag to the text of a dial
}

func newDatasetsMakeSyntheticCommand() *cobra.Command {
	f := syntheticFlags{locality: map[string]*string{}}
	c := &cobra.Command{
		Use:   "synthetic -o TRACE",
		Short: "Make a synthetic Top-K trace with dialled locality",
		Long: `Make a synthetic Top-K trace. Dials come from --preset, then --dials, then flags,
the later ones winning; what none of them says is the default below, 0 where there is
none. A flag sets its dial for all layers.

Presets: ` + strings.Join(synthetic.Presets(), ", ") + `

The same dials and seed give the same bytes, at any --parallel. Synthetic traces stand
in for scale; datasets/synthetic/README.md says what they capture and what not.`,
		Example: `  kvreplay datasets make synthetic --preset deepseek-v3.2-32k -o x.parquet
  kvreplay datasets make synthetic --preset deepseek-v3.2-128k --layers 4 --steps 64 --requests 2 --seed 7 -o small.parquet
  kvreplay datasets fit real.parquet -o dials.yaml
  kvreplay datasets make synthetic --dials dials.yaml --requests 100 -o scaled.parquet`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usagef("unexpected argument %q; the trace is named by -o", args[0])
			}
			return nil
		},
		RunE: func(c *cobra.Command, _ []string) error { return runMakeSynthetic(c, &f) },
	}
	f.define(c.Flags())
	return c
}

func (f *syntheticFlags) define(fl *pflag.FlagSet) {
	outVar(fl, &f.out, "the trace to write; appears only when all went well")
	fl.StringVar(&f.preset, "preset", "", "begin with a preset: "+strings.Join(synthetic.Presets(), ", "))
	fl.StringVar(&f.dials, "dials", "", "YAML or JSON `file` of dials, as fit writes it")
	fl.IntVar(&f.parallel, "parallel", runtime.GOMAXPROCS(0), "streams drawn at once; the bytes do not depend on it")
	g, d := &f.given, synthetic.Default() // which --help shows
	fl.Uint64Var(&g.Seed, "seed", d.Seed, "the only source of chance")
	fl.IntVar(&g.Requests, "requests", d.Requests, "number of requests")
	fl.IntVar(&g.Layers, "layers", d.Layers, "number of layers: the first so many of a preset")
	fl.IntVar(&g.Heads, "heads", 0, "KV heads with a selection of their own; 0: a layer shares one")
	fl.IntVar(&g.Context, "context", d.Context, "tokens of a prompt")
	fl.IntVar(&g.Steps, "steps", d.Steps, "decode steps")
	fl.IntVar(&g.Windows, "windows", d.Windows, "prompt windows before the decode steps")
	fl.IntVar(&g.Sink, "sink", 0, "first tokens that are pinned, which no list names; needs --local")
	fl.IntVar(&g.Local, "local", 0, "last tokens that are pinned, the one being generated included; 0: nothing is said of pins")
	fl.IntVar(&g.TopK, "topk", d.TopK, "K, the demand")
	fl.IntVar(&g.Candidates, "candidates", 0, "M, the length of a list (default: 1.25 × K)")
	fl.StringVar(&g.Order, "order", d.Order, "rank, or index for lists without ranks, M = K")
	fl.Float64Var(&g.Scores, "scores", 0, "exponent of scores as a power law of the rank; 0: none")
	bytesVar(fl, &g.EntryBytes, "entry-bytes", 0, "bytes of a token's entry in a stream")
	fl.Float64Var(&g.LayerSpread, "layer-spread", 0, "standard deviation of log churn, 1 − overlap, between layers")
	fl.Float64Var(&g.HeadSpread, "head-spread", 0, "standard deviation of log churn between the heads of a layer")
	for i := range synthetic.LocalityDials {
		dial := &synthetic.LocalityDials[i]
		fl.Float64(flagOf(dial), *dial.At(&d.Locality), dial.Usage)
	}
}

// flagOf is the flag of a dial.
func flagOf(d *synthetic.Dial) string { return strings.ReplaceAll(d.Name, "_", "-") }

// settle works out the dials: preset, then file, then flags.
func (f *syntheticFlags) settle(ctx context.Context, fl *pflag.FlagSet) (*synthetic.Dials, error) {
	d := synthetic.Default()
	layers := 0 // of the preset
	if f.preset != "" {
		preset, err := synthetic.Preset(f.preset)
		if err != nil {
			return nil, usagef("%w", err)
		}
		d, layers = *preset, preset.Layers
	}
	if f.dials != "" {
		read, err := unlessStopped(ctx, func() (*synthetic.Dials, error) {
			own := d
			return &own, own.Read(f.dials)
		})
		if err != nil {
			return nil, err
		}
		d = *read
	}
	if err := f.override(fl, &d); err != nil {
		return nil, err
	}
	if layers > 0 && d.Layers > layers {
		return nil, usagef("layers %d, but preset %s has %d: ask for as many at most", d.Layers, f.preset, layers)
	}
	if err := d.Validate(); err != nil {
		return nil, usagef("%w", err)
	}
	return &d, nil
}

// override sets what flags give.
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
		{"layer-spread", func() { d.LayerSpread = g.LayerSpread }}, {"head-spread", func() { d.HeadSpread = g.HeadSpread }},
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
			return usagef("%w", err)
		}
		if err := d.Set(dial.Name, v); err != nil {
			return usagef("%w", err)
		}
	}
	return nil
}

// mostOverlapError is the error of the overlap beyond which the user is told.
const mostOverlapError = 0.02

// runMakeSynthetic writes the trace; stdout stays empty, the summary goes to stderr.
func runMakeSynthetic(c *cobra.Command, f *syntheticFlags) error {
	switch {
	case f.out == "":
		return usagef("output missing: name it by -o TRACE")
	case f.parallel < 1:
		return usagef("--parallel %d: expected at least 1", f.parallel)
	}
	if err := checkOutput("make synthetic", f.out, []string{f.dials}); err != nil {
		return err
	}
	d, err := f.settle(c.Context(), c.Flags())
	if err != nil {
		return err
	}
	bar := newBar(c.ErrOrStderr())
	defer bar.close()
	streams := synthetic.NewSource(d).Streams()
	bar.start(int64(streams), "draw", "streams")
	if err := synthetic.Write(c.Context(), f.out, d, synthetic.Options{Workers: f.parallel, Progress: bar.add}); err != nil {
		return err
	}
	bar.close()
	rows := int64(streams) * int64(d.Windows+d.Steps)
	layers := ""
	if c.Flags().Changed("layers") {
		if layers = "; layer 0"; d.Layers > 1 { // so many, none by its number
			layers = fmt.Sprintf("; layers 0 to %d", d.Layers-1)
		}
	}
	fmt.Fprintf(c.ErrOrStderr(), "%s: %s, %s, %s indices%s\n", f.out,
		count(streams, "stream"), count(rows, "row"), humanize.Comma(rows*int64(d.Candidates)), layers)
	if overlap, asked := d.Reached(); math.Abs(overlap-asked) > mostOverlapError {
		fmt.Fprintf(c.ErrOrStderr(), "warning: the overlap is %.3f, the dials ask for %.3f: they contradict each other; lower --burst, lengthen --context, or take an overlap further from 0\n", overlap, asked)
	}
	return nil
}

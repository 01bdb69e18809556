package cli

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/dustin/go-humanize"

	"github.com/kvreplay/kvreplay/internal/files"
	"github.com/kvreplay/kvreplay/internal/names"
	"github.com/kvreplay/kvreplay/replay"
	"github.com/kvreplay/kvreplay/trace"
	"github.com/kvreplay/kvreplay/trace/derive"
)

type deriveFlags struct {
	options       derive.Options
	out, steps    string
	layers, heads []string
}

func deriveCommand() command {
	var f deriveFlags
	o := &f.options
	return command{
		use:   "derive SRC -o TRACE",
		short: "Make a smaller or coarser trace from a trace",
		long: `Make a trace from another one. The steps are, in this order: select requests, layers,
heads and steps, cut the lists, group tokens into blocks, and unite heads.
The same input gives the same bytes. A note in the metadata states the source's digest.`,
		example: `  kvreplay derive t.parquet -o small.parquet --topk 128 --candidates 160 --layers 0,5,10
  kvreplay derive t.parquet -o blocks.parquet --topk 256 --candidates 256 --block-tokens 8
  kvreplay derive t.parquet -o shared.parquet --heads union --steps -32:64`,
		args: exactlyOne("source trace"),
		flags: func(fl *flagSet) {
			fl.needOut(&f.out, "TRACE", "write the trace to this `FILE`")
			fl.IntVar(&o.TopK, "topk", 0, "`K`, the list entries that a step reads (default: the source's)")
			fl.IntVar(&o.Candidates, "candidates", 0, "cut lists to `M` entries, the first K included (default: the source's)")
			fl.IntVar(&o.BlockTokens, "block-tokens", 0, "tokens per index, a multiple of the source's (default: the source's)")
			fl.StringSliceVar(&f.layers, "layers", nil, "keep only these `LAYERS`, as in 0,5,10-20 (default: all)")
			fl.StringSliceVar(&o.Requests, "requests", nil, "keep only the requests of these `IDS` (default: all)")
			fl.StringSliceVar(&f.heads, "heads", nil, "keep only these `HEADS`, or union: one list per layer of all heads' demand (default: all)")
			fl.StringVar(&f.steps, "steps", "", "keep only the steps from `FROM:TO`, without TO (default: all)")
			fl.positive("topk", "candidates", "block-tokens")
		},
		run:  f.run,
		next: withOut("replay"),
	}
}

// run makes the trace. stdout stays empty, the summary goes to stderr.
func (f *deriveFlags) run(c *call) error {
	if err := f.complete(c); err != nil {
		return err
	}
	r, err := derive.Derive(c.Context(), c.args[0], f.out, f.options)
	if unknown, ok := errors.AsType[*derive.UnknownError](err); ok && unknown.Kind == "request" {
		return fmt.Errorf("%w%s", err, names.Nearest(unknown.Name, unknown.Known))
	}
	if err != nil {
		return err
	}
	layers := ""
	if f.layers != nil {
		layers = "; layers " + strings.Join(f.layers, ", ") // the numbers, not the count
	}
	c.wrote(f.out, fmt.Sprintf("%s, %s, %s indices%s", count(r.Streams, "stream"), count(r.Rows, "row"), humanize.Comma(r.Indices), layers))
	if r.Skipped > 0 {
		fmt.Fprintf(c.stderr, "left out, because they have no step in %v: %s\n", f.options.Steps, count(r.Skipped, "stream"))
	}
	if len(r.Dropped) > 0 {
		fmt.Fprintf(c.stderr, "dropped, because they have no meaning in the new trace: %s\n", strings.Join(r.Dropped, ", "))
	}
	return nil
}

// complete turns the flags into options.
func (f *deriveFlags) complete(c *call) (err error) {
	if f.options.Layers, err = parseLayers(f.layers); err != nil {
		return errUsage{err}
	}
	if c.changed("steps") {
		if f.options.Steps, err = derive.ParseSteps(f.steps); err != nil {
			return errUsage{err}
		}
	}
	for _, text := range f.heads {
		text = strings.TrimSpace(text)
		if text == "union" {
			f.options.Union = true
			continue
		}
		h, err := strconv.ParseInt(text, 10, 32)
		if err != nil || h < 0 {
			return usagef("heads %q: expected numbers or union, as in 0,2", text)
		}
		f.options.Heads = append(f.options.Heads, int32(h))
	}
	return nil
}

func clustersCommand() command {
	var out string
	return command{
		use:   "clusters TRACE -o FILE",
		short: "Write the clusters of a trace, for replay --clusters",
		long: `Write the clusters of tokens that the lists of a trace show, one JSON object per stream.
The trace's selector must rank clusters: retroinfer or kvdrive. Any trace of the same requests
can be replayed with the clusters.`,
		example: `  kvreplay clusters t.retroinfer.parquet -o clusters.jsonl
  kvreplay replay t.exact.parquet --clusters clusters.jsonl --policy lru`,
		args: exactlyOne("trace"),
		flags: func(fl *flagSet) {
			fl.needOut(&out, "FILE", "write the clusters to this `FILE`")
		},
		run:  func(c *call) error { return writeClusters(c, c.args[0], out) },
		next: func(c *call) []string { return []string{"replay", c.args[0], "--clusters", out} },
	}
}

func writeClusters(c *call, path, out string) error {
	if err := checkOutput("clusters", out, []string{path}); err != nil {
		return err
	}
	f, err := trace.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	file, err := files.Create(out)
	if err != nil {
		return fmt.Errorf("clusters: %w", err)
	}
	defer file.Abort()
	w := &output{w: file}
	if err := replay.WriteClusters(c.Context(), w, f); w.err != nil {
		return fmt.Errorf("clusters %s: %w", out, w.err)
	} else if err != nil {
		return err
	}
	if err := file.Commit(); err != nil {
		return fmt.Errorf("clusters: write %s: %w", out, err)
	}
	c.wrote(out)
	return nil
}

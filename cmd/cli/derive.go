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

// deriveFlags are the flags of `kvreplay derive` as typed.
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
		short: "Make a trace of another: fewer streams or steps, a smaller K, larger blocks, the union of heads",
		long: `Make a trace of another. First requests, layers, heads and steps are selected, then
lists are cut, then tokens become blocks, then heads are united. The same input gives
the same bytes; a note in the metadata says what was derived from which digest.`,
		example: `  kvreplay derive t.parquet -o small.parquet --topk 128 --candidates 160 --layers 0,5,10-20
  kvreplay derive t.parquet -o blocks.parquet --topk 256 --candidates 256 --block-tokens 8
  kvreplay derive t.parquet -o shared.parquet --heads union --steps -32:64`,
		args: exactlyOne("source trace"),
		flags: func(fl *flagSet) {
			fl.needOut(&f.out, "TRACE", "the trace to write; appears only when all went well")
			fl.IntVar(&o.TopK, "topk", 0, "K, the demand, in indices of the source's lists (default: the source's)")
			fl.IntVar(&o.Candidates, "candidates", 0, "M, the length that lists are cut to, demand included, likewise (default: the source's)")
			fl.IntVar(&o.BlockTokens, "block-tokens", 0, "tokens that one index stands for, a multiple of the source's (default: the source's)")
			fl.StringSliceVar(&f.layers, "layers", nil, "layers to keep: numbers and ranges, as in 0,5,10-20 (default: all)")
			fl.StringSliceVar(&o.Requests, "requests", nil, "requests to keep, by id (default: all)")
			fl.StringSliceVar(&f.heads, "heads", nil, "heads to keep, by number, or union: one list a layer of what any head demands (default: all, apart)")
			fl.StringVar(&f.steps, "steps", "", "steps to keep, FROM:TO without TO; either may be left out (default: all)")
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
	var unknown *derive.UnknownError
	if errors.As(err, &unknown) {
		return fmt.Errorf("%w%s", err, names.Nearest(unknown.Name, unknown.Known))
	}
	if err != nil {
		return err
	}
	layers := ""
	if f.layers != nil {
		layers = "; layers " + strings.Join(f.layers, ", ") // by number, not so many
	}
	fmt.Fprintf(c.stderr, "%s: %s, %s, %s indices%s\n", f.out,
		count(r.Streams, "stream"), count(r.Rows, "row"), humanize.Comma(r.Indices), layers)
	if r.Skipped > 0 {
		fmt.Fprintf(c.stderr, "left out, for no step in %v: %s\n", f.options.Steps, count(r.Skipped, "stream"))
	}
	if len(r.Dropped) > 0 {
		fmt.Fprintf(c.stderr, "dropped, for lost meaning: %s\n", strings.Join(r.Dropped, ", "))
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
		short: "Write the clusters that a trace's selector ranked, for replay --clusters",
		long: `Write the clusters of tokens that the lists of a trace show, a JSON object a stream:
of a selector that ranks clusters, which lists a cluster's tokens side by side. Any
trace of the same requests can be replayed with them. The trace's selector must be one
that ranks clusters: retroinfer or kvdrive.`,
		example: `  kvreplay clusters t.retroinfer.parquet -o clusters.jsonl
  kvreplay replay t.exact.parquet --clusters clusters.jsonl --policy lru`,
		args: exactlyOne("trace"),
		flags: func(fl *flagSet) {
			fl.needOut(&out, "FILE", "the file to write; appears only when all went well")
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
	return nil
}

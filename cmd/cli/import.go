package cli

import (
	"slices"
	"strings"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"github.com/kvreplay/kvreplay/trace/importer"
)

// importFlags are the flags of `kvreplay import` as typed.
type importFlags struct {
	options     importer.Options
	out, memory string
	sink, local int
	scoreBits   int
	windows     int
	notes       []string
}

func newImportCommand() *cobra.Command {
	var f importFlags
	c := &cobra.Command{
		Use:   "import SRC... -o TRACE",
		Short: "Make a trace of SGLang JSON, npz, JSON lines, Arrow IPC or Parquet",
		Long: `Make one trace of one or more sources. What a source is, gzip'ed or not, is told
from its content: SGLang JSON with meta_info.indexer_topk, one .npz a request, JSON
lines with selected_token_pos, Arrow IPC (file or stream) and Parquet.

Flags say what the sources do not; what both say must agree, and what neither says
stays absent from the trace.`,
		Example: `  kvreplay import response.json -o t.parquet --entry-bytes 656
  kvreplay import request7.npz -o t.parquet --request-id request7 --order rank
  kvreplay import capture.jsonl.gz -o t.parquet --topk 256 --model DeepSeek-V3.2-Exp`,
		Args: atLeast(1, "source"),
		RunE: func(c *cobra.Command, args []string) error { return runImport(c, args, &f) },
	}
	f.define(c)
	return c
}

func (f *importFlags) define(c *cobra.Command) {
	fl, o, m := c.Flags(), &f.options, &f.options.Stated
	outVar(fl, &f.out, "the trace to write; appears only when all went well")
	fl.StringVar(&m.Order, "order", "", "what the order of a list means: `rank` (best first) or index (nothing; lists get sorted) (default: by scores, where a source has them)")
	fl.StringVar(&o.RequestID, "request-id", "", "id of the request where a source does not name it (npz)")
	fl.IntVar(&o.PromptLen, "prompt-len", 0, "tokens of the prompt where a source does not imply them")
	fl.IntVar(&o.Layers, "layers", 0, "number of indexer layers of an SGLang source, where its data do not tell")
	fl.IntVar(&o.IndexTopK, "index-topk", 0, "list length of an SGLang source, where its data do not tell")
	fl.IntVar(&f.windows, "windows", 0, "prompt queries to keep at most, steps -N ... -1 (default: 32 of SGLang, else all)")
	fl.IntVar(&m.TopK, "topk", 0, "K, the demand; the rest of a longer list are candidates (default: the longest list)")
	fl.IntVar(&f.sink, "sink", 0, "first tokens that the selector always keeps")
	fl.IntVar(&f.local, "local", 0, "last tokens that the selector always keeps, the current one included")
	bytesVar(fl, &m.EntryBytes, "entry-bytes", 0, "bytes of a token's KV entry in one stream")
	fl.IntVar(&m.BlockTokens, "block-tokens", 0, "tokens that one index stands for (default: 1)")
	fl.StringVar(&m.Selector, "selector", "", "what chose the entries: exact, dsa, quest, ...")
	fl.StringVar(&m.Reducer, "reducer", "", "how heads became one list: max, sum, mean, union or none")
	fl.StringVar(&m.ScoreKind, "score-kind", "", "what a score is: softmax, logit, bound, ...")
	fl.IntVar(&f.scoreBits, "score-bits", 0, "mantissa bits to keep of scores, 23: exact (default: 10)")
	fl.StringVar(&m.Model, "model", "", "model that was recorded")
	fl.StringVar(&m.Decoding, "decoding", "", "greedy, sampled (with seed) or forced")
	fl.StringVar(&m.Licence, "licence", "", "licence of the trace, as an SPDX expression")
	fl.StringVar(&m.Generator, "generator", "", "program and command that made the source")
	fl.StringArrayVar(&f.notes, "note", nil, "further fact, as `key=value`; repeatable")
	fl.StringVar(&f.memory, "memory", "4GiB", "memory budget; beyond it JSON lines, Arrow and Parquet go through temporary files")
	fl.StringVar(&o.Tmp, "tmp", "", "directory of temporary files (default: the system's)")
}

// complete turns what was typed into options; a flag that was not typed says nothing.
func (f *importFlags) complete(c *cobra.Command, paths []string) error {
	if f.out == "" {
		return outputMissing(&f.options, paths)
	}
	if err := atLeastOne(c, "topk", "entry-bytes", "block-tokens", "prompt-len", "layers", "index-topk"); err != nil {
		return err
	}
	bytes, err := humanize.ParseBytes(f.memory)
	if err != nil || bytes > 1<<50 {
		return usagef("--memory %q, expected a size such as 4GiB", f.memory)
	}
	f.options.Memory = int64(bytes)
	m := &f.options.Stated
	for flag, target := range map[string]struct {
		from *int
		to   **int
	}{"sink": {&f.sink, &m.Sink}, "local": {&f.local, &m.Local}, "score-bits": {&f.scoreBits, &m.ScoreMantissaBits}, "windows": {&f.windows, &f.options.Windows}} {
		if c.Flags().Changed(flag) {
			*target.to = target.from
		}
	}
	for _, note := range f.notes {
		key, value, ok := strings.Cut(note, "=")
		if !ok || key == "" {
			return usagef("--note %q, expected key=value", note)
		}
		if m.Notes == nil {
			m.Notes = map[string]string{}
		}
		if old, twice := m.Notes[key]; twice && old != value {
			return usagef("--note %s is stated twice: %q and %q", key, old, value)
		}
		m.Notes[key] = value
	}
	if err := f.options.Validate(); err != nil {
		return usagef("%w", err)
	}
	return nil
}

// checkSGLang refuses flags that are of SGLang sources where there is none.
func checkSGLang(c *cobra.Command, paths []string) error {
	for _, name := range []string{"layers", "index-topk"} {
		if !c.Flags().Changed(name) {
			continue
		}
		other := func(path string) bool {
			found, err := importer.Detect(path)
			return err == nil && found.Format != importer.SGLang
		}
		if !slices.ContainsFunc(paths, func(path string) bool { return !other(path) }) {
			return usagef("--%s is of SGLang sources, %s is none", name, paths[0])
		}
	}
	return nil
}

// runImport makes the trace; stdout stays empty, the summary goes to stderr.
func runImport(c *cobra.Command, paths []string, f *importFlags) error {
	if err := f.complete(c, paths); err != nil {
		return err
	}
	if err := checkSGLang(c, paths); err != nil {
		return err
	}
	bar := newBar(c.ErrOrStderr())
	defer bar.close()
	bar.start(unknown, "read", "records")
	writing := false
	f.options.Progress = func(read, written int64) {
		switch {
		case written == 0:
			bar.to(read)
			return
		case !writing:
			bar.close()
			bar.start(read, "write", "records")
			writing = true
		}
		bar.to(written)
	}
	result, err := importer.Import(c.Context(), f.options, f.out, paths...)
	if err != nil {
		return withImportExample(err, paths)
	}
	bar.close()
	return result.Summary(c.ErrOrStderr())
}

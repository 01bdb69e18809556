package cli

import (
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kvreplay/kvreplay/datasets/requests"
	"github.com/kvreplay/kvreplay/trace"
	"github.com/kvreplay/kvreplay/trace/importer"
)

type importFlags struct {
	options     importer.Options
	out         string
	sink, local int
	scoreBits   int
	windows     int
	notes       []string
}

func importCommand() command {
	var f importFlags
	o, m := &f.options, &f.options.Meta
	return command{
		use:   "import SRC... -o TRACE",
		short: "Make a trace from SGLang JSON, npz, JSON lines, Arrow or Parquet",
		long: `Make one trace from one or more sources. kvreplay detects the format from the content:
SGLang JSON with meta_info.indexer_topk, one .npz per request, JSON lines with
selected_token_pos, Arrow IPC (file or stream) or Parquet. Gzip is read as well.
Flags add facts that the sources do not state. They must agree with the sources.`,
		example: `  kvreplay import response.json -o t.parquet --entry-bytes 656
  kvreplay import request7.npz -o t.parquet --request-id request7 --order rank
  kvreplay import capture.jsonl.gz -o t.parquet --topk 256 --model DeepSeek-V3.2-Exp`,
		args: atLeast(1, "source"),
		flags: func(fl *flagSet) {
			fl.out(&f.out, "write the trace to this `FILE`")
			fl.IntVar(&m.TopK, "topk", 0, "`K`, the list entries that a step reads (default: the longest list)")
			fl.StringVar(&m.Order, "order", "", "order of a list: `rank` (best first) or index (none) (default: by the scores)")
			fl.StringVar(&o.RequestID, "request-id", "", "request `ID` of a source that states none, such as npz")
			fl.IntVar(&o.PromptLen, "prompt-len", 0, "number of prompt tokens, if a source does not imply it")
			fl.IntVar(&f.sink, "sink", 0, "number of first tokens that the selector always keeps")
			fl.IntVar(&f.local, "local", 0, "number of last tokens that the selector always keeps, with the current one")
			sizeVar(fl, &m.EntryBytes, "entry-bytes", 0, mostBytes, "size of the KV entry of a token in one stream")
			fl.StringVar(&m.Model, "model", "", "name of the recorded model")
			fl.IntVar(&f.windows, "windows", 0, "keep at most `N` prompt queries (default: 32 from SGLang, otherwise all)")
			fl.more()
			fl.IntVar(&m.BlockTokens, "block-tokens", 0, "number of tokens that one index stands for (default: 1)")
			fl.IntVar(&o.Layers, "layers", 0, "number of indexer layers of an SGLang source that does not state it")
			fl.IntVar(&o.IndexTopK, "index-topk", 0, "list length of an SGLang source that does not state it")
			fl.IntVar(&f.scoreBits, "score-bits", 0, "number of mantissa bits to keep of scores, up to 23 (default: 10)")
			fl.StringVar(&m.Licence, "licence", "", "licence of the trace, if possible an SPDX expression such as CC-BY-4.0")
			fl.StringArrayVar(&f.notes, "note", nil, "add a fact, `KEY=VALUE` (repeatable): "+strings.Join(slices.Sorted(maps.Keys(factsOf(m))), ", ")+", or a key of your own")
			sizeVar(fl, &o.Memory, "memory", 4<<30, mostMemory, "memory to use before temporary files, which go to $TMPDIR")
			fl.Lookup("memory").DefValue = "4GiB"
			fl.positive("topk", "entry-bytes", "block-tokens", "prompt-len", "layers", "index-topk")
		},
		run:  f.run,
		next: withOut("replay"),
	}
}

// run makes the trace. stdout stays empty, the summary goes to stderr.
func (f *importFlags) run(c *call) error {
	if err := f.complete(c); err != nil {
		return err
	}
	c.bar.start(unknown, "read", "records")
	writing := false
	f.options.Progress = func(read, written int64) {
		switch {
		case written == 0:
			c.bar.to(read)
			return
		case !writing:
			c.bar.close()
			c.bar.start(read, "write", "records")
			writing = true
		}
		c.bar.to(written)
	}
	result, err := importer.Import(c.Context(), f.options, f.out, c.args...)
	if err != nil {
		return err
	}
	c.bar.close()
	if err := result.Summary(c.stderr); err != nil {
		return err
	}
	c.wrote(f.out)
	return nil
}

// complete turns the flags into options. A flag that is not given states nothing.
func (f *importFlags) complete(c *call) error {
	isSGLang := func(path string) bool {
		found, err := importer.Detect(path)
		return err != nil || found.Format == importer.SGLang
	}
	for _, name := range []string{"layers", "index-topk"} {
		if c.changed(name) && !slices.ContainsFunc(c.args, isSGLang) {
			return usagef("--%s needs an SGLang source, and %s is none: remove the flag", name, c.args[0])
		}
	}
	if err := f.missing(c.args); err != nil {
		return err
	}
	m := &f.options.Meta
	for flag, target := range map[string]struct {
		from *int
		to   **int
	}{
		"sink": {&f.sink, &m.Sink}, "local": {&f.local, &m.Local},
		"score-bits": {&f.scoreBits, &m.ScoreMantissaBits}, "windows": {&f.windows, &f.options.Windows},
	} {
		if c.changed(flag) {
			*target.to = target.from
		}
	}
	stated := map[string]string{}
	for _, note := range f.notes {
		key, value, ok := strings.Cut(note, "=")
		if !ok || key == "" {
			return usagef("--note %q: expected KEY=VALUE", note)
		}
		old, twice := stated[key]
		if twice && old != value {
			return usagef("--note %s is stated twice: %q and %q", key, old, value)
		}
		stated[key] = value
	}
	for key, fact := range factsOf(m) {
		*fact = stated[key]
		delete(stated, key)
	}
	if len(stated) > 0 {
		m.Notes = stated
	}
	if err := f.options.Validate(); err != nil {
		return usagef("%w", err)
	}
	return nil
}

// factsOf returns the fields of the metadata that --note sets, by their keys in the format.
func factsOf(m *trace.Meta) map[string]*string {
	return map[string]*string{
		"decoding": &m.Decoding, "generator": &m.Generator, "reducer": &m.Reducer, "score_kind": &m.ScoreKind, "selector": &m.Selector,
	}
}

// Files that are not traces.

// explainForeign replaces the error of a file that is not a trace. The new error names the file's
// format and the command that imports or reads it.
func explainForeign(err error) error {
	e := trace.AsError(err)
	if e == nil || !errors.Is(err, trace.ErrForeign) {
		return err
	}
	if e.Rule != trace.RuleFile { // Parquet: err says how the file differs from a trace
		return fmt.Errorf("%w, as in `%s`", err, importLine(importer.Parquet, e.Path))
	}
	if text := foreignText(e.Path); text != "" {
		return errors.New(text)
	}
	return err
}

// foreignText says what the file at path is and what to do with it. It returns "" for a file
// of an unknown kind.
func foreignText(path string) string {
	if found, err := importer.Detect(path); err == nil {
		return fmt.Sprintf("%s is %v, not a trace: import it with `%s`", path, found, importLine(found.Format, path))
	}
	if found, err := requests.Detect(path); err == nil && found != requests.Unknown && found != requests.Parquet {
		return fmt.Sprintf("%s is a trace of requests (%v), not of selections: `%s` describes it", path, found, commandLine("inspect", path))
	}
	return ""
}

// importLine returns a complete command that imports a source, with example values for what
// sources of its format do not state.
func importLine(f importer.Format, path string) string {
	stem := strings.TrimSuffix(filepath.Base(path), ".gz")
	stem = strings.TrimSuffix(stem, filepath.Ext(stem))
	out := stem + ".parquet"
	if f == importer.Parquet {
		out = stem + ".trace.parquet"
	}
	args := []string{"import", path, "-o", out}
	if f == importer.NPZ {
		args = append(args, "--request-id", stem, "--order", "rank")
	}
	return commandLine(args...)
}

// missing returns an error if the output, or a fact that a source needs, is missing. The error names
// all flags that the source needs, and a complete command.
func (f *importFlags) missing(paths []string) error {
	var err error
	if f.out == "" {
		err = errors.New("output missing: name it with -o TRACE")
	}
	for _, path := range paths {
		found, detected := importer.Detect(path)
		if detected != nil {
			continue
		}
		switch missing := f.options.Missing(found.Format); {
		case missing != nil && err != nil:
			err = fmt.Errorf("%w; %s: %w", err, path, missing)
		case missing != nil:
			err = fmt.Errorf("import: %s: %w", path, missing)
		}
		if err != nil {
			return usagef("%w; for example: `%s`", err, importLine(found.Format, path))
		}
	}
	if err != nil {
		return errUsage{err}
	}
	return nil
}

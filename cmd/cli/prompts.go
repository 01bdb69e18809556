package cli

import (
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/dustin/go-humanize"
	"github.com/spf13/pflag"

	"github.com/kvreplay/kvreplay/datasets/longbench"
	"github.com/kvreplay/kvreplay/datasets/offline"
	"github.com/kvreplay/kvreplay/datasets/prompts"
	"github.com/kvreplay/kvreplay/datasets/ruler"
	"github.com/kvreplay/kvreplay/datasets/tokens"
	"github.com/kvreplay/kvreplay/internal/names"
	"github.com/kvreplay/kvreplay/internal/slice"
)

// promptsFlags are the flags that all makers of prompts have, as typed.
type promptsFlags struct {
	out, tokenizer string
	seed           uint64
}

func (f *promptsFlags) define(fl *flagSet) {
	fl.needOut(&f.out, "PROMPTS.jsonl", "write the prompts to this `FILE`, and their manifest next to it")
	fl.StringVar(&f.tokenizer, "tokenizer", "", "count tokens by a built-in vocabulary or by this tokenizer.json (default: "+tokens.Default+")")
}

// promptsMaker makes prompts, writes each, and returns their manifest.
type promptsMaker func(write func(*prompts.Row) error) (*prompts.Manifest, error)

// write sets the tokenizer and makes the prompts file and its manifest. It must not replace the
// inputs. stdout stays empty, the summary goes to stderr.
func (f *promptsFlags) write(c *call, inputs []string, t *tokens.Tokenizer, make promptsMaker) (err error) {
	inputs = append(filesOf([]string{f.tokenizer}, ".json"), inputs...)
	for _, out := range []string{f.out, prompts.ManifestPath(f.out)} {
		if err := checkOutput("make "+c.Name(), out, inputs); err != nil {
			return err
		}
	}
	if *t, err = unlessStopped(c.Context(), func() (tokens.Tokenizer, error) { return tokens.Open(f.tokenizer) }); err != nil {
		return err
	}
	w, err := prompts.Create(f.out)
	if err != nil {
		return err
	}
	defer w.Abort()
	lengths := promptLengths{}
	m, err := make(func(r *prompts.Row) error {
		lengths.add(r)
		return w.Write(r)
	})
	if is[*names.Error](err) {
		return errUsage{err}
	}
	if err != nil {
		return err
	}
	m.Command = typed(c)
	if err := w.Close(m); err != nil {
		return err
	}
	c.wrote(f.out, fmt.Sprintf("%s, counted by %s", count(m.Rows, "prompt"), m.Tokenizer))
	lengths.print(c.stderr, m)
	c.wrote(prompts.ManifestPath(f.out))
	return nil
}

// typed returns the command line without the output, which the manifest names already.
func typed(c *call) []string {
	words := strings.Fields(c.CommandPath())
	words = append(words, c.Flags().Args()...)
	c.Flags().Visit(func(f *pflag.Flag) {
		values := []string{f.Value.String()}
		if list, ok := f.Value.(pflag.SliceValue); ok {
			values = list.GetSlice()
		}
		for _, v := range values {
			if f.Name != outFlag {
				words = append(words, "--"+f.Name+"="+v)
			}
		}
	})
	return words
}

// promptLengths are the shortest and the longest prompt of each task at each length.
type promptLengths map[prompts.Task]*[2]int

func (l promptLengths) add(r *prompts.Row) {
	task := prompts.Task{Name: r.Task, MaxLength: r.MaxLength}
	if l[task] == nil {
		l[task] = &[2]int{r.Length, r.Length}
	}
	l[task][0] = min(l[task][0], r.Length)
	l[task][1] = max(l[task][1], r.Length)
}

func (l promptLengths) print(w io.Writer, m *prompts.Manifest) {
	for _, t := range m.Tasks {
		fmt.Fprintf(w, "  %-36s %4d", t.Name, t.Rows)
		if span := l[prompts.Task{Name: t.Name, MaxLength: t.MaxLength}]; span != nil {
			fmt.Fprintf(w, " of %s to %s tokens, generation included", humanize.Comma(int64(span[0])), humanize.Comma(int64(span[1])))
		}
		fmt.Fprintln(w)
	}
}

type longbenchFlags struct {
	promptsFlags
	options longbench.Options
}

func (f *longbenchFlags) define(fl *flagSet, tasks string) {
	f.promptsFlags.define(fl)
	fl.StringSliceVar(&f.options.Tasks, "task", []string{prompts.All}, tasks)
	fl.IntVar(&f.options.Samples, "samples", 0, "make at most `N` prompts per task (default: all)")
	fl.Uint64Var(&f.seed, "seed", 0, "seed that draws the rows of --samples (default: the first rows)")
	fl.IntVar(&f.options.Length, "length", 0, "cut the middle of prompts with more than `N` tokens (default: no limit)")
	fl.positive("samples", "length")
}

// run makes the prompts of the sources.
func (f *longbenchFlags) run(c *call, make promptsMaker) error {
	if c.changed("seed") {
		if f.options.Samples == 0 {
			return usagef("--seed needs --samples")
		}
		f.options.Seed = &f.seed
	}
	return f.write(c, setFiles(c.args), &f.options.Tokenizer, make)
}

func longbenchCommand() command {
	var f longbenchFlags
	return command{
		use:   "longbench SOURCE... -o PROMPTS",
		short: "Make prompts from LongBench's files, which you provide",
		long: `Make prompts from LongBench v1. SOURCE is the original data.zip, a folder of <set>.jsonl, or one
such file, with or without gzip. Prompts, generated lengths, truncation and the use of a chat
template are those of the benchmark.`,
		details: "Sets (those of LongBench-E end in _e):\n    " + strings.Join(setNames(), ", "),
		example: `  kvreplay datasets make longbench data.zip -o longbench.jsonl --length 31500
  kvreplay datasets make longbench multi_news.jsonl lcc.jsonl -o some.jsonl --samples 5 --seed 1
  kvreplay datasets make longbench data.zip -o e.jsonl --task all_e --tokenizer model/tokenizer.json`,
		args: atLeast(1, "source"),
		flags: func(fl *flagSet) {
			f.define(fl, "make prompts of these `SETS`, of all in the source, or of all_e")
		},
		run: func(c *call) error {
			return f.run(c, func(write func(*prompts.Row) error) (*prompts.Manifest, error) {
				return longbench.Make(c.Context(), f.options, c.args, write)
			})
		},
	}
}

func longbenchV2Command() command {
	var f longbenchFlags
	return command{
		use:   "longbench-v2 SOURCE -o PROMPTS",
		short: "Make prompts from LongBench v2's data.json, which you provide",
		long: fmt.Sprintf(`Make prompts from LongBench v2's %d questions. SOURCE is the original data.json, a file of the
same rows as JSON lines, with or without gzip, or a folder with data.json. A domain is a task, and
the reference answer is the letter of the right choice.`, longbench.RowsV2),
		details: "Domains:\n    " + strings.Join(longbench.DomainTasks(), ", "),
		example: `  kvreplay datasets make longbench-v2 data.json -o v2.jsonl --length 120000
  kvreplay datasets make longbench-v2 data.json -o v2.jsonl --context short --samples 10`,
		args: exactlyOne("source"),
		flags: func(fl *flagSet) {
			f.define(fl, "make prompts of these `DOMAINS`, or of all")
			fl.StringVar(&f.options.Difficulty, "difficulty", "", "make prompts of only the easy or the hard questions")
			fl.StringVar(&f.options.Context, "context", "", "make prompts of only the short, medium or long contexts")
		},
		run: func(c *call) error {
			return f.run(c, func(write func(*prompts.Row) error) (*prompts.Manifest, error) {
				return longbench.MakeV2(c.Context(), f.options, c.args[0], write)
			})
		},
	}
}

// setFiles returns the sources and, for folders, the files whose names are those of sets. Other
// files, such as prompts of an earlier run, are no sources.
func setFiles(sources []string) []string {
	return slices.DeleteFunc(filesOf(sources, ".jsonl", ".gz", ".zip", ".json"), func(file string) bool {
		name, _, _ := strings.Cut(filepath.Base(file), ".")
		return !slices.Contains(sources, file) && name != "data" && !slices.Contains(setNames(), strings.TrimSuffix(name, "_e"))
	})
}

func setNames() []string {
	return slice.Map(longbench.Sets(), func(s longbench.Set) string { return s.Name })
}

type offlineFlags struct {
	promptsFlags
	options offline.Options
}

func offlineCommand() command {
	var f offlineFlags
	o := &f.options
	return command{
		use:   "offline -o PROMPTS",
		short: "Make LongBench-like prompts without a download",
		long: `Make prompts of tasks that resemble LongBench's, from files that a machine with Go has: the sources
and texts of the Go distribution, and Python's standard library if it is installed. Each row says
that it is a substitute. The same options and sources give the same prompts.`,
		details: "Tasks, the set of LongBench that each resembles, and the question:" +
			strings.Join(slice.Map(offline.Tasks(), func(t offline.Task) string {
				return fmt.Sprintf("\n  %-21s %-21s %s", t.Name, t.StandsFor, t.Summary)
			}), ""),
		example: `  kvreplay datasets make offline --task all --length 8192 --samples 5 -o prompts.jsonl
  kvreplay datasets make offline --task qa_text,passage_count_text --text novel.txt -o novel.jsonl
  kvreplay datasets make offline --task repobench_go --length 131072 -o long.jsonl`,
		flags: func(fl *flagSet) {
			f.promptsFlags.define(fl)
			fl.StringSliceVar(&o.Tasks, "task", []string{prompts.All}, "make prompts of these `TASKS`, or of all")
			fl.IntVar(&o.Samples, "samples", 5, "number of prompts per task")
			fl.IntVar(&o.Length, "length", 8192, "most tokens of a prompt and its answer, without a chat template")
			fl.Uint64Var(&o.Seed, "seed", 42, "seed of all random numbers")
			fl.StringVar(&o.Places.GoRoot, "goroot", "", "read the Go distribution in this `FOLDER` (default: $GOROOT, or that of go env)")
			fl.StringVar(&o.Places.Python, "python", "", "read Python's standard library in this `FOLDER` (default: that of python3)")
			fl.StringArrayVar(&o.Places.Texts, "text", nil, "use this plain text `FILE` in the _text tasks (repeatable) (default: Newton's Opticks)")
			fl.positive("samples", "length")
		},
		run: f.run,
	}
}

func (f *offlineFlags) run(c *call) error {
	ofText := func(task string) bool {
		return task == prompts.All || strings.HasSuffix(strings.TrimSpace(task), "_text")
	}
	if f.options.Places.Texts != nil && !slices.ContainsFunc(f.options.Tasks, ofText) {
		return usagef("--text needs a task that ends in _text: add one to --task")
	}
	var notes []string
	err := f.write(c, f.options.Places.Texts, &f.options.Tokenizer, func(write func(*prompts.Row) error) (*prompts.Manifest, error) {
		if err := f.options.Validate(); err != nil {
			return nil, errUsage{err}
		}
		r, err := offline.Make(c.Context(), f.options, write)
		if err != nil {
			return nil, err
		}
		notes = r.Notes
		return r.Manifest, nil
	})
	for _, note := range notes {
		fmt.Fprintln(c.stderr, note)
	}
	return err
}

type rulerFlags struct {
	promptsFlags
	options ruler.Options
}

func rulerCommand() command {
	var f rulerFlags
	o := &f.options
	return command{
		use:   "ruler -o PROMPTS",
		short: "Make prompts of RULER's 13 tasks at any length",
		long: `Make prompts of RULER: needles in haystacks, variable tracking, word counts and questions.
Each prompt is as long as --length allows. Without --essays, --squad and --hotpotqa, built-in texts
replace the benchmark's, and rows and manifest say so.`,
		details: "Tasks:\n    " + strings.Join(ruler.Names(), ", "),
		example: `  kvreplay datasets make ruler --task all --length 4096 --samples 5 -o prompts.jsonl
  kvreplay datasets make ruler --task niah_multikey_3,vt --length 8192,16384 -o long.jsonl
  kvreplay datasets make ruler --task qa_1 --length 16384 -o qa.jsonl --squad dev-v2.0.json`,
		flags: func(fl *flagSet) {
			f.promptsFlags.define(fl)
			fl.StringSliceVar(&o.Tasks, "task", []string{prompts.All}, "make prompts of these `TASKS`, or of all")
			fl.IntSliceVar(&o.Lengths, "length", []int{4096}, "most tokens of a prompt and its answer, one or more `LENGTHS`")
			fl.IntVar(&o.Samples, "samples", 500, "number of prompts per task and length")
			fl.Uint64Var(&o.Seed, "seed", 42, "seed of all random numbers")
			fl.IntVar(&o.TemplateTokens, "template-tokens", 0, "tokens of --length to reserve for a chat template (default 0)")
			fl.StringVar(&o.Essays, "essays", "", "haystack `FILE`: PaulGrahamEssays.json, a text or a folder (default: Newton's Opticks)")
			fl.StringVar(&o.Squad, "squad", "", "questions of qa_1, dev-v2.0.json of SQuAD (default: from Go's documentation)")
			fl.StringVar(&o.HotpotQA, "hotpotqa", "", "questions of qa_2, hotpot_dev_distractor_v1.json (default: from Go's documentation)")
		},
		run: f.run,
	}
}

func (f *rulerFlags) run(c *call) error {
	f.options.Tasks = slice.Map(f.options.Tasks, strings.TrimSpace)
	for _, texts := range []struct{ flag, file string }{{"essays", f.options.Essays}, {"squad", f.options.Squad}, {"hotpotqa", f.options.HotpotQA}} {
		readers := ruler.ReadersOf(texts.flag)
		named := func(task string) bool { return task == prompts.All || slices.Contains(readers, task) }
		if texts.file != "" && !slices.ContainsFunc(f.options.Tasks, named) {
			return usagef("--%s needs the task %s: add it to --task", texts.flag, strings.Join(readers, " or "))
		}
	}
	inputs := append(filesOf([]string{f.options.Essays}, ".txt", ".md"), f.options.Squad, f.options.HotpotQA)
	return f.write(c, inputs, &f.options.Tokenizer, func(write func(*prompts.Row) error) (*prompts.Manifest, error) {
		if err := f.options.Validate(); err != nil {
			return nil, errUsage{err}
		}
		return ruler.Make(c.Context(), f.options, write)
	})
}

package blind

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/kvreplay/kvreplay/internal/slice"
	"github.com/kvreplay/kvreplay/internal/table"
	"github.com/kvreplay/kvreplay/internal/text"
	"github.com/kvreplay/kvreplay/replay/reproduce"
)

// beyond is the largest |error| that needs no written reason.
const beyond = 0.4

const (
	head = `# Published results that no constant was fitted to

This reference is a list of published times next to modelled ones, with the errors. It is for users who ask how far ` + "`kvreplay time`" + ` is from measurements. ` + "`kvreplay reproduce blind --format markdown`" + ` prints it, and a test holds it current.

No fit uses a result on this page, and none may. Some choices were made after its errors were seen, and the list below has them. The results determine only the factors of the whole step, which widen intervals. The settings are the published ones, with the default constants of ` + "`kvreplay time`" + `. Each result has two figures of ours: with ` + "`--kernels roofline`" + `, and with ` + "`--kernels fitted`" + `, the default ([both](OPERATORS.md#computation)). An error is (ours − printed) ÷ printed. A note gives the reason for each error beyond 40 %. For gains the limit is 20 %. A note concerns both figures unless it names one.

Settings with a sum state prompt + generated tokens of a request. Those with one number of tokens state the prompt or the context. Names such as ` + "`dense`" + ` are [schedules](SCHEDULES.md).

The constants of kernels come from times of single kernels, among them products of Llama 2 7B and 70B on an A100. Those of [engines](OPERATORS.md#engines) come from token rates and CPU times of other runs.

These changes came after the errors of this page were known, so their results are not blind in the strict sense:

- The engines ` + "`vllm-0.5`, `vllm-0.6` and `vllm-0.8`" + ` count the time in which the GPU waits for the CPU. Their [constants](OPERATORS.md#vllm-before-014) come from elsewhere. For the 65 times of vLLM before 0.14, the change from ` + "`graphs`" + ` lowered the median |error| from 17.9 to 7.0 %. 11 were beyond 40 %, then none. 13 errors grew. The part of the sampler is an upper estimate. Without it the median would have been 8.9 %, with 5 beyond 40 %.
- The 26 first tokens of LMDeploy include a decode step, because its code computes them so. The change lowered the median from 15.6 to 9.0 %. 9 of 26 were beyond 40 %, then 4.
- Weights of Accelerate pass through pageable memory, as in the benchmark that measured it. Four errors of 59 to 138 % fell to 13 to 21 %.
- On Ampere GPUs with ECC, decode attention and routed experts read memory at the lower share that products [reach](../kernel/README.md#oddities-of-the-measurements) there. Errors on A100 prompted this. Full attention of ShadowKV's baseline was 10.0 % off (median), then 2.1 %.
- In the formula of experts, an SM has 128 rows of weights under way. With 64, Mixtral on H200 was 47 % wrong. The two rules and new measured kernels together raised the median of all times from 11.1 to 12.4 %.
- All-reduces have the times of the GPU, by NCCL or by kernels of the engine. Before, small ones included the CPU's start of a call. Errors of gpt-fast prompted this. The [measurements](../collective/README.md) come from elsewhere, and so do the methods of engines.
  - Medians of |error| fell: gpt-fast from 19.7 to 0.7 %, its Mixtral from 19.6 to 5.6 %, vLLM on four GPUs from 17.2 to 9.0 %, its Mixtral from 21.4 to 10.2 %, DeepSeek-R1 with SGLang from 27.6 to 2.6 %.
  - Others rose: NeMo from 27.0 to 46.1 %, FasterTransformer from 16.1 to 26.8 %, TensorRT-LLM from 26.1 to 35.7 % and with DeepSeek-R1 from 19.7 to 40.4 %, DeepSpeed from 22.7 to 28.1 %, LMDeploy from 8.6 to 15.4 %, Qwen2.5 72B from 4.6 to 14.2 % on A100 and from 1.9 to 6.3 % on H100, Qwen3 235B from 6.1 to 31.4 %, DeepSeek-V3 from 142.8 to 184.9 %, first tokens of TensorRT-LLM from 6.8 to 11.9 %, gains of tensor parallelism from 15.7 to 21.1 %.
  - Steps of kvreplay are too short for all that rose. Rates are then too high, so their errors can exceed 100 %. The median of dense tensor parallelism rose from 12.3 to 21.1 %, and that with experts fell from 16.0 to 8.6 %.
- Selections of an indexer have the times of kernels on RTX PRO 6000. Attention to the selected entries has the rate that FlashMLA states for H800. The two results of GLM-5.1 were 26.9 % off (median), then 18.7 %.
- RTX A6000 and RTX 3090 read memory without the loss of ECC, because products of RTX A6000 were measured. Their six dense results were 3.5 % off (median), then 13.0 %.
- ShadowKV's steps follow its public code more closely: attention after the fetch, scores of all query heads, launches of the selection, and copies within the GPU. The median of its 11 results fell from 15.6 to 9.4 %, the worst from 31.0 to 17.3 %. Three errors grew, those of Yi 9B. The engine was ` + "`pytorch`" + ` before and after. With ` + "`eager`" + `, whose CPU takes a third of the time, ours would be 13 to 40 % too fast.
- The KV of FlexGen on the RTX A6000 is in pageable memory, as by default in its code. Two errors of 124 and 125 % fell to 10 and 18 %.
- Prefill of nine results of H2O and FlexGen is that of published logs. Their median fell from 33.7 to 27.5 %, and five errors grew.
- Prompts send a token once to each host of its experts. Errors of the five results over 4 nodes prompted this. Their median fell from 44 to 14.8 %.
- The changes below that of experts raised the median of all times from 12.4 % of 328 results to 13.8 % of 339. Before, 28 were beyond 40 %, then 38.
- FP8 models have 16 bits for each weight of embeddings, logits and routers, as in their checkpoints. All their steps take longer. Of 14 decoding results, ten errors fell, and four grew by at most 1.6 points.
  - Medians of |error| fell: GLM-5.1 from 18.7 to 17.1 %, DeepSeek-V3 with SGLang from 184.9 to 181.3 %, with TensorRT-LLM from 40.4 to 39.2 %.
  - Others rose: DeepSeek-R1 with SGLang from 2.6 to 4.2 %, DeepSeek-V3.2 from 13.4 to 13.7 %. With experts over 9 to 18 nodes, the median fell from 9.1 to 8.4 %.
- The five prompts over 4 nodes overlap two halves of a pass, as their systems do. Before, ours did one after the other. DeepSeek's GPUs also state the rate between hosts, without which exchanges took no time.
  - DeepSeek's profile was 18.0 % too fast, then 6.3 %. SGLang with balanced experts was 23.1 % too slow, then 14.4 % too fast.
  - The other three were 9 to 15 % too slow, then 32 to 35 % too fast. SGLang gains 27 to 35 % by the overlap, and ours gains 49 to 55 %. In the source, exchanges take longer next to kernels, and unequal experts cost 18 %. Ours has neither.
- The last two changes raised the median of all times from 13.8 to 14.2 %. 38 are beyond 40 %, as before.
- NCCL has two protocols, and constants from all-reduces that were measured on A100. Programs in C++ without CUDA graphs have the engine ` + "`cpp`" + `. TensorRT-LLM 0.6 and NeMo reduce by NCCL. Errors of tensor parallelism prompted this. The [measurements](../collective/README.md) and [launches](OPERATORS.md#c-without-cuda-graphs) come from elsewhere. Errors on measurements that a fit left out chose the formula.
  - Medians of |error| fell: LMDeploy on four GPUs from 15.4 to 8.3 %, TensorRT-LLM from 35.7 to 27.3 %, NeMo from 46.1 to 34.0 % and on one GPU from 21.3 to 20.1 %, FasterTransformer from 26.8 to 19.4 % and on one GPU from 2.1 to 1.5 %, DeepSpeed from 28.1 to 23.6 %, first tokens of TensorRT-LLM from 11.9 to 5.6 % and of LMDeploy from 5.2 to 4.0 %, gains of tensor parallelism from 21.1 to 17.5 %.
  - Others rose: LMDeploy on one GPU from 2.0 to 2.7 %, TensorRT-LLM on one GPU from 3.7 to 4.0 %, prompts of DeepSeek-V3.2 from 165.3 to 175.2 %.
  - The launches count little, because the CPU launches a layer in less time than the GPU computes it. All-reduces account for the change. The median of dense tensor parallelism fell from 21.1 to 17.7 %, and that of all times from 14.2 to 13.4 %. 38 were beyond 40 %, then 32.
- Engines whose kernels Python launches have their own kind. Their factor of the whole step is 2.02, and that of other engines on one GPU is smaller without them. First tokens of models with experts are a kind of their own too. Their factor is 3.53, and that of dense models is 1.74.
- The formula of products has times to begin and to end a tile. Errors on measured kernels chose it, next to [forms that were tried](../kernel/README.md#forms-that-were-tried). Two of these were dropped because of this page and of [TRTLLM.md](../serving/TRTLLM.md). H200 and GH200 state their clock and L2 cache. The median of all times fell from 13.4 to 13.2 %, and that of first tokens from 8.9 to 8.1 %. 32 were beyond 40 %, then 34. The two are first tokens of LMDeploy.

kvreplay does not model steps that mix prefill with decoding. So a throughput is here only if its source prints the time to the first token or measures decoding alone, or if prefill is short. Short is at most 5 % of the printed time at the datasheet's arithmetic rate (the full rate), 8 % for offloading. Without a printed time to the first token, prefill counts as one step.

[REPRODUCTION.md](../REPRODUCTION.md) has figures of papers that some constants were fitted to. ` + "`kvreplay reproduce all`" + ` prints that page without this one. [reproduce](../reproduce/README.md) explains both.

## Summary

`
	legend = `Medians and worst errors are of |error|, and "> 40 %" counts results. The last line has all throughputs ` +
		`and latencies, also of first tokens, without gains and memory. Gains are ratios of two results. The table ` +
		`leaves out results of kind "transferred", whose kernel constants come from the same GPU, model and software. ` +
		`"Within ±" counts the results in the [interval](README.md#errors-of-a-time) of the fitted figure, at ` +
		"the ends of TPOT's or TTFT's. The factor of the whole step comes from other publications of the kind. Memory has no interval. \"Not computable\" counts batches that do not " +
		"fit. The last section lists results without any figure of ours.\n"
)

// result is a published result with our figures by line.
type result struct {
	item, unit string
	printed    reproduce.Number
	lines      map[string]*reproduce.Line
}

// results pairs the lines of a section.
func results(s *reproduce.Section) (list []result) {
	for i := range s.Lines {
		l := &s.Lines[i]
		at := strings.LastIndex(l.Item, ", ")
		item, line := l.Item[:at], l.Item[at+2:]
		if len(list) == 0 || list[len(list)-1].item != item {
			printed := l.Printed
			if math.IsNaN(float64(printed)) {
				printed = l.Reference
			}
			list = append(list, result{item, l.Unit, printed, map[string]*reproduce.Line{}})
		}
		list[len(list)-1].lines[line] = l
	}
	return list
}

func (r *result) note() string {
	one, other := r.lines[roofline].Note, r.lines[fitted].Note
	switch {
	case one == other:
		return one
	case other == "":
		return "roofline: " + one
	case one == "":
		return "fitted: " + other
	}
	return "roofline: " + one + ", fitted: " + other
}

// timed reports whether the result is a blind time, computable or not.
func (r *result) timed() bool {
	return (r.unit == "tokens/s" || r.unit == "ms") && r.lines[fitted].Kind != reproduce.Transferred
}

// errors are the |errors| of the results with a figure of ours.
type errors []float64

// of returns the |errors| of one line of results.
func of(list []result, line string) (e errors) {
	for _, r := range list {
		if v := math.Abs(float64(r.lines[line].Error)); !math.IsNaN(v) {
			e = append(e, v)
		}
	}
	slices.Sort(e)
	return e
}

// cells returns the median, the largest, and the number beyond 40 %.
func (e errors) cells() []string {
	n := len(e)
	if n == 0 {
		return []string{text.None, text.None, text.None}
	}
	far := slice.Count(e, func(v float64) bool { return v > beyond })
	return []string{text.Percent(new((e[(n-1)/2] + e[n/2]) / 2)), text.Percent(&e[n-1]), fmt.Sprint(far)}
}

// printed returns the digits that the source prints. A ratio of printed numbers has 4.
func printed(v reproduce.Number) string {
	if all := v.String(); len(all) < 10 {
		return all
	}
	return text.Rate(float64(v), 4)
}

// page is the text of the page, in Markdown or for a terminal.
type page struct {
	strings.Builder
	markdown bool
}

func render(w io.Writer, r *reproduce.Reproduced, markdown bool) error {
	p := &page{markdown: markdown}
	if markdown {
		p.WriteString(head)
	}
	p.table(summary(r))
	p.WriteString("\n" + legend)
	p.title("Sources", "sources")
	p.table(sources(r))
	for i := range r.Sections {
		s := &r.Sections[i]
		p.title(s.Title, s.Name)
		p.WriteString(s.Method + "\n\n")
		for _, a := range s.Assumptions {
			fmt.Fprintf(p, "- %s\n", a)
		}
		for _, c := range s.Constants {
			fmt.Fprintf(p, "- %s: %s (%s)\n", c.Name, c.Value, c.From)
		}
		if len(s.Assumptions) > 0 {
			p.WriteString("\n")
		}
		p.table(details(s))
	}
	if len(r.Gaps) > 0 {
		p.title("Results that are not computable", "gaps")
		p.table(gaps(r))
	}
	_, err := io.WriteString(w, p.String())
	return err
}

func (p *page) title(title, name string) {
	if p.markdown {
		fmt.Fprintf(p, "\n## %s\n\n", title)
	} else {
		fmt.Fprintf(p, "\n%s (%s)\n\n", title, name)
	}
}

func (p *page) table(t *table.Table) {
	if p.markdown {
		p.WriteString(t.RawMarkdown())
	} else {
		p.WriteString(t.Text())
	}
}

// summary is the table of the kinds of systems. A kind has its blind results alone.
func summary(p *reproduce.Reproduced) *table.Table {
	t := table.New(append([]string{"kind of system"}, columns...)...).RightFrom(1)
	var times []result
	for _, g := range groups {
		var list []result
		for _, name := range g.sections {
			list = append(list, results(sectionOf(p, name))...)
		}
		list = slices.DeleteFunc(list, func(r result) bool { return r.lines[fitted].Kind == reproduce.Transferred })
		if len(list) == 0 {
			continue // --section left it out
		}
		t.AddTexts(append([]string{g.title}, counts(list)...))
		times = append(times, slices.DeleteFunc(list, func(r result) bool { return !r.timed() })...)
	}
	t.AddTexts(append([]string{"all times"}, counts(times)...))
	return t
}

// sources is the table of the sections, in the order of their groups.
func sources(p *reproduce.Reproduced) *table.Table {
	t := table.New(append([]string{"source", "kind"}, columns...)...).RightFrom(2)
	for _, g := range groups {
		for _, name := range g.sections {
			s := sectionOf(p, name)
			if s.Title == "" {
				continue
			}
			list, kind := results(s), reproduce.NotComputable
			for _, r := range list {
				if k := r.lines[fitted].Kind; k.Judged() {
					kind = k
				}
			}
			t.AddTexts(append([]string{s.Title, string(kind)}, counts(list)...))
		}
	}
	return t
}

// columns are those of counts.
var columns = []string{"results", "roofline median", "worst", "> 40 %", "fitted median", "worst", "> 40 %",
	"within ±", "not computable"}

// counts returns the number of results, their errors, and the number of those that are not computable.
func counts(list []result) []string {
	e := of(list, fitted)
	cells := append([]string{fmt.Sprint(len(e))}, of(list, roofline).cells()...)
	return append(append(cells, e.cells()...), within(list), fmt.Sprint(len(list)-len(e)))
}

// within returns how many results lie in the interval of ours, of those with an interval.
func within(list []result) string {
	inside, all := 0, 0
	for _, r := range list {
		if l := r.lines[fitted]; l.Interval != [2]float64{} {
			all++
			if l.Inside() {
				inside++
			}
		}
	}
	if all == 0 {
		return text.None
	}
	return fmt.Sprintf("%d of %d", inside, all)
}

func sectionOf(p *reproduce.Reproduced, name string) *reproduce.Section {
	i := slices.IndexFunc(p.Sections, func(s reproduce.Section) bool { return s.Name == name })
	if i < 0 {
		return &reproduce.Section{Name: name} // --section left it out
	}
	return &p.Sections[i]
}

func details(s *reproduce.Section) *table.Table {
	t := table.New("setting", "printed", "roofline", "error", "fitted", "error", "note")
	t.Right(1, 2, 3, 4, 5)
	for _, r := range results(s) {
		cells := []string{r.item, strings.TrimSpace(printed(r.printed) + " " + r.unit)}
		for _, line := range []string{roofline, fitted} {
			l := r.lines[line]
			if math.IsNaN(float64(l.Error)) {
				cells = append(cells, text.None, text.None)
			} else {
				cells = append(cells, text.Rate(float64(l.Ours), 4), fmt.Sprintf("%+.1f %%", 100*float64(l.Error)))
			}
		}
		t.AddTexts(append(cells, r.note()))
	}
	return t
}

func gaps(p *reproduce.Reproduced) *table.Table {
	t := table.New("source", "shows", "printed", "reason")
	for _, g := range p.Gaps {
		t.AddTexts([]string{g.Place, g.Shows, strings.Join(g.Prints, ", "), g.Why})
	}
	return t
}

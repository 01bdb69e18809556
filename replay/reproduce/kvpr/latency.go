package kvpr

import (
	"fmt"
	"math"
	"strings"

	"github.com/kvreplay/kvreplay/replay/reproduce"
)

// latency is a row of Tables 3 and 4: 64 requests, row by row, weights on the GPU.
type latency struct {
	prompt, generate int
	cache            float64 // GiB
	accelerate, kvpr float64 // s
	accelerateTokens float64 // tokens/s
	kvprTokens       float64
}

// The printed rows.
var (
	opt67 = []latency{
		{128, 32, 5, 8.905, 6.651, 222.788, 298.284}, {128, 128, 8, 71.327, 45.766, 113.954, 177.598},
		{256, 32, 9, 26.825, 19.138, 73.961, 103.666}, {256, 128, 12, 88.354, 61.597, 91.993, 131.955},
		{512, 32, 17, 24.390, 20.349, 81.344, 97.501}, {512, 128, 20, 110.277, 93.932, 73.705, 86.531},
	}
	opt13 = []latency{
		{128, 32, 7.812, 11.409, 9.148, 173.891, 216.867}, {128, 128, 12.5, 73.896, 66.119, 109.993, 122.929},
		{256, 32, 14.062, 19.381, 16.654, 102.368, 119.127}, {256, 128, 18.75, 104.115, 88.492, 78.068, 91.850},
		{512, 32, 26.562, 35.066, 29.215, 56.579, 67.911}, {512, 128, 31.25, 168.155, 138.377, 48.336, 58.738},
	}
)

// requests is the batch of Tables 3 and 4.
const requests = 64

// setting is the row under a schedule.
func (l *latency) setting(model, schedule string) setting {
	return setting{machine: "a100-40", model: model, schedule: schedule, batch: requests, prompt: l.prompt, generate: l.generate, static: true}
}

const (
	accelerate = "kvpr:recompute=off" // Hugging Face Accelerate: a layer's whole cache moves, then it is computed
	rowByRow   = "kvpr:recompute=paper"
)

const latencyMethod = "Seconds of generation − 1 decode steps of 64 requests, schedule kvpr row by row with the weights on the GPU and the split of Eq. 11 (recompute=paper). The baseline is the same with recompute=off. All allocated positions (prompt + generation) move every step, as a static cache's do (Transformers' OffloadedStaticCache copies whole layers); the time of a layer besides moving and recomputing is one constant." + shippedMethod

// latencies are the lines of a table; fitted and known say of a cell that constants are
// from it, and why it misses.
func (b *bench) latencies(model string, rows []latency, r rates, baseline, ours reproduce.Gate, fitted func(l *latency, schedule string) bool, known func(*latency) string) (lines []reproduce.Line, err error) {
	faster := true
	for i := range rows {
		l := &rows[i]
		var took [2]float64
		for j, c := range []struct {
			name, schedule string
			printed        float64
			gate           reproduce.Gate
		}{{"Accelerate", accelerate, l.accelerate, baseline}, {"KVPR", rowByRow, l.kvpr, ours}} {
			item, s := fmt.Sprintf("prompt %d, generation %d, %s", l.prompt, l.generate, c.name), l.setting(model, c.schedule)
			predicted, err := b.predict(item, "s", c.printed, s, &r, s.decodes)
			if err != nil {
				return nil, err
			}
			if took[j], err = b.seconds(s, r); err != nil {
				return nil, err
			}
			kind, gate := reproduce.Transferred, c.gate
			if fitted(l, c.schedule) {
				kind, gate = reproduce.Fitted, reproduce.Gate{Relative: exactly}
			}
			line := reproduce.Compare(kind, item+withFitted, "s", reproduce.Printed(c.printed), took[j], gate)
			if why := known(l); why != "" {
				line = line.Unless(why)
			}
			lines = append(lines, predicted, line)
		}
		faster = faster && took[1] < took[0] && l.kvpr < l.accelerate
	}
	sizes, err := b.cacheSizes(model, rows)
	if err != nil {
		return nil, err
	}
	lines = append(lines, sizes...)
	return append(lines, statement("KVPR is faster in all six rows", faster), statement("latency × tokens/s ÷ 64 is generation − 1 in all twelve cells, so the first token is prefill's", countsSteps(rows)),
		reproduce.Absent("GPU peak memory, twelve cells", "GB", reproduce.Target{}, "it grows by 15 MB and more per token of the prompt. The buffers of two layers are 2 to 3 MB of that. The rest is prefill's activations, which kvreplay does not model")), nil
}

// cacheSizes are the host's bytes of a row, which the paper prints as GB.
func (b *bench) cacheSizes(model string, rows []latency) (lines []reproduce.Line, err error) {
	for i := range rows {
		l := &rows[i]
		result, err := b.price(l.setting(model, accelerate), rates{link: 1e9, flops: 1e12})
		if err != nil {
			return nil, err
		}
		lines = append(lines, reproduce.Compare(reproduce.Arithmetic, fmt.Sprintf("prompt %d, generation %d, cache size", l.prompt, l.generate), "GiB",
			reproduce.Printed(l.cache), result.Memory.Host/(1<<30), reproduce.Gate{Absolute: 0.0006}))
	}
	return lines, nil
}

// countsSteps says whether the printed latency and throughput make generation − 1 steps.
func countsSteps(rows []latency) bool {
	for i := range rows {
		l := &rows[i]
		for _, n := range []float64{l.accelerate * l.accelerateTokens / requests, l.kvpr * l.kvprTokens / requests} {
			if math.Abs(n-float64(l.generate-1)) > 0.01 {
				return false
			}
		}
	}
	return true
}

func statement(item string, holds bool) reproduce.Line {
	return reproduce.Statement(item, "", reproduce.None, holds)
}

// named are the rates with the cells that they are from.
func (r *rates) named(from string) []reproduce.Constant {
	return []reproduce.Constant{
		{Name: "link", Value: r.link / 1e9, Unit: "GB/s", From: from},
		{Name: "overhead of a layer", Value: r.overhead * 1e3, Unit: "ms", From: from},
		{Name: "recomputation", Value: r.flops / 1e12, Unit: "TFLOP/s", From: from},
	}
}

// table4: OPT-13B.
func (b *bench) table4(c *constants) (reproduce.Section, error) {
	r := c.row
	others, err := b.otherRates(r)
	if err != nil {
		return reproduce.Section{}, err
	}
	s := reproduce.Section{Name: "table-4", Covers: []string{"Table 4", "Fig. 6"}, Title: "Table 4: decode latency of OPT-13B, 64 requests", Method: latencyMethod,
		Constants: r.named("this table: Accelerate 128/32 and 512/32, KVPR 512/32"),
		Contradictions: []string{
			fmt.Sprintf("KVPR's saving has no trend: %s. By Eq. 10 recomputing spares the same share of any cache that is not mostly generated. Taken from another of the six rows the rate of recomputing is %s TFLOP/s.", savings(opt13), others),
			"Of the row-by-row schedule section 3.2 first says that activations come from the CPU before the rest of the KV, then that they are not transferred and the first term of Eq. 10 falls away. They are charged here; if they were not, the same cell would have the GPU recompute at a tenth of its datasheet's rate.",
		},
	}
	fitted := func(l *latency, schedule string) bool {
		return l.generate == 32 && (l.prompt == 512 || l.prompt == 128 && schedule == accelerate)
	}
	s.Lines, err = b.latencies("opt-13b", opt13, r, reproduce.Gate{Relative: 0.05}, reproduce.Gate{Relative: 0.10}, fitted, func(*latency) string { return "" })
	return s, err
}

// otherRates are what the rows of Table 4 say that recomputing reaches, one by one.
func (b *bench) otherRates(r rates) (string, error) {
	var found []string
	for i := range opt13 {
		l := &opt13[i]
		f, err := between(1e12, 1e15, l.kvpr, func(flops float64) (float64, error) {
			return b.seconds(l.setting("opt-13b", rowByRow), rates{r.link, flops, r.overhead})
		})
		if err != nil {
			return "", fmt.Errorf("recomputation from %d/%d: %w", l.prompt, l.generate, err)
		}
		found = append(found, fmt.Sprintf("%.0f", f/1e12))
	}
	return strings.Join(found, ", "), nil
}

// table3: OPT-6.7B, with Table 4's constants.
func (b *bench) table3(c *constants) (reproduce.Section, error) {
	r := c.row
	s := reproduce.Section{Name: "table-3", Covers: []string{"Table 3", "Fig. 6"}, Title: "Table 3: decode latency of OPT-6.7B, 64 requests", Method: latencyMethod + " The fitted constants are Table 4's.",
		Constants: r.named("Table 4")}
	none := func(*latency, string) bool { return false }
	known := func(l *latency) string {
		if l.prompt == 256 || l.prompt == 128 && l.generate == 128 {
			return "the table contradicts itself in this row, see below"
		}
		return ""
	}
	var err error
	if s.Lines, err = b.latencies("opt-6.7b", opt67, r, reproduce.Gate{Relative: 0.16}, reproduce.Gate{Relative: 0.10}, none, known); err != nil {
		return s, err
	}
	bound, err := b.mostSaved(&opt67[1], r)
	if err != nil {
		return s, err
	}
	s.Lines = append(s.Lines, shown(reproduce.Absent("saving at prompt 128, generation 128, GPU infinitely fast", "%", reproduce.Printed(35.8),
		"Eq. 10 cannot save as much: recomputing spares at most half the bytes of the prompt, a quarter of the bytes that move"), 100*bound))
	s.Contradictions = []string{
		fmt.Sprintf("Milliseconds a step, by what the cache has: Accelerate %s; KVPR %s. No model in which more bytes take longer meets them.", perStep(opt67, func(l *latency) float64 { return l.accelerate }), perStep(opt67, func(l *latency) float64 { return l.kvpr })),
		fmt.Sprintf("The headline, −%.1f %% at 128/128, exceeds what Eqs. 6 to 11 allow with any GPU: %.0f %% where the allocated cache moves, 33 %% where only the positions in use do (at their mean, 192, 128 of 384).", 100*opt67[1].saving(), 100*bound),
		fmt.Sprintf("The rows 128/128, 256/32 and 256/128 take %s what Table 4's constants give, the other three %s; they look disturbed. Savings: %s.", times(s.Lines, opt67[1:4]), times(s.Lines, append(opt67[:1:1], opt67[4:]...)), savings(opt67)),
	}
	return s, nil
}

// times says between how many times ours rows take, by system.
func times(lines []reproduce.Line, rows []latency) string {
	var texts []string
	for _, system := range []struct {
		name    string
		printed func(*latency) float64
	}{{"Accelerate", func(l *latency) float64 { return l.accelerate }}, {"KVPR", func(l *latency) float64 { return l.kvpr }}} {
		least, most := math.Inf(1), 0.
		for i := range rows {
			l := &rows[i]
			x := system.printed(l) / ours(lines, fmt.Sprintf("prompt %d, generation %d, %s%s", l.prompt, l.generate, system.name, withFitted))
			least, most = min(least, x), max(most, x)
		}
		texts = append(texts, fmt.Sprintf("%.2f to %.2f times (%s)", least, most, system.name))
	}
	return strings.Join(texts, " and ")
}

// ours finds a line's figure.
func ours(lines []reproduce.Line, item string) float64 {
	for i := range lines {
		if lines[i].Item == item {
			return lines[i].Ours
		}
	}
	return math.NaN()
}

// mostSaved is the share that KVPR saves of a row where recomputing takes no time and
// nothing but the link does.
func (b *bench) mostSaved(l *latency, r rates) (float64, error) {
	r = rates{link: r.link, flops: math.Inf(1)}
	all, err := b.seconds(l.setting("opt-6.7b", accelerate), r)
	if err != nil {
		return 0, err
	}
	least, err := b.seconds(l.setting("opt-6.7b", rowByRow), r)
	return 1 - least/all, err
}

// saving is the share of the baseline's time that KVPR saved.
func (l *latency) saving() float64 { return 1 - l.kvpr/l.accelerate }

// savings lists the rows' savings.
func savings(rows []latency) string {
	return listed(rows, func(l *latency) string { return fmt.Sprintf("%.1f %% at %d/%d", 100*l.saving(), l.prompt, l.generate) })
}

func listed(rows []latency, text func(*latency) string) string {
	var texts []string
	for i := range rows {
		texts = append(texts, text(&rows[i]))
	}
	return strings.Join(texts, ", ")
}

// perStep lists the rows' times of a step.
func perStep(rows []latency, seconds func(*latency) float64) string {
	return listed(rows, func(l *latency) string {
		return fmt.Sprintf("%.0f at %g GiB", 1e3*seconds(l)/float64(l.generate-1), l.cache)
	})
}

package kvpr

import (
	"fmt"
	"math"
	"strings"

	"github.com/kvreplay/kvreplay/internal/slice"
	"github.com/kvreplay/kvreplay/replay/pipeline"
	"github.com/kvreplay/kvreplay/replay/reproduce"
)

// table1 computes K and V of one layer for 32 requests of 1024 tokens.
func (b *bench) table1() {
	const batch, tokens, linkRate = 32, 1024, 32 << 30
	d := b.Section("table-1")
	gpu := reproduce.Must(b.Library.GPU("a100-40"))
	d.Let("bandwidth", gpu.MemoryBandwidth.Written)
	for _, row := range b.Rows("table-1") {
		m := b.Model(row.Text("model"))
		bytes := batch * tokens * int64(m.Entry.Value)
		title := reproduce.Row{"title": m.Title}
		d.Set("size", float64(bytes)/(1<<20), row, title)
		d.Set("link", onePiece(linkRate, bytes)*1e3, row, title)
		d.Set("read", onePiece(float64(gpu.MemoryBandwidth.Value), bytes)*1e3, row, title)
	}
}

// system is a column of a table.
type system struct{ name, schedule string }

// cell returns the values of a system's figure in a row. line is the system's, or calibration if a
// constant is fitted to the cell.
func (sys system) cell(row reproduce.Row) (values []reproduce.Row, line string) {
	line = sys.name
	if strings.Contains(row.Text("fits"), sys.name) {
		line = "calibration"
	}
	return []reproduce.Row{row, {"system": sys.name, "printed": row.Number(sys.name)}}, line
}

// small returns a row of Table 2: OPT-6.7B, one batch column by column, weights on the host.
func small(row reproduce.Row, schedule string) setting {
	return setting{machine: "a100-40", model: "opt-6.7b", schedule: schedule, batch: row.Int("batch"),
		prompt: 256, generate: 64}
}

func (b *bench) table2(c *constants) {
	d, r := b.Section("table-2"), c.column
	r.let(d)
	never, same := true, true
	within := func(a, b, share float64) bool { return a <= b*(1+share) && b <= a*(1+share) }
	for _, row := range b.Rows("table-2") {
		ours := map[string]float64{}
		for _, sys := range []system{{"FlexGen", flexgen}, {"KVPR without hiding", coarse}, {"KVPR with hiding", fine}} {
			cell, line := sys.cell(row)
			s := small(row, sys.schedule)
			b.predict(d, cell, s, &r, tokensPerSecond)
			ours[sys.name] = b.tokens(s, r, 0)
			d.Set(line, ours[sys.name], cell...)
		}
		with, without := row.Number("KVPR with hiding"), row.Number("KVPR without hiding")
		never = never && ours["KVPR with hiding"] >= ours["FlexGen"] && with >= row.Number("FlexGen")
		same = same && within(ours["KVPR with hiding"], ours["KVPR without hiding"], 0.05) && within(with, without, 0.05)
	}
	d.Holds("never slower", reproduce.None, never)
	d.Holds("hiding", reproduce.None, same)
}

func (r *rates) let(d *reproduce.Draft) {
	d.Let("link", r.link/1e9)
	d.Let("overhead", r.overhead*1e3)
	d.Let("recomputation", r.flops/1e12)
}

// requests is the batch of Tables 3 and 4.
const requests = 64

// latency returns a row of Tables 3 and 4: 64 requests, row by row, weights on the GPU.
func latency(model string, row reproduce.Row, schedule string) setting {
	return setting{machine: "a100-40", model: model, schedule: schedule, batch: requests,
		prompt: row.Int("prompt"), generate: row.Int("generation"), static: true}
}

var latencySystems = []system{{"Accelerate", accelerate}, {"KVPR", rowByRow}}

// latencies fills in Table 3 or 4. It returns our seconds of each row by system.
func (b *bench) latencies(table, model string, r rates) (took []map[string]float64) {
	d, rows := b.Section(table), b.Rows(table)
	r.let(d)
	faster, counts := true, true
	for _, row := range rows {
		ours := map[string]float64{}
		for _, sys := range latencySystems {
			cell, line := sys.cell(row)
			s := latency(model, row, sys.schedule)
			b.predict(d, cell, s, &r, func(r *pipeline.Result) float64 { return r.Mean * s.steps() })
			ours[sys.name] = b.seconds(s, r)
			d.Set(line, ours[sys.name], cell...)
			// The printed latency and throughput give generation − 1 steps.
			steps := row.Number(sys.name) * row.Number(sys.name+" tokens/s") / requests
			counts = counts && !(math.Abs(steps-float64(row.Int("generation")-1)) > 0.01)
		}
		faster = faster && ours["KVPR"] < ours["Accelerate"] && row.Number("KVPR") < row.Number("Accelerate")
		took = append(took, ours)
	}
	for _, row := range rows {
		result := b.price(latency(model, row, accelerate), rates{link: 1e9, flops: 1e12})
		d.Set("cache", result.Memory.Host/(1<<30), row)
	}
	d.Holds("faster", reproduce.None, faster)
	d.Holds("steps", reproduce.None, counts)
	d.Let("savings", listed(rows, func(row reproduce.Row) string {
		return fmt.Sprintf("%.1f %% at %d/%d", 100*saving(row), row.Int("prompt"), row.Int("generation"))
	}))
	return took
}

// table4 computes OPT-13B.
func (b *bench) table4(c *constants) {
	b.latencies("table-4", "opt-13b", c.row)
	b.Section("table-4").Let("others", listed(b.Rows("table-4"), func(row reproduce.Row) string {
		return fmt.Sprintf("%.0f", b.recomputation(row, c.row)/1e12)
	}))
}

// table3 computes OPT-6.7B with Table 4's constants.
func (b *bench) table3(c *constants) {
	took, rows := b.latencies("table-3", "opt-6.7b", c.row), b.Rows("table-3")
	d := b.Section("table-3")

	// With an infinitely fast GPU, recomputing takes no time and only the link does.
	fast := rates{link: c.row.link, flops: math.Inf(1)}
	least := b.seconds(latency("opt-6.7b", rows[1], rowByRow), fast)
	bound := 1 - least/b.seconds(latency("opt-6.7b", rows[1], accelerate), fast)
	d.Set("saving", 100*bound)
	d.Let("bound", 100*bound)
	d.Let("headline", 100*saving(rows[1]))

	// Rows whose miss has a reason, compared with the others: printed times divided by ours.
	for name, disturbed := range map[string]bool{"disturbed": true, "undisturbed": false} {
		var texts []string
		for _, sys := range latencySystems {
			least, most := math.Inf(1), 0.
			for i, row := range rows {
				if x := row.Number(sys.name) / took[i][sys.name]; (row.Text("miss") != "") == disturbed {
					least, most = min(least, x), max(most, x)
				}
			}
			texts = append(texts, fmt.Sprintf("%.2f to %.2f times (%s)", least, most, sys.name))
		}
		d.Let(name, strings.Join(texts, " and "))
	}
	for _, sys := range latencySystems {
		d.Let("steps of "+sys.name, listed(rows, func(row reproduce.Row) string {
			steps := row.Number("generation") - 1
			return fmt.Sprintf("%.0f at %g GiB", 1e3*row.Number(sys.name)/steps, row.Number("cache"))
		}))
	}
}

// saving returns the share of the baseline's time that KVPR saved.
func saving(row reproduce.Row) float64 { return 1 - row.Number("KVPR")/row.Number("Accelerate") }

func listed(rows []reproduce.Row, text func(reproduce.Row) string) string {
	texts := slice.Map(rows, text)
	return strings.Join(texts, ", ")
}

// inAll are the requests of Table 5: 8 batches of 32 pass a layer.
const inAll = 8 * 32

// low returns a column of Table 5: OPT-6.7B on a Quadro RTX 5000.
func low(row reproduce.Row, schedule string) setting {
	return setting{machine: "rtx5000", model: "opt-6.7b", schedule: schedule, batch: inAll,
		prompt: row.Int("prompt"), generate: row.Int("generation")}
}

// lowTokens returns tokens/s. once is the rate at which the prompts' cache moves once per run.
func (b *bench) lowTokens(row reproduce.Row, schedule string, r rates, once float64) float64 {
	m := b.Model("opt-6.7b")
	prompts := inAll * int64(row.Int("prompt")) * int64(m.Entry.Value) * int64(m.Layers.Value)
	return b.tokens(low(row, schedule), r, onePiece(once, prompts))
}

func (b *bench) table5(c *constants) {
	d, rows := b.Section("table-5"), b.Rows("table-5")
	c.low.let(d)
	d.Let("once", c.once/1e9)
	d.Let("best", 100*(rows[4].Number("KVPR")/rows[4].Number("FlexGen")-1))
	faster := true
	for _, row := range rows {
		ours, shipped := map[string]float64{}, map[string]float64{}
		for _, sys := range []system{{"FlexGen", flexgenBatches}, {"KVPR", kvprBatches}} {
			cell, line := sys.cell(row)
			shipped[sys.name] = b.predict(d, cell, low(row, sys.schedule), &c.low, tokensPerSecond)
			ours[sys.name] = b.lowTokens(row, sys.schedule, c.low, c.once)
			d.Set(line, ours[sys.name], cell...)
		}
		gain := row.Number("KVPR") / row.Number("FlexGen")
		if ratio := shipped["KVPR"] / shipped["FlexGen"]; !math.IsNaN(ratio) { // both fit
			d.Set("gain", ratio, row, reproduce.Row{"gain": gain})
		}
		faster = faster && ours["KVPR"] > ours["FlexGen"] && gain > 1
	}
	d.Holds("faster", reproduce.None, faster)
}

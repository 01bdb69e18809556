// Package ellm reproduces eLLM: its equations, memory blocks, optimiser, and the gains of its
// schedule. eLLM keeps part of each request's tokens uncached. It recomputes the KV of some layers
// while that of others comes from the host.
package ellm

import (
	_ "embed"
	"fmt"

	"github.com/kvreplay/kvreplay/replay/hardware"
	"github.com/kvreplay/kvreplay/replay/pipeline"
	"github.com/kvreplay/kvreplay/replay/pipeline/operator"
	"github.com/kvreplay/kvreplay/replay/pipeline/schedule"
	"github.com/kvreplay/kvreplay/replay/reproduce"
)

//go:embed paper.yaml
var data string

// Paper returns the reproduction of eLLM.
func Paper() reproduce.Paper {
	return reproduce.Paper{
		Name: "ellm",
		Citation: "Chen et al., High Throughput and Low Latency LLM Serving via Adaptive KV Caching, EuroSys 2026, " +
			"10.1145/3767295.3803570.",
		Data: data, Study: study,
	}
}

// The paper's experiments: Llama2-13B on one A100 with 80 GB, and ShareGPT's mean prompt and
// answer. While a request decodes, it has half of the answer on average.
const (
	prompt, answer = 222, 1346
	length         = prompt + answer/2
	slo            = 0.050 // s, Table 1
	uncached       = 0.36  // mean cached ratio 0.64, section 6.2

	a100 = 312e12 // FLOP/s in the equations
	v100 = 125e12
)

// bench is the machine and the model that all sections share.
type bench struct {
	*reproduce.Study
	machine *hardware.Machine
	model   *hardware.Model
	shape   shape
}

func study(s *reproduce.Study) {
	b := &bench{Study: s, machine: s.Machine("a100-80"), model: s.Model("llama-2-13b")}
	b.shape = shape{float64(b.model.Layers.Value), float64(b.model.Hidden.Value), float64(b.model.Vocabulary.Value)}
	s.Compute(b.equations, "equations")
	s.Compute(b.layers, "layers")
	s.Compute(b.blocks, "blocks")
	s.Compute(b.optimiser, "optimiser")
	s.Compute(b.schedule, "schedule")
	s.Compute(b.serving, "serving")
}

// decode returns a batch of requests of ShareGPT's mean length.
func (b *bench) decode(batch int) (*pipeline.Profile, pipeline.Options) {
	r := reproduce.Request{Context: length, Demand: length * int64(b.model.KVHeads.Value)}
	p, scaling := r.Profile(b.model)
	return p, pipeline.Options{Machine: b.machine, Model: b.model, Batch: batch, Threads: 16, Reserve: 0.1, Depth: 64,
		Scaling: scaling}
}

// price returns the output of kvreplay time for such a batch.
func (b *bench) price(batch int, schedule string) *pipeline.Result {
	p, o := b.decode(batch)
	return b.Price(p, schedule, "", o)
}

// chosen returns an ellm schedule with the choices that kvreplay made.
func chosen(text string) *schedule.ELLM {
	return reproduce.Must(schedule.Parse(text)).(*schedule.ELLM)
}

// equations holds Eqs. 2 to 5, as printed and corrected.
func (b *bench) equations() {
	d, m, one, ten := b.Section("equations"), b.shape, equal(1, 1000), equal(10, 1000)
	d.Set("Eq. 2, literal", m.recomputation(one, 0.5, false))
	d.Set("Eq. 3, literal", m.decoding(one, false))
	d.Set("Eq. 4, literal, A100", 1e3*m.latency(gpu{flops: a100}, one, 0.5, false))
	d.Set("Eq. 4, literal, V100", 1e3*m.latency(gpu{flops: v100}, one, 0.5, false))
	d.Set("Eq. 2, corrected", m.recomputation(one, 0.5, true))
	d.Set("Eq. 3, corrected", m.decoding(one, true))
	d.Set("Eq. 5", 1e3*m.latency(gpu{flops: a100}, ten, 0.5, false)/ten.requests)
	again, decode := b.counted()
	d.Set("Eq. 2, counted", again, reproduce.Row{"equation": m.recomputation(one, 0.5, true)})
	d.Set("Eq. 3, counted", decode, reproduce.Row{"equation": m.decoding(one, true)})

	mean := equal(1, length)
	d.Let("length", length)
	d.Let("literal", m.decoding(mean, false)/a100*1e3)
	d.Let("right", m.decoding(mean, true)/a100*1e3)
	gated := 4*m.hidden*m.hidden + float64(b.model.FFNMatrices.Value*b.model.FFN.Value)*m.hidden
	d.Let("parameters", gated/m.hidden/m.hidden)
	d.Let("more", 100*(gated/m.hidden/m.hidden/12-1))
	d.Let("uncached of L-Eval", 0.47*35956)
	d.Let("step of L-Eval", m.latency(gpu{flops: a100}, equal(1, 35956), 0.47, false))
}

// counted returns the FLOP that the roofline of kvreplay time counts. again is that of running 500
// of 1000 tokens again through 40 layers. decode is that of one token after 1000.
func (b *bench) counted() (again, decode float64) {
	m := *b.Model("opt-13b")
	m.Bias, m.Vocabulary.Value = false, b.model.Vocabulary.Value
	card, machine := *b.machine.GPU, *b.machine
	card.MemoryBandwidth.Value, card.AchievedMemoryBandwidth = 1e30, hardware.Fact[hardware.BytesPerSecond]{}
	machine.GPU = &card
	r := operator.NewRoofline(operator.Config{Machine: &machine, Model: &m})
	load := operator.Load{Requests: 1, Queries: 1, Context: 1001, Scored: 1001, Again: 500, Pairs: 500 * 500 / 2}
	o := reproduce.Must(r.Layer(0, &load))
	logits := reproduce.Must(r.Output(1))
	rate, layers := float64(card.AchievedBF16.Value), b.shape.layers
	return layers * o.Again * rate, (layers*(o.Project+o.AttendAll+o.Post) + logits) * rate
}

// layers holds Eqs. 6 to 9: swap and recomputation of layers, the six configurations, M_o,
// the threads of the fused kernel.
func (b *bench) layers() {
	const requests, link = 8, 25e9 // bytes/s, an A100 on PCIe 4.0 x16
	d, m, g, eight := b.Section("layers"), b.shape, gpu{flops: a100}, equal(requests, length)
	swap := func(l1 float64) float64 { return m.swap(eight, uncached, l1, link) }
	d.Set("Eq. 6, a layer swapped", 1e3*swap(1))
	readings := map[string]reading{"literal": asPrinted, "without the vocabulary": noVocabulary, "corrected": causal}
	for name, as := range readings {
		again := func(l2 int) float64 { return m.layersAgain(g, eight, uncached, float64(l2), as) }
		layer := schedule.Layer{Dense: schedule.Dense{Again: again(1), Uncached: schedule.Transfer{Seconds: swap(1)}}}
		for l2 := 1; l2 <= 2; l2++ {
			d.Set(fmt.Sprintf("Eq. 7, %s, l2 = %d", name, l2), again(l2)*1e3)
			for l1 := 1; l1 <= 3 && as != asPrinted; l1++ {
				line := fmt.Sprintf("idle, %s, l1 = %d swapped, l2 = %d recomputed", name, l1, l2)
				d.Set(line, layer.Idle(l1, l2)*1e3)
			}
		}
	}
	r := b.price(requests, fmt.Sprintf("ellm:uncached=%g,swap=3,recompute=2", uncached))
	d.Set("M_o", m.overhead(eight, uncached, 3, 2))
	d.Set("M_o of the ellm schedule", r.Memory.Cache-m.cached(eight, uncached))
	e := chosen(b.price(requests, fmt.Sprintf("ellm:uncached=%g,choose=idle", uncached)).Schedule)
	d.Set("layers swapped for one", float64(e.Swap)/float64(e.Recompute))

	one := equal(1, length)
	k1, literal := m.threads(one, uncached, 3, 1, 1024, asPrinted)
	own, ratio := m.threads(one, uncached, 3, 1, 1024, noVocabulary)
	_, corrected := m.threads(one, uncached, 3, 1, 1024, causal)
	d.Set("V_K1 ÷ V_K2, literal", literal)
	d.Set("V_K1 ÷ V_K2 without the vocabulary", ratio)
	d.Set("V_K1 ÷ V_K2 corrected", corrected)
	d.Set("threads of K1 of 1024, literal", float64(k1))
	d.Set("threads of K1 of 1024 without the vocabulary", float64(own))
}

// blocks holds the memory blocks: Fig. 7 and Table 2.
func (b *bench) blocks() {
	d, four := b.Section("blocks"), blocks{tokens: 4, layers: 4}
	d.Set("Fig. 7, example A", float64(four.count(2, 4, 1+1+2)))
	d.Set("Fig. 7, example B", float64(four.count(2, 4, 2+2+4)))
	d.Set("wasted", four.wasted(4, 1))
	rows := b.Rows("table-2")
	for i, row := range rows {
		line := "overhead"
		if i == 0 {
			line = "overhead, calibration"
		}
		d.Set(line, rows[0].Number("overhead")*2/row.Number("F"), row)
		d.Absent("fragmentation", row)
	}
}

// schedule holds the effect of partial caching, overlap and fusion on a step.
func (b *bench) schedule() {
	const batch = 60 // fills the GPU
	d := b.Section("schedule")
	price := func(format string, args ...any) (ms, cache float64) {
		r := b.price(batch, "ellm:"+fmt.Sprintf(format, args...))
		return 1e3 * r.Mean, r.Memory.Cache
	}
	cached, all := price("uncached=0")
	again, _ := price("uncached=%g,swap=0,recompute=1", uncached)
	overlapped, part := price("uncached=%g,choose=idle", uncached)
	fused, _ := price("uncached=%g,choose=idle,fused=yes", uncached)
	few, _ := price("uncached=0.05,choose=idle")
	d.Set("saved", 100*(1-part/all))
	d.Set("overlap", overlapped/again)
	d.Set("fused", 100*(1-fused/overlapped))
	d.Set("flat", few/cached)
	d.Holds("longer", overlapped/cached, overlapped > few && few > cached)
}

// serving holds the figures under load, and their contradictions.
func (b *bench) serving() {
	d, rows := b.Section("serving"), b.Rows("Llama2-70B")
	rate := func(row reproduce.Row) float64 { return row.Number("running") / row.Number("ms a token") }
	for _, row := range rows[1:] {
		d.Let("over "+row.Text("system"), rows[0].Number("running")/rows[0].Number("ms a token")/rate(row))
	}
	b.bound(d)
	prefill := b.shape.recomputation(equal(1, 35956), 1, true) // FLOP of L-Eval's mean prompt
	d.Let("PFLOP", prefill/1e15)
	d.Let("seconds", prefill/a100)
	d.Let("rate", a100/prefill)
	b.underLoad(d)
}

// bound bounds eLLM's gain in its printed time per token, for Llama2-13B with ShareGPT. In that time
// the link moves the KV of some tokens, and the GPU makes the KV of others if it computes nothing else.
// All other tokens are in GPU memory.
func (b *bench) bound(d *reproduce.Draft) {
	g, token := b.gpuOf(a100), b.shape.cached(equal(1, 1), 0) // token in bytes of KV
	ms := map[string]float64{}
	for _, row := range b.Rows("time per token") {
		if row.Text("of") == experiments[0].name {
			ms[row.Text("system")] = row.Number("printed")
		}
	}
	seconds, link := ms["eLLM"]/1e3, float64(b.machine.Link.Bandwidth.Value)
	fit, moved, made := (g.memory-g.weights)/token, seconds*link/token, seconds*a100/(b.shape.recomputation(equal(1, 1), 1, true))
	more := (moved + made) / fit
	d.Let("fit", fit/1e3)
	d.Let("moved", moved/1e3)
	d.Let("made", made/1e3)
	d.Let("more", 100*more)
	for _, system := range []string{"vLLM-Recompute", "vLLM-Swap", "HCache"} {
		d.Let("bound over "+system, (1+more)*ms[system]/ms["eLLM"])
		d.Let("without weights over "+system, (g.memory/(g.memory-g.weights)+more)*ms[system]/ms["eLLM"])
	}
	d.Let("admitted", slo*a100/b.shape.decoding(equal(1, length), false))
	d.Let("room", fit/length)
}

package ess

import (
	"fmt"
	"math"
	"runtime"
	"slices"

	"golang.org/x/sync/errgroup"
	"gonum.org/v1/gonum/stat"

	"github.com/kvreplay/kvreplay/internal/slice"
	"github.com/kvreplay/kvreplay/metrics/render/figure"
	"github.com/kvreplay/kvreplay/metrics/result"
	"github.com/kvreplay/kvreplay/replay"
	"github.com/kvreplay/kvreplay/replay/pipeline"
	"github.com/kvreplay/kvreplay/replay/pipeline/operator"
	"github.com/kvreplay/kvreplay/replay/reproduce"
)

// expertGPUs is Table 1's EP-Size.
const expertGPUs = 32

// The schedules of a step: that of ESS, which takes the better of both overlaps for each layer, one
// without overlap, and one without fetches.
const (
	hidden      = "layerwise"
	unhidden    = "sequential"
	allOnTheGPU = "gpu"
)

// step is a step's computation in seconds: fixed + slope × query tokens of the batch + request ×
// its requests. The last term does not grow with the positions that a step decodes per request. It
// is the selection, which reads a request's index once.
type step struct{ fixed, slope, request float64 }

// stepOf returns a step from constants in the order of its fields. Missing ones are 0.
func stepOf(x []float64) step {
	x = append(append([]float64{}, x...), 0, 0)
	return step{x[0], x[1], x[2]}
}

// options returns the options of every price, with the defaults of kvreplay time.
func (b *bench) options(context int) pipeline.Options {
	return pipeline.Options{Machine: b.machine, Model: b.model, Batch: 1, Context: int64(context), Experts: expertGPUs,
		Threads: 16, Reserve: 0.1, Depth: 64}
}

// setting is a step to price.
type setting struct {
	profile   *pipeline.Profile
	schedule  string
	batch     int
	context   int
	mtp       int
	accept    float64
	computing step
}

// price runs a schedule as kvreplay time does.
func (b *bench) price(x *setting) *pipeline.Result {
	o := b.options(x.context)
	o.Batch, o.Positions, o.Accept = x.batch, x.mtp, x.accept
	o.Scaling = reproduce.Must(pipeline.NewScaling(x.profile, b.model, "", 0))
	o.Engine = b.Engine("none") // the fitted step includes it
	o.Override = func(usual operator.Pricer) operator.Pricer {
		return b.operators(usual, x.computing, x.mtp, x.context)
	}
	return b.Price(x.profile, x.schedule, "", o)
}

// uneven returns a profile of one step with the given number of missed blocks per layer.
func (b *bench) uneven(misses func(layer int) float64, context int) *pipeline.Profile {
	k := int64(b.model.Indexer.TopK.Value)
	p := &pipeline.Profile{Heads: 1, Cell: pipeline.Cell{Policy: "lru"},
		Meta: replay.ProfileMeta{Schema: replay.ProfileSchema, Setting: result.Setting{TopK: int(k)}}}
	var steps [][]pipeline.Counts
	for i := range int32(b.model.Layers.Value) {
		n := int64(math.Round(misses(int(i))))
		p.Layers = append(p.Layers, i)
		steps = append(steps, []pipeline.Counts{{Demand: k, Fetched: n, FetchedRuns: n, Moved: n, Resident: k, Positions: 1,
			SeqLen: int64(context), Prompt: int64(context)}})
	}
	p.Requests = []pipeline.Request{{ID: "even", Steps: steps}}
	return p
}

// even returns a profile of one step in which every layer misses the same number of blocks, 0 to K.
func (b *bench) even(misses, context int) *pipeline.Profile {
	return b.uneven(func(int) float64 { return float64(misses) }, context)
}

// operators are the operators of a step of fitted time. The part of a step that grows with the query
// tokens is divided among them. The fixed part (weights, launches, waiting for other GPUs) belongs
// to the feed-forward network, so no fetch hides behind it. Lookups are part of the selection.
type operators struct {
	operator.Pricer // of lookups by the CPU
	computing       step
	share           [5]float64 // of the divided part: project, select, pre, attend, post
	layers, mtp     float64
}

// operators returns the operators of steps of mtp positions at a context.
func (b *bench) operators(usual operator.Pricer, computing step, mtp, context int) *operators {
	return &operators{usual, computing, b.division(context), float64(b.model.Layers.Value), float64(mtp)}
}

// Layer returns the times of one of the equal layers.
func (c *operators) Layer(layer int, l *operator.Load) (o operator.Times, err error) {
	if o, err = c.Pricer.Layer(layer, l); err != nil {
		return o, err
	}
	for i, v := range []*float64{&o.Project, &o.Select, &o.Pre, &o.Attend, &o.Post} {
		*v = c.share[i] * c.computing.slope * l.Queries / c.layers
	}
	o.Select += c.computing.request * l.Queries / c.mtp / c.layers
	o.Post += c.computing.fixed / c.layers
	o.LookupGPU, o.Dispatch, o.Combine = 0, 0, 0 // the fitted computation contains them
	return o, nil
}

// Output returns 0, because the step's time includes the logits.
func (c *operators) Output(float64) (float64, error) { return 0, nil }

// roofline returns the prices that divide a step among operators.
func (b *bench) roofline() *operator.Roofline {
	selection := reproduce.Must(operator.ParseSelection("auto", b.model))
	return operator.NewRoofline(operator.Config{Machine: b.machine, Model: b.model, Selection: selection, Experts: expertGPUs})
}

// division returns the operators' shares on the roofline of the machine, far from the range limited
// by weights.
func (b *bench) division(context int) (x [5]float64) {
	roofline := b.roofline()
	at := func(queries float64) (x [5]float64) {
		k, c := float64(b.model.Indexer.TopK.Value), float64(context)
		load := operator.Load{Requests: queries / 2, Queries: queries, Context: queries / 2 * c, Scored: queries * c,
			Demand: queries / 2 * k, Attended: queries * k, Bytes: queries / 2 * k * float64(b.model.Entry.Value)}
		for i := range int(b.model.Layers.Value) {
			o := reproduce.Must(roofline.Layer(i, &load))
			for j, v := range []float64{o.Project, o.Select, o.Pre, o.Attend, o.Post} {
				x[j] += v
			}
		}
		return x
	}
	const far = 1 << 14
	near, sum := at(far), 0.
	x = at(2 * far)
	for j := range x {
		x[j] -= near[j]
		sum += x[j]
	}
	for j := range x {
		x[j] /= sum
	}
	return x
}

// model prices the rows of Table 2 with one context.
type model struct {
	*bench
	context  int
	rows     []*row // rows with times of their own
	profiles map[float64]*pipeline.Profile
}

// newModel replays a synthetic trace at the printed ratios.
func (b *bench) newModel(context int) *model {
	m := &model{bench: b, context: context, profiles: map[float64]*pipeline.Profile{1: b.even(0, context)}}
	var printed []float64
	for _, r := range b.table2 {
		if r.context != context || r.accept == 3.4 {
			continue
		}
		m.rows = append(m.rows, r)
		if r.ratio != 1 && !slices.Contains(printed, r.ratio) {
			printed = append(printed, r.ratio)
		}
	}
	// The ratios of the figures are replayed together with them in one pass over the trace.
	capacities := capacitiesOf(append(slices.Clone(printed), ratios...)...)
	profiles := b.replay(b.synthetic(context), "lru:32", 1, capacities...)
	for i, r := range printed {
		m.profiles[r] = profiles[i]
	}
	return m
}

// priced prices a row's batch with a computation of the given time.
func (m *model) priced(r *row, computing step) *pipeline.Result {
	return m.pricedWith(r, computing, hidden)
}

func (m *model) pricedWith(r *row, computing step, schedule string) *pipeline.Result {
	if r.ratio == 1 {
		schedule = allOnTheGPU
	}
	return m.price(&setting{m.profiles[r.ratio], schedule, r.batch, m.context, r.mtp, r.accept, computing})
}

func (m *model) with(r *row, p *pipeline.Profile) *model {
	other := *m
	other.profiles = map[float64]*pipeline.Profile{r.ratio: p}
	return &other
}

// errors returns the relative errors of the step's time of some rows, as a function of constants.
func (m *model) errors(rows []*row) func(x []float64) []float64 {
	return func(x []float64) []float64 {
		e := make([]float64, len(rows))
		var group errgroup.Group
		group.SetLimit(runtime.GOMAXPROCS(0))
		for i, r := range rows {
			group.Go(func() error {
				return reproduce.Try(func() { e[i] = m.priced(r, stepOf(x)).Mean/r.seconds() - 1 })
			})
		}
		reproduce.Check(group.Wait())
		return e
	}
}

// start is the start of fits: 50 ms per step, 0.2 ms per query token, 0.05 ms per request.
var start = []float64{0.05, 0.0002, 0.00005}

// calibration returns the cells of each context that constants are fitted to.
func (b *bench) calibration() map[int][]*row {
	return map[int][]*row{
		short: {b.find(short, 2, 1.7, 52), b.find(short, 2, 1.7, 160), b.find(short, 4, 2.8, 96)},
		long:  {b.find(long, 2, 1.7, 13), b.find(long, 2, 1.7, 40)},
	}
}

func (b *bench) plain() []*row {
	return []*row{b.find(short, 2, 1.7, 52), b.find(short, 4, 2.8, 52)}
}

// let gives a section the constants of a context, in ms.
func let(d *reproduce.Draft, context int, x []float64) {
	for i, name := range []string{"fixed", "a query token", "a request"}[:len(x)] {
		d.Let(fmt.Sprintf("%dK, %s", context>>10, name), 1e3*x[i])
	}
}

// timed computes the sections that need the time of a step: Table 2 and Fig. 7. The table whose
// constants are not fitted to any offloading row comes first.
func (b *bench) timed() {
	at, fits := map[int]*model{}, map[int]*fitted{}
	for context, cells := range b.calibration() {
		at[context] = b.newModel(context)
		fits[context] = reproduce.Must(fit(at[context].errors(cells), start[:len(cells)]))
	}
	b.blind(at[short])
	b.table(at, fits)
	b.overlap(stepOf(fits[long].at))
}

// blind computes Table 2 with constants that are not fitted to a row with offloading.
func (b *bench) blind(m *model) {
	d := b.Section("table-2-unseen")
	f := reproduce.Must(fit(m.errors(b.plain()), start[:2]))
	computing := stepOf(f.at)
	let(d, short, f.at)
	mean := func(schedule string) float64 { // mean absolute error of the rows that offload
		var errors []float64
		for _, r := range m.rows {
			if r.ratio != 1 {
				errors = append(errors, math.Abs(gpus*m.pricedWith(r, computing, schedule).Tokens/r.throughput-1))
			}
		}
		return stat.Mean(errors, nil)
	}
	for _, r := range m.rows {
		if r.ratio != 1 {
			d.Set("cell", gpus*m.priced(r, computing).Tokens, r.Row)
		}
	}
	own, alone, free := mean(hidden), mean(unhidden), mean(allOnTheGPU)
	d.Holds("without overlap", 100*own, own < alone)
	d.Holds("without time", 100*own, own < free)
	d.Let("without overlap", 100*alone)
	d.Let("without time", 100*free)
	for _, r := range []*row{b.find(short, 2, 1.7, 160), b.find(short, 4, 2.8, 160)} {
		// kvreplay's own count contradicts the assumption of single-position misses.
		joined := m.replay(m.synthetic(m.context), "lru:32", r.mtp, capacitiesOf(r.ratio)...)[0]
		d.Set("joined", 1e3*m.with(r, joined).priced(r, computing).Mean, r.Row, reproduce.Row{"seconds": 1e3 * r.seconds()})
		d.Let(fmt.Sprintf("evenly at MTP %d", r.mtp), m.evenly(r, computing))
	}
}

// evenly returns the effect of the assumed distribution of misses over layers on a row's tokens/s,
// in percent. The layers are spaced evenly between the ends that section 3.3 prints for a ratio of
// 0.2, instead of by equal factors.
func (m *model) evenly(r *row, computing step) float64 {
	ends := m.Rows("section-3.3")[0]
	least, most := ends.Number("least"), ends.Number("most")
	last := float64(m.bench.model.Layers.Value) - 1
	factors := func(i int) float64 { return least * math.Pow(most/least, float64(i)/last) }
	evenly := func(i int) float64 { return least + (most-least)*float64(i)/last }
	tokens := func(misses func(int) float64) float64 {
		return m.with(r, m.uneven(misses, m.context)).priced(r, computing).Tokens
	}
	return 100 * (tokens(evenly)/tokens(factors) - 1)
}

// table computes Table 2 with constants of the calibration cells.
func (b *bench) table(at map[int]*model, fits map[int]*fitted) {
	d, calibration := b.Section("table-2"), b.calibration()
	ours := map[*row]float64{}
	for _, r := range b.table2 {
		same := r // row with the same step
		if r.accept == 3.4 {
			same = b.find(r.context, r.mtp, 2.8, r.batch)
		}
		line := "cell"
		if slices.Contains(calibration[r.context], same) {
			line = "calibration"
			if r != same {
				line = "same step"
			}
		}
		ours[r] = gpus * at[r.context].priced(r, stepOf(fits[r.context].at)).Tokens
		d.Set(line, ours[r], r.Row)
	}
	for _, h := range b.headlines() {
		line := "headline"
		if h.to.context == short && h.to.mtp == 2 {
			line = "headline of calibration cells"
		}
		d.Set(line, 100*(ours[h.to]/ours[h.from]-1), h.Row)
	}
	few, many := b.find(short, 4, 2.8, 128), b.find(short, 4, 2.8, 160)
	printed := reproduce.Row{"printed gain": gain(few, many)}
	d.Holds("falls", 100*(ours[many]/ours[few]-1), ours[many] < ours[few], printed)
	d.Let("longer", 100*(ours[many]/many.throughput-1))
	for _, context := range []int{short, long} {
		let(d, context, fits[context].at)
		at[context].spread(d, fits[context])
	}
	b.throughputs(d, ours)
}

// spread states the best possible agreement of such a model. One fit to all steps of a context
// minimises the largest error. Others leave out one step each and predict it. It also states the
// effect of the choice of the calibration cells.
func (m *model) spread(d *reproduce.Draft, used *fitted) {
	f := reproduce.Must(fit(m.errors(m.rows), used.at))
	k := fmt.Sprintf("%dK", m.context>>10)
	d.Set(k+", all", 100*f.floor())
	d.Set(k+", the others", 100*largest(f.leaveOneOut()))
	cells := slice.Map(m.calibration()[m.context], func(r *row) int { return slices.Index(m.rows, r) })
	if found := f.choices().compare(cells); found != nil {
		d.Extend("choices", found, reproduce.Row{"context": k})
	} else {
		d.Extend("undetermined", reproduce.Row{"context": k})
	}
}

func (b *bench) throughputs(d *reproduce.Draft, ours map[*row]float64) {
	var lines []figure.Line
	for _, x := range []struct {
		name         string
		context, mtp int
		accept       float64
	}{{"32K, MTP 2", short, 2, 1.7}, {"32K, MTP 4 (2.8)", short, 4, 2.8}, {"32K, MTP 4 (3.4)", short, 4, 3.4},
		{"128K, MTP 2", long, 2, 1.7}} {
		printed, computed := figure.Line{Name: x.name + ", printed"}, figure.Line{Name: x.name + ", ours"}
		for _, r := range b.table2 {
			if r.context == x.context && r.mtp == x.mtp && r.accept == x.accept {
				printed.Points = append(printed.Points, figure.At(float64(r.batch), r.throughput))
				computed.Points = append(computed.Points, figure.At(float64(r.batch), ours[r]))
			}
		}
		lines = append(lines, printed, computed)
	}
	d.Draw("ess-table-2", lines)
}

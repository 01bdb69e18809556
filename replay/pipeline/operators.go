package pipeline

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/kvreplay/kvreplay/internal/names"
	"github.com/kvreplay/kvreplay/replay/hardware"
)

// Load is what the operators of one layer and step work on, summed over the requests of a
// batch or of a part of it.
type Load struct {
	Requests float64
	Queries  float64 // query tokens: positions decoded
	Context  float64 // cached tokens
	Scored   float64 // cached tokens × query tokens that score them
	Demand   float64 // blocks demanded, of all heads
	Attended float64 // tokens attended × query tokens that attend to them
	Bytes    float64 // read by attention, of all heads: the demand and what is pinned
	Missed   float64 // of them
	Again    float64 // tokens that the layer is run again over
	Pairs    float64 // of them, those before each, itself included
}

// Operators are the seconds that a layer's operators take.
type Operators struct {
	Project, Select, Pre, Attend, Post float64
	LookupGPU, LookupCPU, Update       float64
	AttendAll                          float64 // attention over the whole context
	Recompute                          float64 // K and V of one position of all requests
	Again                              float64 // the layer over Load.Again tokens
}

// Computer gives the times of operators.
type Computer interface {
	// Layer is one layer of a model, from 0.
	Layer(layer int, l *Load) (Operators, error)
	// Output is the projection to the vocabulary, seconds.
	Output(queries float64) (float64, error)
	// Notes say what was assumed.
	Notes() []string
}

// What a GPU reaches of its datasheet where its file has no measurement: about what
// matrix products reach on A100, H100, H200 and B200 (0.78 to 0.87 of dense BF16), and
// copies on H100 (0.87). Assumed for all others; reports say so.
const (
	assumedMatrix = 0.8
	assumedMemory = 0.87
)

// Lookup and bookkeeping. A kernel reads and writes a few words of the position table for
// each demanded block, at a sector of device memory each; the host waits for its memory
// once for a block looked up and twice for one that enters, its threads side by side.
// No source states them: assumed.
const (
	sectorBytes   = 32
	sectors       = 3
	updateTouches = 2
	topkPasses    = 3 // over scores of 4 B
)

// Roofline times an operator as the longer of its arithmetic at the GPU's rate and its
// bytes at the memory's (Williams et al., CACM 2009), from the model's shape. Kernel
// launches are not counted. Weights are read once for all query tokens of a call; of
// routed experts, those that some token of the group chooses, evenly drawn.
type Roofline struct {
	Model     *hardware.Model
	Selection Selection
	Experts   int // GPUs that share the routed experts; each has its own batch. 0 is 1
	Threads   int // of the host, that look up. 0 is 1

	matrix, low float64 // FLOP/s: BF16, and that of the weights' precision
	memory      float64 // bytes/s
	latency     float64 // s, host memory
	notes       []string
}

// NewRoofline takes rates from the machine's files.
func NewRoofline(machine *hardware.Machine, m *hardware.Model, s Selection, experts, threads int) *Roofline {
	g := machine.GPU
	r := &Roofline{Model: m, Selection: s, Experts: max(1, experts), Threads: max(1, threads), latency: float64(machine.Host.Latency.Value)}
	r.matrix = r.rate("BF16", g.AchievedBF16.Known(), float64(g.AchievedBF16.Value), float64(g.BF16.Value), assumedMatrix)
	r.memory = r.rate("memory", g.AchievedMemoryBandwidth.Known(), float64(g.AchievedMemoryBandwidth.Value), float64(g.MemoryBandwidth.Value), assumedMemory)
	r.low = r.matrix
	if m.BytesPerParameter.Value <= 1 {
		if g.FP8.Known() {
			r.low = r.rate("FP8", g.AchievedFP8.Known(), float64(g.AchievedFP8.Value), float64(g.FP8.Value), assumedMatrix)
		} else {
			r.notes = append(r.notes, fmt.Sprintf("%s has no FP8: weights of %s are computed at its BF16 rate", g.Name, m.Name))
		}
	}
	return r
}

func (r *Roofline) rate(what string, known bool, achieved, sheet, share float64) float64 {
	if known {
		return achieved
	}
	r.notes = append(r.notes, fmt.Sprintf("%s rate assumed at %g of the datasheet", what, share))
	return share * sheet
}

// Notes say what was assumed.
func (r *Roofline) Notes() []string { return r.notes }

// at is the longer of arithmetic and memory.
func (r *Roofline) at(flop, rate, bytes float64) float64 { return max(flop/rate, bytes/r.memory) }

// weights is a product of n weights with some tokens.
func (r *Roofline) weights(n, tokens float64) float64 {
	return r.at(2*n*tokens, r.low, n*float64(r.Model.BytesPerParameter.Value))
}

// Layer prices one layer's operators.
func (r *Roofline) Layer(layer int, l *Load) (o Operators, err error) {
	m := r.Model
	first, second, out := projections(m, r.Selection.Method == "indexer")
	o.Project = r.weights(first, l.Queries)
	if second > 0 {
		o.Pre = r.weights(second, l.Queries)
	}
	o.Select = r.selecting(l)
	o.Attend = r.attention(l.Attended, l.Bytes)
	o.AttendAll = r.attention(l.Scored, l.Context*float64(m.Entry.Value))
	o.Post = r.weights(out, l.Queries) + r.feedForward(layer, l.Queries)
	o.LookupGPU = l.Demand * sectors * sectorBytes / r.memory
	threads := float64(r.Threads)
	o.LookupCPU, o.Update = l.Demand*r.latency/threads, l.Missed*updateTouches*r.latency/threads
	o.Recompute = r.at(2*keyValueWeights(m)*l.Requests, r.low, 0)
	if l.Again > 0 {
		o.Again = r.weights(first+second+out, l.Again) + r.attention(l.Pairs, l.Again*float64(m.Entry.Value)) + r.feedForward(layer, l.Again)
	}
	return o, nil
}

// selecting scores the index and finds the Top-K.
func (r *Roofline) selecting(l *Load) float64 {
	rate := r.matrix
	if r.Selection.Method == "indexer" {
		rate = r.low // its keys are FP8
	}
	scores := l.Scored * r.Selection.scores(r.Model)
	return r.at(l.Scored*r.Selection.scoreFLOP(r.Model), rate, l.Context*r.Selection.IndexBytes(r.Model)) + r.at(0, 1, scores*4*topkPasses)
}

// attention of tokens attended × queries, with bytes of entries read.
func (r *Roofline) attention(attended, bytes float64) float64 {
	m := r.Model
	wide := 2 * float64(m.HeadDim.Value) // scores and values
	if m.Latent != nil {
		wide = 2*float64(m.Latent.KVRank.Value) + float64(m.Latent.Rope.Value)
	}
	return r.at(2*attended*float64(m.QueryHeads.Value)*wide, r.matrix, bytes)
}

// feedForward is a layer's FFN. Routed experts are divided among the GPUs, whose tokens
// spread evenly over them; the traffic between GPUs is not counted.
func (r *Roofline) feedForward(layer int, queries float64) float64 {
	m := r.Model
	stored, active := m.FFNParameters(layer)
	if stored == active {
		return r.weights(stored, queries)
	}
	read := active - routed(m)*float64(m.MoE.Active.Value) + routed(m)*r.touched(queries)
	return r.at(2*active*queries, r.low, read*float64(m.BytesPerParameter.Value))
}

// touched is how many of this GPU's routed experts some token chooses.
func (r *Roofline) touched(queries float64) float64 {
	e := r.Model.MoE
	missed := math.Pow(1-float64(e.Active.Value)/float64(e.Experts.Value), queries*float64(r.Experts))
	return float64(e.Experts.Value) / float64(r.Experts) * (1 - missed)
}

// Output is the projection to the vocabulary.
func (r *Roofline) Output(queries float64) (float64, error) {
	return r.weights(float64(r.Model.Hidden.Value)*float64(r.Model.Vocabulary.Value), queries), nil
}

// LayerWeights are the bytes of a layer on one GPU.
func LayerWeights(m *hardware.Model, layer, experts int) float64 {
	stored, active := m.FFNParameters(layer)
	n := m.AttentionParameters() + stored
	if stored != active {
		n -= routed(m) * float64(m.MoE.Experts.Value) * (1 - 1/float64(max(1, experts)))
	}
	return n * float64(m.BytesPerParameter.Value)
}

// GPUWeights are the bytes of all weights on one GPU, embeddings included.
func GPUWeights(m *hardware.Model, experts int) float64 {
	sum := m.EmbeddingParameters() * float64(m.BytesPerParameter.Value)
	for i := range int(m.Layers.Value) {
		sum += LayerWeights(m, i, experts)
	}
	return sum
}

// routed are the weights of one routed expert.
func routed(m *hardware.Model) float64 {
	return float64(m.FFNMatrices.Value) * float64(m.Hidden.Value) * float64(m.MoE.FFN.Value)
}

// projections are the weights that a layer's attention multiplies with before selection,
// between selection and attention, and after. Latent attention selects with the indexer's
// query, from the factored one, so that the full queries and their absorption into the
// latent space can wait; keys are absorbed, so that none is expanded (DeepSeek-V2,
// section 2.1). Elsewhere selection needs the queries. The indexer's own projections count
// if it is used.
func projections(m *hardware.Model, indexes bool) (first, second, out float64) {
	h, q, kv, d := float64(m.Hidden.Value), float64(m.QueryHeads.Value), float64(m.KVHeads.Value), float64(m.HeadDim.Value)
	l := m.Latent
	if l == nil {
		return h * d * (q + 2*kv), 0, q * d * h
	}
	rank, rope, nope, value := float64(l.KVRank.Value), float64(l.Rope.Value), float64(l.NoPE.Value), float64(l.Value.Value)
	first, second, out = h*(rank+rope), q*nope*rank, q*value*(rank+h)
	if query := float64(l.QueryRank.Value); query > 0 {
		first += h * query
		second += query * q * (nope + rope)
	} else {
		first += h * q * (nope + rope)
	}
	if indexes {
		heads, dim := float64(m.Indexer.Heads.Value), float64(m.Indexer.HeadDim.Value)
		first += float64(l.QueryRank.Value)*heads*dim + h*(dim+heads)
	}
	return first, second, out
}

// keyValueWeights are the weights that make K and V of a position from its activations.
func keyValueWeights(m *hardware.Model) float64 {
	h := float64(m.Hidden.Value)
	if m.Latent != nil {
		return h * float64(m.Latent.KVRank.Value+m.Latent.Rope.Value)
	}
	return 2 * h * float64(m.KVHeads.Value) * float64(m.HeadDim.Value)
}

// Timetable is a Computer of measured times: each operator over a grid of query tokens of
// the batch and mean context, with linear interpolation between the points, as ESS's
// simulator has it (section 4.1). Operators that the table leaves out are another
// Computer's, and Notes name them.
type Timetable struct {
	grids       map[string]*grid
	rest        Computer
	extrapolate bool
	notes       []string
	beyond      bool // extrapolation was noted
}

// ErrBeyond says that a table has no points around what was asked for.
var ErrBeyond = errors.New("outside the table")

// grid is a function of query tokens and context, at the crossings of both.
type grid struct {
	queries, context []float64   // ascending
	seconds          [][]float64 // by query, then context
}

// operatorNames are the operators of a table, in the order of Operators.
var operatorNames = []string{"project", "select", "pre", "attend", "post", "lookup_gpu", "lookup_cpu", "update", "attend_all", "output"}

var tableHeader = []string{"operator", "query_tokens", "context_tokens", "time_us"}

// ReadTimetable reads CSV with the columns operator, query_tokens, context_tokens, time_us:
// the time of one layer's operator for that many query tokens in all, each with a context
// of that many tokens. Each operator's points must fill a grid. With extrapolate, points
// outside continue its outer pieces; otherwise they are errors.
func ReadTimetable(r io.Reader, name string, rest Computer, extrapolate bool) (*Timetable, error) {
	reader := csv.NewReader(r)
	reader.FieldsPerRecord = len(tableHeader)
	header, err := reader.Read()
	switch {
	case errors.Is(err, io.EOF):
		return nil, fmt.Errorf("%s: is empty, expected the columns %s", name, strings.Join(tableHeader, ","))
	case err != nil:
		return nil, fmt.Errorf("%s: %w; expected the columns %s", name, err, strings.Join(tableHeader, ","))
	}
	if !slices.Equal(header, tableHeader) {
		return nil, fmt.Errorf("%s:1: columns %s, expected %s", name, strings.Join(header, ","), strings.Join(tableHeader, ","))
	}
	points := map[string][]gridPoint{}
	for {
		record, err := reader.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		line, _ := reader.FieldPos(0)
		p, err := parsePoint(record)
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %w", name, line, err)
		}
		points[record[0]] = append(points[record[0]], p)
	}
	t := &Timetable{grids: map[string]*grid{}, rest: rest, extrapolate: extrapolate}
	var missing []string
	for _, op := range operatorNames {
		if len(points[op]) == 0 {
			missing = append(missing, op)
			continue
		}
		if t.grids[op], err = newGrid(points[op]); err != nil {
			return nil, fmt.Errorf("%s: %s: %w", name, op, err)
		}
	}
	if len(t.grids) == 0 {
		return nil, fmt.Errorf("%s has no rows, expected times of some of %s", name, strings.Join(operatorNames, ", "))
	}
	if len(missing) > 0 {
		t.notes = append(t.notes, fmt.Sprintf("%s has no times of %s: those are the roofline's", name, strings.Join(missing, ", ")))
	}
	return t, nil
}

// gridPoint is a row.
type gridPoint struct{ queries, context, seconds float64 }

func parsePoint(record []string) (p gridPoint, err error) {
	if !slices.Contains(operatorNames, record[0]) {
		return p, fmt.Errorf("operator %q, expected one of %s%s", record[0], strings.Join(operatorNames, ", "), names.Nearest(record[0], operatorNames))
	}
	for i, v := range []*float64{&p.queries, &p.context, &p.seconds} {
		x, err := strconv.ParseFloat(strings.TrimSpace(record[i+1]), 64)
		if err != nil || math.IsNaN(x) || math.IsInf(x, 0) || x < 0 {
			return p, fmt.Errorf("%s is %q, expected a number of at least 0", tableHeader[i+1], record[i+1])
		}
		*v = x
	}
	p.seconds *= 1e-6
	return p, nil
}

// newGrid arranges points; each crossing must be there once.
func newGrid(points []gridPoint) (*grid, error) {
	g := &grid{}
	for _, p := range points {
		g.queries = append(g.queries, p.queries)
		g.context = append(g.context, p.context)
	}
	slices.Sort(g.queries)
	slices.Sort(g.context)
	g.queries, g.context = slices.Compact(g.queries), slices.Compact(g.context)
	known := map[[2]float64]float64{}
	for _, p := range points {
		at := [2]float64{p.queries, p.context}
		if _, twice := known[at]; twice {
			return nil, fmt.Errorf("%g query tokens at context %g are there twice", p.queries, p.context)
		}
		known[at] = p.seconds
	}
	for _, q := range g.queries {
		var row []float64
		for _, c := range g.context {
			seconds, ok := known[[2]float64{q, c}]
			if !ok {
				return nil, fmt.Errorf("a hole: no time for %g query tokens at context %g; the points must fill the grid of all %d × %d values", q, c, len(g.queries), len(g.context))
			}
			row = append(row, seconds)
		}
		g.seconds = append(g.seconds, row)
	}
	return g, nil
}

// at interpolates; ok is false outside the grid. A grid of one value along an axis is the
// same everywhere along it.
func (g *grid) at(queries, context float64) (seconds float64, ok bool) {
	i, a, ok1 := between(g.queries, queries)
	j, b, ok2 := between(g.context, context)
	along := func(row []float64) float64 {
		if len(row) == 1 {
			return row[0]
		}
		return row[j] + b*(row[j+1]-row[j])
	}
	seconds = along(g.seconds[i])
	if len(g.seconds) > 1 {
		seconds += a * (along(g.seconds[i+1]) - seconds)
	}
	return seconds, ok1 && ok2
}

// between finds the piece of an axis that x lies in, and where in it.
func between(axis []float64, x float64) (i int, share float64, inside bool) {
	if len(axis) == 1 {
		return 0, 0, true
	}
	i, _ = slices.BinarySearch(axis, x)
	i = min(max(i-1, 0), len(axis)-2)
	return i, (x - axis[i]) / (axis[i+1] - axis[i]), x >= axis[0] && x <= axis[len(axis)-1]
}

// Notes say what is not the table's.
func (t *Timetable) Notes() []string { return append(slices.Clone(t.notes), t.rest.Notes()...) }

// look replaces a time by the table's where it has one.
func (t *Timetable) replace(name string, queries, context float64, v *float64) error {
	g := t.grids[name]
	if g == nil || queries == 0 {
		return nil
	}
	seconds, inside := g.at(queries, context)
	if !inside && !t.extrapolate {
		return fmt.Errorf("%s: %g query tokens at context %.0f lie %w, %g to %g at %g to %g; measure there, or extrapolate", name, queries, context, ErrBeyond,
			g.queries[0], g.queries[len(g.queries)-1], g.context[0], g.context[len(g.context)-1])
	}
	if !inside && !t.beyond {
		t.beyond = true
		t.notes = append(t.notes, fmt.Sprintf("times were extrapolated, first of %s to %g query tokens at context %.0f", name, queries, context))
	}
	*v = max(0, seconds)
	return nil
}

// Layer is the table's, the rest's where it has none.
func (t *Timetable) Layer(layer int, l *Load) (o Operators, err error) {
	if o, err = t.rest.Layer(layer, l); err != nil {
		return o, err
	}
	context := 0.
	if l.Requests > 0 {
		context = l.Context / l.Requests
	}
	for i, v := range []*float64{&o.Project, &o.Select, &o.Pre, &o.Attend, &o.Post, &o.LookupGPU, &o.LookupCPU, &o.Update, &o.AttendAll} {
		if err := t.replace(operatorNames[i], l.Queries, context, v); err != nil {
			return o, err
		}
	}
	return o, nil
}

// Output is the table's, or the rest's.
func (t *Timetable) Output(queries float64) (float64, error) {
	seconds, err := t.rest.Output(queries)
	if err != nil {
		return 0, err
	}
	if g := t.grids["output"]; g != nil {
		err = t.replace("output", queries, g.context[0], &seconds)
	}
	return seconds, err
}

package systems

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kvreplay/kvreplay/internal/names"
	"github.com/kvreplay/kvreplay/internal/slice"
	"github.com/kvreplay/kvreplay/metrics/result"
	"github.com/kvreplay/kvreplay/policies"
	"github.com/kvreplay/kvreplay/replay/hardware"
	"github.com/kvreplay/kvreplay/replay/pipeline"
	"github.com/kvreplay/kvreplay/replay/pipeline/operator"
	"github.com/kvreplay/kvreplay/replay/pipeline/schedule"
	"github.com/kvreplay/kvreplay/trace"
)

// Question holds what all compared systems share.
type Question struct {
	// Options state machine, model, context, batch, positions of a step and their yield, engine and
	// kernels. Compare sets the others.
	pipeline.Options
	Table policies.Table
	// TopK is the number of tokens that a head selects in a step. 0 is that of Model.DefaultTopK.
	TopK int
	// LayerMap is that of pipeline.NewScaling. If it is empty, profiled layers are stretched.
	LayerMap string
	// Recall, if above 0, replaces K. Each selector chooses as many entries as it needs to find this
	// share of the exact Top-K of TopK tokens.
	Recall float64
	// SLO is the longest TPOT in seconds, 0 for none.
	SLO float64
	// Turn is the number of tokens that a request generates before it is preempted, if not all
	// requests fit.
	Turn int
	// Progress, if not nil, gets the number of finished systems and their total.
	Progress func(done, total int)
}

// Kind is the attention of a system.
type Kind string

// The kinds.
const (
	Dense  Kind = "dense"  // attention over the whole context, the model as it was trained
	Sparse Kind = "sparse" // Top-K attention, every entry can come back
	Lossy  Kind = "lossy"  // entries are dropped, or lose precision
	Oracle Kind = "oracle" // the system knows the future
)

// Compare replays and prices systems on traces. It returns a row for each system, in their order.
// A system that no trace serves, or that does not fit, has a row with the reason.
func (q *Question) Compare(ctx context.Context, list []*System, traces []*trace.File) ([]*Row, error) {
	if err := q.complete(traces); err != nil {
		return nil, err
	}
	recorded := newRecordings(traces)
	var rows []*Row
	for i, s := range list {
		if q.Progress != nil {
			q.Progress(i, len(list))
		}
		c := &comparison{Question: q, system: s, row: newRow(s), recorded: recorded}
		c.row.context = q.Context
		if err := c.run(ctx, traces); err != nil {
			unable, ok := errors.AsType[*unableError](err)
			if !ok {
				return nil, fmt.Errorf("system %s: %w", s.Name, err)
			}
			c.row.refuse(unable.Error())
		}
		rows = append(rows, c.row)
	}
	if q.Progress != nil {
		q.Progress(len(list), len(list))
	}
	q.judge(rows)
	return rows, nil
}

// complete fills in the defaults of the question, and checks it. A layer map may name any layer of the
// traces. A system whose traces lack it has a verdict.
func (q *Question) complete(traces []*trace.File) error {
	if q.Context < 1 {
		return errors.New("systems need a context: state the tokens of a request")
	}
	q.LayerMap = cmp.Or(q.LayerMap, "stretch")
	var layers []int32
	for _, f := range traces {
		for _, s := range f.Streams() {
			layers = append(layers, s.Layer)
		}
	}
	slices.Sort(layers)
	if _, err := pipeline.MapLayers(slices.Compact(layers), int(q.Model.Layers.Value), q.LayerMap); err != nil {
		return err
	}
	if q.TopK == 0 {
		q.TopK = q.Model.DefaultTopK(q.Context)
	}
	if q.TopK < 1 || int64(q.TopK) > q.Context {
		return fmt.Errorf("a K of %d tokens, expected 1 to the context, %d: state another --topk or --context", q.TopK, q.Context)
	}
	if !(q.Recall >= 0 && q.Recall <= 1) {
		return fmt.Errorf("recall %g, expected a share of the exact Top-K, above 0 to 1", q.Recall)
	}
	if q.Turn < 1 {
		return fmt.Errorf("%d tokens between preemptions, expected at least 1", q.Turn)
	}
	return q.Bounds()
}

// unableError is the reason that a system has no figures.
type unableError struct{ why string }

func (e *unableError) Error() string { return e.why }

func unable(format string, args ...any) error { return &unableError{fmt.Sprintf(format, args...)} }

// comparison is one system of a question.
type comparison struct {
	*Question
	system   *System
	row      *Row
	traces   []*trace.File
	recorded recordings
	policy   string         // that is replayed
	at       string         // capacity of a system that has no choice of it
	listed   int            // entries of a list that are demanded, 0 for the trace's K
	tokens   int            // K in tokens of the model
	curves   [][]result.Row // of the streams of each trace, for plans
}

// run chooses the traces, and fills the row.
func (c *comparison) run(ctx context.Context, traces []*trace.File) (err error) {
	s := c.system
	o := c.Options
	if o.Schedule, err = schedule.Parse(s.Schedule); err != nil {
		return err
	}
	if o.Selection, err = operator.ParseSelection(s.selection(), o.Model); err != nil {
		return unable("%v", err)
	}
	if s.Select.Lists == "exact" && s.Select.Cost == "" && schedule.Selects(o.Schedule) && o.Model.Indexer == nil {
		c.approximate("exact lists at the price of bounds of 16 tokens, which find less: %s has no indexer", o.Model.Name)
	}
	if o.Entry, err = operator.ParseEntry(cmp.Or(s.Entry, "auto"), o.Model); err != nil {
		return unable("%v", err)
	}
	o.Lookup, o.Path, o.Merge = s.Lookup, s.Path, s.Merge
	if c.policy, c.at = s.Keep.Policy, ""; s.Keep.Policy == "" { // all KV is on the GPU, and the demand alone is needed
		c.policy, c.at = "lru", "1x"
	}
	spec, err := c.Table.Parse(c.policy)
	if err != nil {
		return err
	}
	c.row.Kind = kindOf(o.Schedule, o.Entry, spec)
	if c.row.Kind == Dense || s.Select.Lists == "" {
		return c.dense(ctx, o)
	}
	if err := c.serve(traces); err != nil {
		return err
	}
	c.tokens = c.TopK
	c.describeTraces()
	if c.Recall > 0 {
		if err := c.atRecall(traces); err != nil {
			return err
		}
	}
	c.scale()
	if s.Keep.Policy == "" || spec.Entry.Traits.Windowed {
		return c.fixed(ctx, o)
	}
	return c.largest(ctx, o)
}

// serve chooses the traces. If none serves the system, it tries without the warm-up of the system, and
// without its clusters, which the row then says.
func (c *comparison) serve(traces []*trace.File) (err error) {
	if c.traces, err = c.choose(traces); err == nil {
		return nil
	}
	plain := *c.system
	for _, part := range []struct {
		text    *string
		instead string
	}{{&plain.Keep.Warmup, "the usual warm-up of replay, because no trace serves %s"}, {&plain.Keep.Clusters, "entries one by one, because no trace has clusters (%s)"}} {
		if *part.text == "" {
			continue
		}
		c.approximate(part.instead, *part.text)
		*part.text, c.system = "", &plain
		if again, e := c.choose(traces); e == nil {
			c.traces = again
			return nil
		}
	}
	return err
}

// kindOf returns the kind of a system by its schedule, entry and policy.
func kindOf(s schedule.Schedule, e operator.Entry, policy policies.Spec) Kind {
	t := s.Traits()
	switch {
	case policy.Entry.Traits.Offline:
		return Oracle
	case t.Serves == schedule.DenseAttended:
		return Dense
	case t.Serves == schedule.SparseTopK && !e.Lossy():
		return Sparse
	}
	return Lossy
}

// exactSelectors choose the true Top-K, or are a model's own.
var exactSelectors = []string{"exact", "dsa", ""}

// choose returns the traces that the system replays: those with its selector, or else those of the
// exact Top-K, which the row says. If traces do not pool, it chooses those whose requests most
// selectors recorded, and then those with most streams.
func (c *comparison) choose(traces []*trace.File) ([]*trace.File, error) {
	want := c.system.Select
	match := func(f *trace.File) bool {
		m := f.Meta()
		return selector(m) == want.Lists && (want.BlockTokens == 0 || m.BlockTokens == want.BlockTokens)
	}
	for i, fits := range []func(*trace.File) bool{match, c.exact} {
		if i > 0 { // the lists may be a slip of the pen
			if known := published(c.Table); !slices.Contains(known, want.Lists) {
				return nil, fmt.Errorf("select.lists %s: no trace and no bundled system has it%s: add a trace, or choose %s",
					want.Lists, names.Nearest(want.Lists, known), strings.Join(known, ", "))
			}
		}
		var why error
		able := slice.Filter(slice.Filter(traces, fits), func(f *trace.File) bool {
			err := c.able(f)
			why = cmp.Or(err, why)
			return err == nil
		})
		switch {
		case able == nil && why != nil:
			return nil, unable("no trace serves it: %v", why)
		case able == nil:
			continue
		}
		groups := slice.Group(able, func(f **trace.File) string { return shape(*f) })
		chosen := slices.MaxFunc(groups, func(a, b []*trace.File) int {
			return cmp.Or(c.recorded.count(a)-c.recorded.count(b), streams(a)-streams(b))
		})
		others := slices.DeleteFunc(able, func(f *trace.File) bool { return slices.Contains(chosen, f) })
		slices.SortFunc(others, func(a, b *trace.File) int { return strings.Compare(a.Path(), b.Path()) })
		if len(others) > 0 {
			c.approximate("no %s: other K, blocks, layers or heads than the replayed traces", fileNames(others))
		}
		if c.recorded.count(chosen) < c.recorded.most {
			c.approximate("other requests than most systems (%s), because only their traces serve it", fileNames(chosen))
		}
		if !match(chosen[0]) && want.Lists != "exact" {
			c.approximate("lists of the exact Top-K, because no trace has those of %s", want.Lists)
		}
		return chosen, nil
	}
	return nil, unable("no trace has lists of %s or of the exact Top-K: add one", want.Lists)
}

// approximate adds a departure from the source to the row.
func (c *comparison) approximate(format string, args ...any) {
	c.row.Approximates = append(c.row.Approximates, fmt.Sprintf(format, args...))
}

// published returns the selectors of the bundled systems, sorted.
func published(table policies.Table) (lists []string) {
	lib, err := Load("", table)
	if err != nil {
		return nil
	}
	for _, s := range lib.systems {
		if s.Select.Lists != "" && !slices.Contains(lists, s.Select.Lists) {
			lists = append(lists, s.Select.Lists)
		}
	}
	slices.Sort(lists)
	return lists
}

// exact reports whether a trace has lists of the exact Top-K.
func (c *comparison) exact(f *trace.File) bool {
	return slices.Contains(exactSelectors, selector(f.Meta()))
}

// selector returns the name of a trace's selector without its options.
func selector(m *trace.Meta) string {
	name, _, _ := strings.Cut(m.Selector, ":")
	return name
}

// shape identifies traces that pool.
func shape(f *trace.File) string {
	m, layers, heads := f.Meta(), map[int32]bool{}, map[int32]bool{}
	for _, s := range f.Streams() {
		layers[s.Layer], heads[s.Head] = true, true
	}
	sink, local, _ := m.Pins()
	return fmt.Sprint(m.TopK, m.Candidates, m.BlockTokens, sink, local, layers, heads) // fmt sorts keys
}

// recordings are the selectors that recorded each set of requests. Systems compare best on the same
// requests.
type recordings struct {
	requests  map[*trace.File]string // identifies the requests of a trace
	selectors map[string]map[string]bool
	most      int // selectors of the requests that most of them recorded
}

func newRecordings(traces []*trace.File) recordings {
	r := recordings{requests: map[*trace.File]string{}, selectors: map[string]map[string]bool{}}
	for _, f := range traces {
		key := fmt.Sprint(requestsOf(f)) // fmt sorts keys
		if r.requests[f] = key; r.selectors[key] == nil {
			r.selectors[key] = map[string]bool{}
		}
		r.selectors[key][selector(f.Meta())] = true
		r.most = max(r.most, len(r.selectors[key]))
	}
	return r
}

// requestsOf returns the requests of traces.
func requestsOf(traces ...*trace.File) map[string]bool {
	ids := map[string]bool{}
	for _, f := range traces {
		for _, s := range f.Streams() {
			ids[s.Request] = true
		}
	}
	return ids
}

// count returns the number of selectors that recorded the requests of a list.
func (r *recordings) count(list []*trace.File) int {
	found := map[string]bool{}
	for _, f := range list {
		maps.Copy(found, r.selectors[r.requests[f]])
	}
	return len(found)
}

// fileNames returns the file names of traces.
func fileNames(list []*trace.File) string {
	all := slice.Map(list, func(f *trace.File) string { return filepath.Base(f.Path()) })
	return strings.Join(all, ", ")
}

func streams(list []*trace.File) (n int) {
	return slice.Sum(list, func(f *trace.File) int { return len(f.Streams()) })
}

// dense prices a schedule that attends to the whole context. If not all requests fit and the system
// preempts, the others wait.
func (c *comparison) dense(ctx context.Context, o pipeline.Options) error {
	if o.Positions == 1 {
		o.Positions = 0 // those of the profile
	}
	price := func(batch int) (*measured, error) {
		p, scaling, err := pipeline.Decoding(int(c.Context), 2, false, o.Model)
		if err != nil {
			return nil, err
		}
		o.Scaling, o.Batch = scaling, batch
		r, err := pipeline.Price(ctx, p, o)
		return &measured{Result: r, priced: priced{p, o}}, err
	}
	best, err := price(c.Batch)
	if err != nil {
		return c.refused(ctx, err)
	}
	c.row.take(best, false)
	if best.Fits() || c.system.Preempt == "" || c.system.Preempt == pipeline.Never {
		return nil
	}
	low, high := 0, c.Batch // low fits, high does not
	for high-low > 1 {
		middle := (low + high) / 2
		m, err := price(middle)
		if err != nil {
			return err
		}
		if m.Fits() {
			best, low = m, middle
		} else {
			high = middle
		}
	}
	if low == 0 {
		return nil
	}
	resume, err := pipeline.Resume(ctx, c.system.Preempt, c.Context, pageTokens, o)
	if err != nil {
		return c.refused(ctx, err)
	}
	hosted := resume.Bytes * float64(max(1, o.Machine.GPUs)) * float64(c.Batch)
	if c.system.Preempt == pipeline.BySwap { // only of the requests that wait
		hosted *= float64(c.Batch-low) / float64(c.Batch)
	}
	c.row.take(best, false)
	c.row.preempt(best.Result, c.Batch, c.Turn, resume, hosted)
	return nil
}

// pageTokens is the number of tokens of a block of paged attention (vLLM's default).
const pageTokens = 16

// refused turns an error of prices into a verdict, because the model or the machine cannot run the
// system. Cancelling stays an error.
func (c *comparison) refused(ctx context.Context, err error) error {
	if e := ctx.Err(); e != nil {
		return e
	}
	return unable("%v", err)
}

// fixed measures a system without a capacity to choose.
func (c *comparison) fixed(ctx context.Context, o pipeline.Options) error {
	all, err := c.measure(ctx, o, []string{c.at})
	if err != nil {
		return err
	}
	c.row.take(all[0], c.system.Keep.Policy != "")
	if !c.reaches(all[0]) {
		return c.short(all[0], "it has no other size")
	}
	return c.optimum(ctx, all[0])
}

// reaches reports whether a measurement has the recall of the question, or the question asks for none. A
// recall that is not known counts.
func (c *comparison) reaches(m *measured) bool {
	recall := m.recall(c.row.SelectorRecall)
	return c.Recall == 0 || recall == nil || !m.lossy || *recall >= c.Recall
}

// short says that a system that drops entries does not reach the recall of the question.
func (c *comparison) short(m *measured, remedy string) error {
	return unable("it finds %.1f %% of the exact Top-K on these traces, below %g %%: %s", 100**m.recall(c.row.SelectorRecall), 100*c.Recall, remedy)
}

// smallest returns the measurement at the least capacity with the recall of the question, among
// capacities from least to most blocks. best is that of most, and has the recall.
func (c *comparison) smallest(best *measured, least, most int, try func(...int) ([]*measured, error)) (*measured, error) {
	for low, high := least-1, most; high-low > 1; {
		points := grid(low, high)
		all, err := try(points...)
		if err != nil {
			return nil, err
		}
		for i, m := range all {
			if c.reaches(m) {
				best, high = m, points[i]
				break
			}
			low = points[i]
		}
	}
	return best, nil
}

// gridPoints is the number of capacities of one replay while the largest one is searched.
const gridPoints = 6

// largest measures the system at the largest capacity that fits, in whole blocks of a stream. The
// least capacity is the demand of a step, or the least that plans allow.
func (c *comparison) largest(ctx context.Context, o pipeline.Options) error {
	if err := c.profile(ctx); err != nil {
		return err
	}
	unit, least, most, err := c.bounds()
	if err != nil {
		return err
	}
	try := func(blocks ...int) ([]*measured, error) {
		texts := slice.Map(blocks, func(n int) string { return fmt.Sprint(n * unit) })
		return c.measure(ctx, o, texts)
	}
	ends, err := try(least, most)
	if err != nil {
		return err
	}
	best, low, high := ends[0], least, most
	if ends[1].Fits() {
		best, low = ends[1], most
	}
	for best.Fits() && high-low > 1 {
		points := grid(low, high)
		all, err := try(points...)
		if err != nil {
			return err
		}
		for i, m := range all {
			if !m.Fits() {
				high = points[i]
				break
			}
			best, low = m, points[i]
		}
	}
	if best.Fits() && c.system.Keep.Size == fastest {
		if best, err = c.fastest(best, least, low, try); err != nil {
			return err
		}
	}
	if best.Fits() && best.lossy && c.Recall > 0 {
		if !c.reaches(best) {
			c.row.take(best, true)
			return c.short(best, "no larger cache fits")
		}
		if best, err = c.smallest(best, least, low, try); err != nil {
			return err
		}
	}
	c.row.take(best, true)
	if !best.Fits() {
		return nil
	}
	return c.optimum(ctx, best)
}

// fastest returns the measurement with the shortest TPOT among capacities from least to most blocks.
// best is that of most. Each round divides the room around the best capacity so far.
func (c *comparison) fastest(best *measured, least, most int, try func(...int) ([]*measured, error)) (*measured, error) {
	low, high, at := least, most, most
	for high-low > max(1, most/64) {
		points := append([]int{least}, grid(low, high)...)
		all, err := try(points...)
		if err != nil {
			return nil, err
		}
		for i, m := range all {
			if m.Fits() && m.TPOT < best.TPOT {
				best, at = m, points[i]
			}
		}
		room := (high - low) / (gridPoints + 1)
		low, high = max(least, at-room), min(most, at+room)
	}
	return best, nil
}

// grid returns at most gridPoints numbers between low and high, evenly spaced.
func grid(low, high int) (points []int) {
	n := min(gridPoints, high-low-1)
	for i := 1; i <= n; i++ {
		points = append(points, low+i*(high-low)/(n+1))
	}
	return slices.Compact(points)
}

// bounds returns the tokens of a block, and the blocks of a step's largest demand and of the longest
// context of the traces. A plan may need more, if a block holds more tokens than its demand.
func (c *comparison) bounds() (unit, least, most int, err error) {
	m := c.traces[0].Meta()
	unit = max(1, m.BlockTokens, c.system.Keep.BlockTokens)
	for _, f := range c.traces {
		for _, s := range f.Streams() {
			most = max(most, (int(s.PromptLen)+int(s.LastStep)+1+unit-1)/unit)
		}
	}
	floor, err := c.floor()
	least = (max(c.demanded()*max(1, c.Positions), floor) + unit - 1) / unit
	return unit, min(least, most), most, err
}

// describeTraces fills in the facts that follow from the traces alone.
func (c *comparison) describeTraces() {
	c.row.Traces = slice.Map(c.traces, func(f *trace.File) string { return filepath.Base(f.Path()) })
	c.row.Requests = len(requestsOf(c.traces...))
	c.row.SelectorRecall, c.row.Mass = c.meanNote("exact.recall"), c.meanNote("exact.mass")
	c.row.Recall = c.row.SelectorRecall
}

// scale sets the K of the row, and its ratio to the tokens that are demanded in the traces.
func (c *comparison) scale() {
	c.row.K, c.row.Scale = c.tokens, float64(c.tokens)/float64(c.demanded())
}

// demanded returns the tokens that a step of the traces demands.
func (c *comparison) demanded() int {
	m := c.traces[0].Meta()
	n := m.TopK
	if c.listed > 0 {
		n = c.listed
	}
	return n * max(1, m.BlockTokens)
}

// meanNote returns the mean of a measurement of the selector at capture over the traces, nil if one
// lacks it.
func (c *comparison) meanNote(key string) *float64 {
	sum := 0.
	for _, f := range c.traces {
		var v float64
		if _, err := fmt.Sscanf(f.Meta().Notes[key], "%g", &v); err != nil || math.IsNaN(v) {
			return nil
		}
		sum += v
	}
	mean := sum / float64(len(c.traces))
	return &mean
}

// blame returns the verdict. If the GPU's memory is too small, it names the largest part.
func blame(m *pipeline.Memory) string {
	if m.GPU <= m.GPUHas {
		return m.Verdict
	}
	parts := []struct {
		name  string
		bytes float64
	}{{"weights", m.Weights}, {"index", m.Index}, {"KV", m.Cache}, {"staging", m.Staging}, {"reserve", m.Reserve}}
	worst := parts[0]
	for _, p := range parts {
		if p.bytes > worst.bytes {
			worst = p
		}
	}
	gpu, host, both := strings.Cut(m.Verdict, "; ")
	if both {
		host = "; " + host
	}
	if m.Remedy != "" {
		host += ": " + m.Remedy
	}
	return fmt.Sprintf("%s, of which %s %s%s", gpu, worst.name, hardware.Bytes(worst.bytes), host)
}

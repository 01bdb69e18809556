package card

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/kvreplay/kvreplay/internal/optional"
	"github.com/kvreplay/kvreplay/internal/slice"
	"github.com/kvreplay/kvreplay/internal/text"
	"github.com/kvreplay/kvreplay/policies/all"
	"github.com/kvreplay/kvreplay/replay"
	"github.com/kvreplay/kvreplay/trace"
	"github.com/kvreplay/kvreplay/trace/locality"
)

// corpus is all traces with their measurements.
type corpus struct {
	sources []*source // by name
	sets    []*set
	recalls []recall
}

// set is the comparable streams of a part. They have one demand in tokens, and the exact selector
// if the part has it.
type set struct {
	name    string
	part    string
	k, m    int // blocks
	block   int // tokens
	streams []*stream
}

func newCorpus(sources []*source) *corpus {
	c := &corpus{sources: sources}
	for _, s := range sources {
		if s.meta.Selector == exact || !slices.ContainsFunc(sources, func(e *source) bool { return e.part == s.part && e.meta.Selector == exact }) {
			c.assign(s)
		}
	}
	for _, x := range c.sets {
		x.name = x.part
		if slice.Count(c.sets, func(y *set) bool { return y.part == x.part }) > 1 {
			x.name = fmt.Sprintf("%s, K %d × %d", x.part, x.k, x.block)
		}
	}
	slices.SortFunc(c.sets, func(a, b *set) int { return strings.Compare(a.name, b.name) })
	return c
}

// assign puts a trace's streams into the set of comparable streams.
func (c *corpus) assign(s *source) {
	m := s.meta
	i := slices.IndexFunc(c.sets, func(x *set) bool {
		return x.part == s.part && x.k == m.TopK && x.m == m.Candidates && x.block == m.BlockTokens
	})
	if i < 0 {
		i = len(c.sets)
		c.sets = append(c.sets, &set{part: s.part, k: m.TopK, m: m.Candidates, block: m.BlockTokens})
	}
	for j := range s.streams {
		c.sets[i].streams = append(c.sets[i].streams, &s.streams[j])
	}
}

// group is a pool of streams that share a value.
type group[K any] struct {
	key   K
	facts facts
}

// groups pools streams by a key, in the order of compare.
func groups[K comparable](streams []*stream, key func(*stream) K, compare func(a, b K) int) []group[K] {
	lists := slice.Group(streams, func(s **stream) K { return key(*s) })
	slices.SortFunc(lists, func(a, b []*stream) int { return compare(key(a[0]), key(b[0])) })
	return slice.Map(lists, func(list []*stream) group[K] { return group[K]{key(list[0]), *pool(list)} })
}

func (x *set) all() *facts { return pool(x.streams) }

func pool(streams []*stream) *facts {
	var f facts
	for _, s := range streams {
		f.add(&s.facts)
	}
	return &f
}

func (x *set) tasks() []group[string] {
	return groups(x.streams, func(s *stream) string { return s.task }, strings.Compare)
}

func (x *set) layers() []group[int32] {
	return groups(x.streams, func(s *stream) int32 { return s.info.Layer }, cmp.Compare[int32])
}

func (x *set) heads() []group[int32] {
	return groups(x.streams, func(s *stream) int32 { return s.info.Head }, cmp.Compare[int32])
}

// place is a layer and head.
type place struct{ layer, head int32 }

func (x *set) places() []group[place] {
	return groups(x.streams, func(s *stream) place { return place{s.info.Layer, s.info.Head} }, func(a, b place) int {
		return cmp.Or(cmp.Compare(a.layer, b.layer), cmp.Compare(a.head, b.head))
	})
}

// deepest returns the set with the most layers, the first of several. Figures by layer and head
// show this set.
func (c *corpus) deepest() *set {
	return slices.MaxFunc(c.sets, func(a, b *set) int { return len(a.places()) - len(b.places()) })
}

// source is a measured trace.
type source struct {
	path, name string // name is path without its folder
	bytes      int64
	digest     string
	meta       *trace.Meta
	part       string // the note part, or else the file's stem
	selector   string // with its parameters, "quest:page=8", or empty if not stated
	columns    []string
	streams    []stream
}

// stream is one stream with its counts.
type stream struct {
	source *source
	info   trace.StreamInfo
	task   string
	facts  facts
}

// noteSeparator joins the values of a note that several sources state.
const noteSeparator = "; "

// noteOf returns a note with each of its values once.
func noteOf(m *trace.Meta, key string) string {
	return strings.Join(slice.Add([]string{}, strings.Split(m.Notes[key], noteSeparator)...), noteSeparator)
}

// exact is the name of the selector that the others imitate.
const exact = "exact"

func readSource(ctx context.Context, path string) (*source, error) {
	f, err := trace.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	s := &source{path: path, name: filepath.Base(path), meta: f.Meta()}
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	s.bytes = info.Size()
	if s.digest, err = f.Digest(); err != nil {
		return nil, err
	}
	stem := strings.TrimSuffix(s.name, ".parquet")
	if s.part = s.meta.Notes["part"]; s.part == "" {
		s.part = stem
	}
	s.selector = selectorName(s.meta)
	s.listColumns(f)
	if len(f.Streams()) == 0 {
		return nil, fmt.Errorf("%s: the trace has no streams, expected some", path)
	}
	for _, i := range f.Streams() {
		if err := replay.CheckContext(f.Meta(), &i); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		s.streams = append(s.streams, stream{source: s, info: i, task: taskOf(s.meta.Notes["task"], i.Request, stem)})
	}
	if err := s.measure(ctx, f); err != nil {
		return nil, err
	}
	return s, s.replay(ctx, f)
}

func (s *source) listColumns(f *trace.File) {
	for _, c := range []struct {
		has  bool
		name string
	}{{true, "indices"}, {f.HasScores(), "scores"}, {f.HasCoveredMass(), "covered mass"}, {f.HasAttentionMass(), "attention mass"}, {f.HasPromptMass(), "prompt mass"}, {f.HasPredicted(), "predictions"}} {
		if c.has {
			s.columns = append(s.columns, c.name)
		}
	}
}

// selectorName returns the selector with the parameters of the notes "selector.*".
func selectorName(m *trace.Meta) string {
	var options []string
	for key, value := range m.Notes {
		if name, ok := strings.CutPrefix(key, "selector."); ok {
			options = append(options, name+"="+value)
		}
	}
	if len(options) == 0 {
		return m.Selector
	}
	slices.Sort(options)
	return m.Selector + ":" + strings.Join(options, ",")
}

// taskOf returns the task of a request. It prefers the longest task of the note that the request's
// id begins with, after "ruler-" if the id has that. Otherwise it is the note's only task, or the
// file's stem.
func taskOf(note, request, stem string) string {
	tasks := strings.Split(note, noteSeparator)
	best := ""
	for _, t := range tasks {
		if strings.HasPrefix(strings.TrimPrefix(request, "ruler-"), t+"-") && len(t) > len(best) {
			best = t
		}
	}
	switch {
	case best != "":
		return best
	case note != "" && len(tasks) == 1:
		return note
	}
	return stem
}

func (s *source) measure(ctx context.Context, f *trace.File) error {
	columns := trace.Columns(0)
	if f.HasCoveredMass() {
		columns |= trace.ReadMasses
	}
	if f.HasPredicted() {
		columns |= trace.ReadPredicted
	}
	reader := f.NewReader(columns)
	defer reader.Close()
	analyzer := locality.New(s.meta, s.meta.TopK)
	var lists trace.Stream
	var marks marker
	for i := range s.streams {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("%s: %w", s.path, err)
		}
		if err := reader.Read(i, &lists); err != nil {
			return err
		}
		counts := &s.streams[i].facts
		counts.streams = 1
		counts.locality.Add(analyzer.Stream(&lists))
		counts.lists(&lists, s.meta, &marks)
	}
	return nil
}

// lists counts ranks that stay, covered mass and predictions of a stream.
func (f *facts) lists(s *trace.Stream, m *trace.Meta, marks *marker) {
	if m.Order == trace.OrderRank {
		f.next, f.from = make([]int64, m.Candidates), make([]int64, m.Candidates)
	}
	for i := s.Windows; i < s.Rows; i++ {
		if len(s.CoveredMass) > 0 {
			f.covered += float64(s.CoveredMass[i])
			f.massRows++
		}
		demand := demandOf(s, i, m.TopK)
		marks.set(demand, m.Blocks(s.MaxSeqLen()))
		if len(s.PredictedOffsets) > 0 && len(s.PredictedList(i)) > 0 {
			f.predictedHits += int64(slice.Count(s.PredictedList(i), marks.has))
			f.predictedOf += int64(len(demand))
		}
		if i == s.Windows || f.next == nil {
			continue
		}
		for r, x := range s.List(i - 1) {
			f.from[r]++
			if marks.has(x) {
				f.next[r]++
			}
		}
	}
}

func demandOf(s *trace.Stream, row, k int) []int32 {
	list := s.List(row)
	return list[:min(k, len(list))]
}

// marker is a set of blocks that is emptied in constant time.
type marker struct {
	round []int
	now   int
}

// set replaces the set by the given blocks, out of n blocks.
func (m *marker) set(blocks []int32, n int) {
	if len(m.round) < n {
		m.round = append(m.round, make([]int, n-len(m.round))...)
	}
	m.now++
	for _, x := range blocks {
		m.round[x] = m.now
	}
}

func (m *marker) has(x int32) bool { return m.round[x] == m.now }

// cellName is a policy at a capacity that is replayed on every trace.
type cellName struct{ policy, capacity string }

// cells are replayed on every trace that has their columns. LRU runs at capacities that keep a
// window of few steps and at ESS's Sparse Memory Ratio 0.2 (Fig. 5). KVDrive's policies run at its
// window of 2 (Table 3) with the optimum.
var cells = [...]cellName{
	{"lru", "1.25x"}, {"lru", "1.5x"}, {"lru", "2x"}, {"lru", "3x"}, {"lru", "4x"}, {"lru", "0.2ctx"},
	{"lookahead", "2x"}, {"opt", "2x"},
}

type multiple struct {
	cell int
	of   float64
}

// multiples are the cells of LRU at a multiple of K, with the multiple.
var multiples = []multiple{{0, 1.25}, {1, 1.5}, {2, 2}, {3, 3}, {4, 4}}

const (
	lru2, lru3, lruESS, look2 = 2, 3, 5, 6
)

// facts are counts of one stream or of several, pooled as sums.
type facts struct {
	streams  int64
	locality locality.Counts
	// next[r] of from[r] blocks at rank r of a step's list are in the demand of the next step.
	next, from []int64
	covered    float64 // sum of covered mass over massRows rows
	massRows   int64
	// predictedHits of predictedOf demanded blocks were predicted a layer ahead.
	predictedHits, predictedOf int64
	cells                      [len(cells)]replayed
}

// replayed has the counts of a cell.
type replayed struct{ steps, demand, misses int64 }

func (f *facts) add(o *facts) {
	f.streams += o.streams
	f.locality.Add(&o.locality)
	f.next, f.from = sum(f.next, o.next), sum(f.from, o.from)
	f.covered, f.massRows = f.covered+o.covered, f.massRows+o.massRows
	f.predictedHits, f.predictedOf = f.predictedHits+o.predictedHits, f.predictedOf+o.predictedOf
	for i := range f.cells {
		f.cells[i].steps += o.cells[i].steps
		f.cells[i].demand += o.cells[i].demand
		f.cells[i].misses += o.cells[i].misses
	}
}

func sum(a, b []int64) []int64 {
	for len(a) < len(b) {
		a = append(a, 0)
	}
	for i, n := range b {
		a[i] += n
	}
	return a
}

// The figures of facts are NaN if the traces do not determine them.

func (f *facts) overlap() float64   { return text.Ratio(f.locality.Common, f.locality.After) }
func (f *facts) predicted() float64 { return text.Ratio(f.predictedHits, f.predictedOf) }
func (f *facts) mass() float64      { return f.covered / float64(f.massRows) }
func (f *facts) hits(cell int) float64 {
	return text.Ratio(f.cells[cell].demand-f.cells[cell].misses, f.cells[cell].demand)
}

// nextTopK returns the share of a step's demand that is among the first m blocks of the list before
// it.
func (f *facts) nextTopK(m int) float64 {
	hits := slice.Sum(f.next[:min(m, len(f.next))], func(n int64) int64 { return n })
	return text.Ratio(hits, f.locality.After)
}

// stays returns the share of blocks at ranks [from, to) that the next step demands.
func (f *facts) stays(from, to int) float64 {
	var hits, total int64
	for r := max(0, from); r < min(to, len(f.next)); r++ {
		hits, total = hits+f.next[r], total+f.from[r]
	}
	return text.Ratio(hits, total)
}

// keptFor returns the share of the demand, after a stream's first step, that one of the n steps
// before demanded. A cache of the last n steps' demand hits that share.
func (f *facts) keptFor(n int) float64 {
	hits := f.locality.Common
	for gap, count := range f.locality.Gaps {
		if gap <= n {
			hits += count
		}
	}
	return text.Ratio(hits, f.locality.After)
}

// workingSet returns the mean number of distinct blocks of locality.Windows[w] steps, divided by K.
func (f *facts) workingSet(w int) float64 {
	return text.Ratio(f.locality.WorkingSet[w], f.locality.WorkingSteps[w]) / text.Ratio(f.locality.Demand, f.locality.Steps)
}

// replay replays every cell and keeps its counts with the streams. It leaves out a policy that
// needs columns that the trace lacks.
func (s *source) replay(ctx context.Context, f *trace.File) error {
	at := map[trace.Key]*facts{}
	for i := range s.streams {
		at[s.streams[i].info.Key] = &s.streams[i].facts
	}
	for _, run := range []struct{ policies, capacities string }{{"lru", "1.25x,1.5x,2x,3x,4x,0.2ctx"}, {"lookahead,opt", "2x"}} {
		o := replay.Options{Per: replay.PerStream, SkipUnable: true}
		for name := range strings.SplitSeq(run.policies, ",") {
			spec, err := all.Table().Parse(name)
			if err != nil {
				return err
			}
			o.Policies = append(o.Policies, spec)
		}
		var err error
		if o.Capacities, err = replay.ParseCapacities(strings.Split(run.capacities, ",")); err != nil {
			return fmt.Errorf("capacities of the card: %w", err)
		}
		result, err := replay.Run(ctx, f, o)
		if err != nil {
			return err
		}
		for i := range result.Rows {
			row := &result.Rows[i]
			key := trace.Key{Request: *row.RequestID, Layer: *row.LayerID, Head: optional.Or(row.Head, trace.NoHead)}
			cell := slices.Index(cells[:], cellName{row.Policy, *row.Capacity})
			at[key].cells[cell] = replayed{row.Steps, row.Demand, row.Misses}
		}
	}
	return nil
}

// recall compares a selector with the exact one on the same requests.
type recall struct {
	part, selector, name string // selector has the parameters, name has not
	block                int
	hits, of             int64 // tokens of the exact Top-K, over counted steps
	mass, resident       []float64
	facts                facts
}

func (r *recall) share() float64 { return text.Ratio(r.hits, r.of) }

// compareSelectors compares each selector's demand, as tokens, with the exact Top-K of the same
// request, step, layer and head. It does so in every part that has both.
func (c *corpus) compareSelectors(ctx context.Context) error {
	for _, s := range c.sources {
		if s.meta.Selector == "" || s.meta.Selector == exact {
			continue
		}
		for _, e := range c.sources {
			if e.part != s.part || e.meta.Selector != exact || e.meta.BlockTokens != 1 {
				continue
			}
			if err := c.compareWith(ctx, s, e); err != nil {
				return fmt.Errorf("card: compare %s with %s: %w", s.name, e.name, err)
			}
		}
	}
	slices.SortStableFunc(c.recalls, func(a, b recall) int { return cmp.Compare(b.share(), a.share()) })
	return nil
}

// compareWith compares the streams that both traces have.
func (c *corpus) compareWith(ctx context.Context, s, e *source) error {
	at := map[trace.Key]int{}
	for i := range e.streams {
		at[e.streams[i].info.Key] = i
	}
	var shared [][2]int
	for i := range s.streams {
		if j, ok := at[s.streams[i].info.Key]; ok {
			shared = append(shared, [2]int{i, j})
		}
	}
	if len(shared) == 0 {
		return nil
	}
	r := c.recallOf(s)
	a, err := trace.Open(s.path)
	if err != nil {
		return err
	}
	defer a.Close()
	b, err := trace.Open(e.path)
	if err != nil {
		return err
	}
	defer b.Close()
	chosen, wanted := a.NewReader(0), b.NewReader(0)
	defer chosen.Close()
	defer wanted.Close()
	var x, y trace.Stream
	var marks marker
	for _, pair := range shared {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := chosen.Read(pair[0], &x); err != nil {
			return err
		}
		if err := wanted.Read(pair[1], &y); err != nil {
			return err
		}
		r.compare(&x, s.meta, &y, e.meta, &marks)
		r.facts.add(&s.streams[pair[0]].facts)
	}
	r.mass, r.resident = appendNote(r.mass, s, "exact.mass"), appendNote(r.resident, s, "exact.resident")
	return nil
}

// appendNote appends a number from a note of the capture.
func appendNote(list []float64, s *source, note string) []float64 {
	for _, text := range strings.Split(s.meta.Notes[note], noteSeparator) {
		if v, err := strconv.ParseFloat(text, 64); err == nil {
			list = append(list, v)
		}
	}
	return list
}

func (c *corpus) recallOf(s *source) *recall {
	for i := range c.recalls {
		if c.recalls[i].part == s.part && c.recalls[i].selector == s.selector {
			return &c.recalls[i]
		}
	}
	c.recalls = append(c.recalls, recall{part: s.part, selector: s.selector, name: s.meta.Selector, block: s.meta.BlockTokens})
	return &c.recalls[len(c.recalls)-1]
}

// compare counts the tokens of y's demand that lie in the blocks of x's demand, step by step. It
// skips steps that one of them lacks.
func (r *recall) compare(x *trace.Stream, xm *trace.Meta, y *trace.Stream, ym *trace.Meta, marks *marker) {
	i, j := x.Windows, y.Windows
	for i < x.Rows && j < y.Rows {
		switch {
		case x.Steps[i] < y.Steps[j]:
			i++
			continue
		case x.Steps[i] > y.Steps[j]:
			j++
			continue
		}
		blocks := max(xm.Blocks(x.MaxSeqLen()), xm.Blocks(y.MaxSeqLen()))
		marks.set(demandOf(x, i, xm.TopK), blocks)
		demand := demandOf(y, j, ym.TopK)
		r.of += int64(len(demand))
		r.hits += int64(slice.Count(demand, func(token int32) bool { return marks.has(token / int32(xm.BlockTokens)) }))
		i, j = i+1, j+1
	}
}

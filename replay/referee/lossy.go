package referee

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/kvreplay/kvreplay/trace"
)

// LossyConfig is a cell of a lossy method on the streams of a request.
type LossyConfig struct {
	// Policy is streamingllm, h2o, snapkv, pyramidkv, adakv or duoattention with all of its
	// options, as in "h2o:recent=0.5,scores=ranks".
	Policy string
	// TopK is K, Candidates M.
	TopK, Candidates int
	// Capacities are C of each stream in blocks. pyramidkv, adakv and duoattention divide
	// their sum.
	Capacities []int
	// Windows are the prompt windows that the method sees.
	Windows int
	// Sink and Local are the pins in tokens, BlockTokens the tokens of a block.
	Sink, Local, BlockTokens int
	// Attention returns what each block of a row's list was given, nil where that is not
	// known; Masses says that these are shares of the step's attention, Covered that only
	// covered_mass knows what the whole list holds.
	Attention       func(s *trace.Stream, row int) []float32
	Masses, Covered bool

	method  string
	numbers map[string]float64
	words   map[string]string
}

// LossyCounts is what one counted step did. All blocks are ascending.
type LossyCounts struct {
	T, Step       int32
	Born          []int32 // left the local window
	Lost          []int32 // demanded and dropped before
	Dropped       []int32 // at the end of the step
	Held          []int32 // after it, pinned blocks not counted
	Kept, Covered float64 // attention mass of what is listed and there, and of all listed
}

// lossyCell is one stream of a lossy cell: what is held, and what the method knows.
type lossyCell struct {
	*LossyConfig
	stream *trace.Stream
	budget int
	held   map[int32]bool
	given  map[int32]float64 // h2o: attention so far
}

// RunLossy replays the stream streams[at], whose request has these streams, by layer and
// head, and returns a LossyCounts for each of its counted steps.
func RunLossy(streams []*trace.Stream, at int, c LossyConfig) (steps []LossyCounts, err error) {
	if err := c.parse(); err != nil {
		return nil, err
	}
	budget := c.Capacities[at]
	switch c.method {
	case "streamingllm", "h2o", "snapkv":
	case "pyramidkv":
		budget = c.pyramid(streams)[at]
	case "adakv":
		budget = c.ada(streams)[at]
	case "duoattention":
		budget = c.duo(streams)[at]
	default:
		return nil, fmt.Errorf("referee: unknown lossy policy %q", c.Policy)
	}
	x := &lossyCell{LossyConfig: &c, stream: streams[at], budget: budget, held: map[int32]bool{}, given: map[int32]float64{}}
	x.compress()
	for row := range x.stream.Steps {
		if x.stream.Steps[row] >= 0 {
			steps = append(steps, x.step(row))
		}
	}
	return steps, nil
}

// parse reads the policy's name and options.
func (c *LossyConfig) parse() error {
	c.numbers, c.words = map[string]float64{}, map[string]string{}
	var options string
	c.method, options, _ = strings.Cut(c.Policy, ":")
	for one := range strings.SplitSeq(options, ",") {
		key, value, ok := strings.Cut(one, "=")
		if !ok {
			return fmt.Errorf("referee: option %q of %s is not name=value", one, c.Policy)
		}
		c.words[key] = value
		if v, err := strconv.ParseFloat(value, 64); err == nil {
			c.numbers[key] = v
		}
	}
	return nil
}

// option is a number among the policy's options, word any text.
func (c *LossyConfig) option(name string) float64 { return c.numbers[name] }
func (c *LossyConfig) word(name string) string    { return c.words[name] }

// pinned reports whether a sink or the local window has a token of block b.
func (c *LossyConfig) pinned(b int32, seqLen int) bool {
	first, last := int(b)*c.BlockTokens, (int(b)+1)*c.BlockTokens-1
	return first < c.Sink || last >= seqLen-c.Local
}

// open are the blocks of a context that are whole and not pinned, ascending.
func (c *LossyConfig) open(seqLen int) (blocks []int32) {
	for b := int32(0); (int(b)+1)*c.BlockTokens <= seqLen; b++ {
		if !c.pinned(b, seqLen) {
			blocks = append(blocks, b)
		}
	}
	return blocks
}

// before is the context in front of the first counted step.
func before(s *trace.Stream) int { return s.SeqLen(windows(s)) - 1 }

// promptBlocks is the number of blocks of the prompt, the last one perhaps partly filled.
func (c *LossyConfig) promptBlocks(s *trace.Stream) int {
	return (int(s.PromptLen) + c.BlockTokens - 1) / c.BlockTokens
}

// firstOpen is the first block without a token of the sinks.
func (c *LossyConfig) firstOpen() int { return (c.Sink + c.BlockTokens - 1) / c.BlockTokens }

// compress holds the whole prompt, lets the windows be seen, and drops what exceeds the
// budget.
func (x *lossyCell) compress() {
	s := x.stream
	for row := windows(s) - x.Windows; row < windows(s); row++ {
		x.attend(row, true)
	}
	if len(s.PromptMass) > 0 {
		for b, m := range s.PromptMass {
			x.given[int32(b)] = float64(m)
		}
	}
	for _, b := range x.open(before(s)) {
		x.held[b] = true
	}
	x.drop()
}

func sortedKeys(set map[int32]bool) (keys []int32) {
	for b := range set {
		keys = append(keys, b)
	}
	slices.Sort(keys)
	return keys
}

// there reports whether a block can be attended to.
func (x *lossyCell) there(b int32, row int) bool {
	return x.held[b] || x.pinned(b, x.stream.SeqLen(row))
}

// attend adds what a row's list was given to what h2o knows; all blocks are there in a
// window. It returns the masses.
func (x *lossyCell) attend(row int, window bool) (kept, covered float64) {
	list := x.stream.List(row)
	list = list[:min(len(list), x.Candidates)]
	given := x.Attention(x.stream, row)
	rank := 0
	for i, b := range list {
		there := window || x.there(b, row)
		if x.Masses {
			covered += float64(given[i])
		}
		if !there {
			continue
		}
		if x.Masses {
			kept += float64(given[i])
		}
		rank++
		if x.method != "h2o" {
			continue
		}
		if x.word("scores") == "ranks" {
			x.given[b] += 1 / float64(rank)
		} else {
			x.given[b] += float64(given[i])
		}
	}
	return min(kept, 1), min(covered, 1)
}

// step replays a counted row.
func (x *lossyCell) step(row int) LossyCounts {
	s := x.stream
	seqLen := s.SeqLen(row)
	last := seqLen - 1
	if row > windows(s) {
		last = s.SeqLen(row - 1)
	}
	out := LossyCounts{T: int32(row - windows(s)), Step: s.Steps[row]}
	was := setOf(x.open(last))
	for _, b := range x.open(seqLen) {
		if !was[b] {
			out.Born = append(out.Born, b)
			x.held[b] = true
		}
	}
	list := s.List(row)
	for _, b := range list[:min(len(list), x.TopK)] {
		if !x.pinned(b, seqLen) && !x.held[b] {
			out.Lost = append(out.Lost, b)
		}
	}
	slices.Sort(out.Lost)
	out.Kept, out.Covered = x.attend(row, false)
	if c := x.LossyConfig; c.Covered && !c.Masses {
		out.Covered = float64(s.CoveredMass[row])
	}
	out.Dropped = x.drop()
	out.Held = sortedKeys(x.held)
	return out
}

// drop takes out what exceeds the budget: the least by rank, the lowest index among equals.
func (x *lossyCell) drop() []int32 {
	order := sortedKeys(x.held)
	rank := map[int32][2]float64{}
	for newer := range order {
		b := order[len(order)-1-newer]
		rank[b] = x.rank(b, newer)
	}
	slices.SortStableFunc(order, func(a, b int32) int {
		p, q := rank[a], rank[b]
		return slices.Compare(p[:], q[:])
	})
	dropped := order[:max(0, len(order)-x.budget)]
	for _, b := range dropped {
		delete(x.held, b)
	}
	slices.Sort(dropped)
	return dropped
}

// rank is the order in which a block goes that has so many newer ones held: first its
// class, then its score in it.
func (x *lossyCell) rank(b int32, newer int) [2]float64 {
	switch x.method {
	case "streamingllm":
		return x.streaming(b, int(x.option("sink")))
	case "duoattention":
		sink, recent := int(x.option("sink")), int(x.option("recent"))
		return x.streaming(b, min(sink, x.budget*sink/(sink+recent)))
	case "h2o":
		if newer < int(x.option("recent")*float64(x.budget)) {
			return [2]float64{1, 0} // recent
		}
		return [2]float64{0, x.given[b]}
	}
	if int(b) < x.promptBlocks(x.stream)-int(x.option("window")) {
		return [2]float64{0, x.pooled(x.stream, b)}
	}
	return [2]float64{1, 0}
}

// streaming keeps the first blocks, all but one block of the budget at most.
func (x *lossyCell) streaming(b int32, sink int) [2]float64 {
	if int(b) < min(sink, x.firstOpen()+x.budget-1) {
		return [2]float64{1, 0}
	}
	return [2]float64{0, 0}
}

// pooled is a block's score in SnapKV.
func (c *LossyConfig) pooled(s *trace.Stream, b int32) float64 {
	half, front := int32(c.option("kernel"))/2, int32(c.promptBlocks(s)-int(c.option("window")))
	most, sum := 0.0, 0.0
	for j := b - half; j <= b+half; j++ {
		if j >= 0 && j < front {
			most = max(most, float64(s.PromptMass[j]))
			sum += float64(s.PromptMass[j])
		}
	}
	if c.word("pooling") == "max" {
		return most
	}
	return float64(float32(sum / c.option("kernel")))
}

// observed is how many blocks of the observation window are not pinned at the prompt's end.
func (c *LossyConfig) observed(s *trace.Stream) (n int) {
	for _, b := range c.open(before(s)) {
		if int(b) >= c.promptBlocks(s)-int(c.option("window")) {
			n++
		}
	}
	return n
}

// most is how many blocks a stream can hold at most.
func (c *LossyConfig) most(s *trace.Stream) int { return len(c.open(s.MaxSeqLen())) }

func (c *LossyConfig) total() (sum int) {
	for _, n := range c.Capacities {
		sum += n
	}
	return sum
}

// pyramid is PyramidKV's division: the observation window for each; then what is left by
// the law, again and again while rounding and full streams leave something; the last blocks
// go to the first that have room.
func (c *LossyConfig) pyramid(streams []*trace.Stream) []int {
	beta, n := c.option("beta"), len(streams)
	depth := map[int32]int{}
	for _, s := range streams {
		if _, known := depth[s.Layer]; !known {
			depth[s.Layer] = len(depth)
		}
	}
	window := 1
	for _, s := range streams {
		window = max(window, c.observed(s))
	}
	window = min(window, c.total()/n)
	budgets, left := make([]int, n), c.total()
	for i, s := range streams {
		budgets[i] = max(1, min(window, c.most(s)))
		left -= budgets[i]
	}
	weight := func(i int) float64 { // B=1: from 2−1/β in the first layer to 1/β in the last
		m := float64(len(depth))
		return max(1, (2*beta-1)*(m-1)-2*(beta-1)*float64(depth[streams[i].Layer]))
	}
	for left > 0 {
		sum := 0.0
		for i, s := range streams {
			if budgets[i] < c.most(s) {
				sum += weight(i)
			}
		}
		given := 0
		for i, s := range streams {
			if room := c.most(s) - budgets[i]; room > 0 {
				part := min(room, int(math.Floor(float64(left)*weight(i)/sum)))
				budgets[i] += part
				given += part
			}
		}
		if left -= given; given == 0 {
			break
		}
	}
	return c.topUp(budgets, streams, left)
}

// topUp gives one block each to the first streams that have room, again and again.
func (c *LossyConfig) topUp(budgets []int, streams []*trace.Stream, left int) []int {
	for gave := true; gave && left > 0; {
		gave = false
		for i, s := range streams {
			if left > 0 && budgets[i] < c.most(s) {
				budgets[i]++
				left--
				gave = true
			}
		}
	}
	return budgets
}

// ada is AdaKV's division, layer by layer.
func (c *LossyConfig) ada(streams []*trace.Stream) []int {
	var budgets []int
	for from := 0; from < len(streams); {
		to := from
		for to < len(streams) && streams[to].Layer == streams[from].Layer {
			to++
		}
		layer := *c
		layer.Capacities = c.Capacities[from:to]
		budgets = append(budgets, layer.adaLayer(streams[from:to])...)
		from = to
	}
	return budgets
}

func (c *LossyConfig) adaLayer(heads []*trace.Stream) []int {
	type scored struct {
		score float64
		head  int
	}
	var all []scored
	window := 0
	for h, s := range heads {
		window = max(window, c.observed(s))
		for _, b := range c.open(before(s)) {
			if int(b) < c.promptBlocks(s)-int(c.option("window")) {
				all = append(all, scored{c.pooled(s, b), h})
			}
		}
	}
	slices.SortStableFunc(all, func(a, b scored) int {
		switch {
		case a.score > b.score:
			return -1
		case a.score < b.score:
			return 1
		}
		return a.head - b.head
	})
	window = max(1, min(window, c.total()/len(heads)))
	rest := c.total() - window*len(heads)
	own := make([]int, len(heads))
	for _, one := range all[:min(rest, len(all))] {
		own[one.head]++
	}
	budgets, left := make([]int, len(heads)), c.total()
	alpha := math.Round(c.option("alpha") * 1e6)
	for h, s := range heads {
		share := math.Floor(((1e6-alpha)*float64(own[h]) + alpha*float64(rest/len(heads))) / 1e6)
		budgets[h] = max(1, min(c.most(s), window+int(share)))
		left -= budgets[h]
	}
	return c.topUp(budgets, heads, left)
}

// duo is DuoAttention's division.
func (c *LossyConfig) duo(streams []*trace.Stream) []int {
	far := make([]float64, len(streams))
	order := make([]int, len(streams))
	budgets, left := make([]int, len(streams)), c.total()
	for i, s := range streams {
		far[i], order[i] = c.far(s), i
		budgets[i] = max(1, min(c.most(s), int(c.option("stream")*float64(c.Capacities[i]))))
		left -= budgets[i]
	}
	slices.SortStableFunc(order, func(a, b int) int {
		switch {
		case far[a] > far[b]:
			return -1
		case far[a] < far[b]:
			return 1
		}
		return 0
	})
	for _, i := range order[:int(c.option("full")*float64(len(streams)))] {
		more := max(0, c.most(streams[i])-budgets[i])
		if more > left {
			break
		}
		budgets[i] += more
		left -= more
	}
	for left > 0 { // the same to each head that is not whole
		open := 0
		for i, s := range streams {
			if budgets[i] < c.most(s) {
				open++
			}
		}
		if open == 0 || left < open {
			break
		}
		each, given := left/open, 0
		for i, s := range streams {
			if room := c.most(s) - budgets[i]; room > 0 {
				part := min(room, each)
				budgets[i] += part
				given += part
			}
		}
		left -= given
	}
	return c.topUp(budgets, streams, left)
}

// far is the share of what the windows demand of a stream, of the prompt's mass where there
// is no window, that a streaming head would not have.
func (c *LossyConfig) far(s *trace.Stream) float64 {
	outside := func(b int32, seqLen int) bool {
		local := max(0, seqLen-c.Local) / c.BlockTokens
		return int(b) >= int(c.option("sink")) && local-int(b) > int(c.option("recent"))
	}
	all, beyond := 0.0, 0.0
	for row := windows(s) - c.Windows; row < windows(s); row++ {
		list := s.List(row)
		for _, b := range list[:min(len(list), c.TopK)] {
			if c.pinned(b, s.SeqLen(row)) {
				continue
			}
			all++
			if outside(b, s.SeqLen(row)) {
				beyond++
			}
		}
	}
	if c.Windows > 0 {
		return float64(float32(beyond) / float32(max(1, all)))
	}
	for _, b := range c.open(before(s)) {
		if int(b) < len(s.PromptMass) {
			all += float64(s.PromptMass[b])
			if outside(b, before(s)) {
				beyond += float64(s.PromptMass[b])
			}
		}
	}
	if all == 0 {
		return 0
	}
	return float64(float32(beyond / all))
}

package schedule

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/kvreplay/kvreplay/policies"
)

// ELLM keeps the last tokens of every request on the GPU. The KV of the first share, Uncached, is
// not kept there between steps. Layers form groups of Recompute + Swap layers. The first layers of
// a group are run again over the uncached tokens. The others get their KV from host memory.
// Meanwhile the previous group decodes (eLLM, sections 2.3 and 4.3). Let R_g and D_g be the times
// to run group g again and to decode it, and u_j the transfer of layer j:
//
//	q_j = max(q_{j−1}, e of group g−2) + u_j
//	group g: e += R_{g+1}; for each layer j of g: e = max(e + pre_j, q_j) + rest_j
//
// R_0 comes before the first group. If Fused, group g+1 is run again within the kernels that decode
// group g. Then e += max(0, R_{g+1} − D_g) comes afterwards, as if the two never needed the same
// resource (an upper bound of section 4.3.2).
//
// As in the paper, a layer can be run again after a swapped one. The paper does not state where its
// input comes from. Generated tokens are written back at no cost.
type ELLM struct {
	Uncached  float64 // share of each request's tokens, from its first, or NaN for the smallest share that fits the GPU
	Swap      int     // layers of a group whose KV moves, or −1 to choose it with Recompute
	Recompute int     // layers of a group that are run again
	ByIdle    bool    // choose groups by Layer.Idle instead of the step's time
	Fused     bool
}

func parseELLM(options string) (Schedule, error) {
	e := &ELLM{Uncached: math.NaN(), Swap: -1, Recompute: -1}
	items := slices.DeleteFunc(strings.Split(options, ","), func(item string) bool { return item == "uncached=auto" || item == "" })
	swap, recompute, choose, fused := "auto", "auto", "time", "no"
	share := -1.
	_, err := policies.ParseOptions(strings.Join(items, ","), policies.Float("uncached", &share, 0, 1),
		policies.Word("swap", &swap, "auto", "0", "1", "2", "3"), policies.Word("recompute", &recompute, "auto", "0", "1", "2"),
		policies.Word("choose", &choose, "time", "idle"), policies.Word("fused", &fused, "no", "yes"))
	if err != nil {
		return nil, err
	}
	if share >= 0 {
		e.Uncached = share
	}
	if (swap == "auto") != (recompute == "auto") || swap == "0" && recompute == "0" {
		return nil, fmt.Errorf("swap=%s,recompute=%s: expected both auto, or two numbers with at least one above 0", swap, recompute)
	}
	if swap != "auto" && choose != "time" {
		return nil, fmt.Errorf("choose=%s needs swap=auto,recompute=auto", choose)
	}
	if swap != "auto" {
		e.Swap, e.Recompute = int(swap[0]-'0'), int(recompute[0]-'0')
	}
	e.ByIdle, e.Fused = choose == "idle", fused == "yes"
	return e, nil
}

// Name returns the text form.
func (e *ELLM) Name() string {
	uncached, group, fused := "auto", "swap=auto,recompute=auto,choose=time", "no"
	if !math.IsNaN(e.Uncached) {
		uncached = strconv.FormatFloat(e.Uncached, 'g', -1, 64)
	}
	switch {
	case e.Swap >= 0:
		group = fmt.Sprintf("swap=%d,recompute=%d", e.Swap, e.Recompute)
	case e.ByIdle:
		group = "swap=auto,recompute=auto,choose=idle"
	}
	if e.Fused {
		fused = "yes"
	}
	return fmt.Sprintf("ellm:uncached=%s,%s,fused=%s", uncached, group, fused)
}

// Parts returns 1.
func (e *ELLM) Parts() int { return 1 }

// Traits states that a share of the KV moves.
func (*ELLM) Traits() Traits { return Traits{Serves: DenseAttended, Moves: MovesUncached} }

// Cached returns the share of all KV on the GPU: the cached tokens, and the uncached tokens of the
// decoding group and the next one (M_o = 8·h·b·s·r·(l1 + l2) of section 4.3.2).
func (e *ELLM) Cached(layers float64) float64 {
	return 1 - e.Uncached + e.Uncached*min(1, 2*float64(e.Swap+e.Recompute)/layers)
}

// Hosted returns the share of all KV in host memory: the uncached tokens of swapped layers.
func (e *ELLM) Hosted() float64 {
	return e.Uncached * float64(e.Swap) / float64(e.Swap+e.Recompute)
}

// Swapped reports whether a layer's KV moves. Otherwise the layer is run again.
func (e *ELLM) Swapped(layer int) bool { return layer%(e.Swap+e.Recompute) >= e.Recompute }

func (e *ELLM) groups(layers []Layer) (groups [][]Layer) {
	for n := e.Swap + e.Recompute; len(layers) > 0; layers = layers[min(n, len(layers)):] {
		groups = append(groups, layers[:min(n, len(layers))])
	}
	return groups
}

// Place adds a step.
func (e *ELLM) Place(t *Timeline, s *Step) {
	e = e.settled(s)
	groups, first := e.groups(s.Whole), 0
	end, freed := None, [2]Op{None, None} // of the group before the last, and of the last
	last, arrived := e.prepare(t, groups, 0, 0, None, None)
	for g := range groups {
		next := first + len(groups[g])
		var coming []Op
		if !e.Fused {
			last, coming = e.prepare(t, groups, g+1, next, last, freed[1])
		}
		for j := range groups[g] {
			last = t.attendDensely(&groups[g][j], first+j, last, arrived[j])
		}
		end = last
		if e.Fused {
			last, coming = e.prepare(t, groups, g+1, next, last, freed[1])
		}
		freed, arrived, first = [2]Op{freed[1], end}, coming, next
	}
	t.Add(Output, len(s.Whole), 0, s.Output, last)
}

// prepare makes the uncached KV of group g, whose layers begin at first. It runs on the SMs after
// last, and on the link once its buffers are free. arrived holds the operation that each layer
// waits for.
func (e *ELLM) prepare(t *Timeline, groups [][]Layer, g, first int, last, freed Op) (_ Op, arrived []Op) {
	if g == len(groups) {
		return last, nil
	}
	again := e.again(groups, g)
	for j := range groups[g] {
		d := &groups[g][j].Dense
		if e.Swapped(j) {
			arrived = append(arrived, t.load(FetchLayer, d, first+j, 0, d.Uncached.Seconds, freed))
			continue
		}
		seconds := min(d.Again, again) // the part that decoding cannot hide
		again -= seconds
		last = t.Add(Recompute, first+j, 0, seconds, last)
		arrived = append(arrived, last)
	}
	return last, arrived
}

// again returns the time to run group g again by itself, in seconds.
func (e *ELLM) again(groups [][]Layer, g int) (seconds float64) {
	for j := range groups[g] {
		if !e.Swapped(j) {
			seconds += groups[g][j].Dense.Again
		}
	}
	if e.Fused && g > 0 {
		for j := range groups[g-1] {
			l := &groups[g-1][j]
			seconds -= l.Project + l.Pre + l.Dense.Attend + l.Post
		}
	}
	return max(0, seconds)
}

// Closed returns the recurrence above.
func (e *ELLM) Closed(s *Step) float64 {
	e = e.settled(s)
	groups := e.groups(s.Whole)
	var arrived [2][]float64 // of the layers of a group and of the next one
	link := 0.
	swap := func(g int, freed float64) {
		layers := arrived[g%2][:0]
		for j := range groups[g] {
			at := 0.
			if e.Swapped(j) {
				link = max(link, freed) + groups[g][j].Dense.Uncached.Seconds
				at = link
			}
			layers = append(layers, at)
		}
		arrived[g%2] = layers
	}
	swap(0, 0)
	end, before := e.again(groups, 0), 0. // before is the end of the previous group
	for g := range groups {
		if g+1 < len(groups) {
			swap(g+1, before)
			if !e.Fused {
				end += e.again(groups, g+1)
			}
		}
		for j := range groups[g] {
			l := &groups[g][j]
			end = max(end+l.Project+l.Pre, arrived[g%2][j]) + l.Dense.Attend + l.Finishing()
		}
		before = end
		if e.Fused && g+1 < len(groups) {
			end += e.again(groups, g+1)
		}
	}
	return end + s.Output
}

// Largest numbers of layers in the groups that eLLM chooses among (section 4.3.1).
const (
	MostSwapped    = 3
	MostRecomputed = 2
)

// settled returns the schedule with groups chosen for a step, if they are open.
func (e *ELLM) settled(s *Step) *ELLM {
	if e.Swap >= 0 {
		return e
	}
	best, least := *e, math.Inf(1)
	if e.ByIdle {
		best.Swap, best.Recompute = LeastIdle(&s.Whole[0])
		return &best
	}
	for swap, recompute := range Configurations {
		c := *e
		c.Swap, c.Recompute = swap, recompute
		if seconds := c.Closed(s); seconds < least {
			best, least = c, seconds
		}
	}
	return &best
}

// AtLeast returns the closed form. Fetch kernels take SM time in addition.
func (e *ELLM) AtLeast(s *Step) float64 { return e.Closed(s) }

// Idle returns the seconds that either the link or the SMs wait for the other in a group. The group
// has swap layers that move and recompute layers that are run again, each like l. eLLM chooses
// among its six configurations by it (section 4.3.1). It ignores that the link also moves while
// layers decode, and it compares groups of different sizes. So the group with the least idle time
// need not be the fastest.
func (l *Layer) Idle(swap, recompute int) float64 {
	return math.Abs(float64(swap)*l.Dense.Uncached.Seconds - float64(recompute)*l.Dense.Again)
}

// Configurations yields the six groups, smaller ones first.
func Configurations(yield func(swap, recompute int) bool) {
	for recompute := 1; recompute <= MostRecomputed; recompute++ {
		for swap := 1; swap <= MostSwapped; swap++ {
			if !yield(swap, recompute) {
				return
			}
		}
	}
}

// LeastIdle returns the configuration with the least idle time. Among equals it takes the smaller.
func LeastIdle(l *Layer) (swap, recompute int) {
	least := math.Inf(1)
	for s, r := range Configurations {
		if idle := l.Idle(s, r); idle < least {
			swap, recompute, least = s, r, idle
		}
	}
	return swap, recompute
}

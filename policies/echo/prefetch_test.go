package echo_test

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/kvreplay/kvreplay/internal/fatal"
	"github.com/kvreplay/kvreplay/metrics/result"
	"github.com/kvreplay/kvreplay/policies"
	"github.com/kvreplay/kvreplay/policies/echo"
	"github.com/kvreplay/kvreplay/policies/policytest"
	"github.com/kvreplay/kvreplay/replay"
	"github.com/kvreplay/kvreplay/replay/hardware"
	"github.com/kvreplay/kvreplay/replay/kernel"
	"github.com/kvreplay/kvreplay/replay/pipeline"
	"github.com/kvreplay/kvreplay/replay/pipeline/schedule"
	"github.com/kvreplay/kvreplay/replay/transfer"
)

var _ policies.Predictor = (*echo.Predictor)(nil)

// next returns the blocks outside the demand that have credit, the highest score first.
func (r *reference) next() (blocks []int32) {
	for _, n := range r.noted {
		blocks = append(blocks, n.block)
	}
	slices.SortFunc(blocks, func(a, b int32) int { return cmp.Or(cmp.Compare(r.score(b), r.score(a)), cmp.Compare(a, b)) })
	return blocks
}

// The predictor names the blocks of the reference, in its order. Demands of the streams recur, some
// steps demand nothing, and some traces have no ranks.
func TestPredictorAgreesWithReference(t *testing.T) {
	var p echo.Predictor
	named, seeds := 0, uint64(20)
	if testing.Short() {
		seeds = 4 // one without ranks, three with them
	}
	for seed := range seeds {
		r := rand.New(rand.NewPCG(seed, 28))
		blocks, ranks := 64+r.IntN(300), seed%4 > 0
		want := &reference{calibrate: true}
		want.Reset(policies.Scope{Blocks: blocks})
		p.Reset(blocks)
		var past [][]int32
		for at := range 90 {
			seen := min(blocks, blocks/2+at)
			list := make([]int32, 0, seen)
			for _, x := range r.Perm(seen) {
				list = append(list, int32(x))
			}
			k, m := r.IntN(12), 0
			if ranks {
				m = r.IntN(12)
			}
			if len(past) > 0 && r.IntN(3) > 0 { // a demand of before, with some other blocks
				again := past[r.IntN(len(past))]
				list = slices.Concat(again, slices.DeleteFunc(list, func(x int32) bool { return slices.Contains(again, x) }))
			}
			list = list[:k+m]
			s := policytest.Step{T: int32(at), TopK: k, List: list, Demand: slices.Sorted(slices.Values(list[:k]))}
			if s.Misses = s.Demand; r.IntN(2) == 0 {
				s.Births = []int32{int32(seen - 1)}
			}
			past = append(past, slices.Clone(list[:k]))
			want.Step(&s)
			p.Step(s.Births, s.Demand, list[k:])
			got, expected := p.Next(nil), want.next()
			if !slices.Equal(got, expected) {
				t.Fatalf("seed %d, step %d: names %v, expected %v", seed, at, got, expected)
			}
			named += len(got)
		}
	}
	if named < 2500*int(seeds) {
		t.Errorf("%d blocks named, expected more", named)
	}
}

// ahead is a prefetcher at one size or none, and the capacity with which it fills 2 × K.
type ahead struct{ prefetch, capacity string }

// steps returns the sizes of a prefetcher. A buffer takes its memory from the cache, and swaps need
// none.
func steps(source string) []ahead {
	name, swap, _ := strings.Cut(source, ",")
	list := []ahead{{"", "2x"}}
	if source == "" {
		return list
	}
	for _, a := range []ahead{{"0.0625x", "1.9375x"}, {"0.125x", "1.875x"}, {"0.25x", "1.75x"}, {"0.5x", "1.5x"}} {
		if a.prefetch = name + ":" + a.prefetch; swap != "" {
			a.prefetch, a.capacity = a.prefetch+",swap", "2x"
		}
		list = append(list, a)
	}
	return list
}

// total returns the sum of the rows of a part's requests.
func (c *counter) total(p *part, spec policies.Spec, a ahead) (sum result.Row) {
	c.t.Helper()
	capacities, err := replay.ParseCapacities([]string{a.capacity})
	if err != nil {
		c.t.Fatal(err)
	}
	o := replay.Options{Policies: []policies.Spec{spec}, Capacities: capacities, Per: replay.PerRequest}
	if o.Prefetch, err = replay.ParsePrefetch(a.prefetch); err != nil {
		c.t.Fatal(err)
	}
	for _, path := range c.files(p.files) {
		key := fmt.Sprint(path, spec.Name(), a)
		if c.rows[key] == nil {
			c.rows[key] = c.run(path, o)
		}
		for _, row := range c.rows[key] {
			if !p.keep(*row.RequestID) {
				continue
			}
			if sum.Steps == 0 {
				sum.Setting = row.Setting
			}
			sum.Steps, sum.Demand, sum.Misses, sum.MovedEntries = sum.Steps+row.Steps, sum.Demand+row.Demand, sum.Misses+row.Misses, sum.MovedEntries+row.MovedEntries
			sum.Prefetched, sum.PrefetchUseful = sum.Prefetched+row.Prefetched, sum.PrefetchUseful+row.PrefetchUseful
			sum.ResidentPeak = max(sum.ResidentPeak, row.ResidentPeak)
			sum.PinnedPeakEntries = max(sum.PinnedPeakEntries, row.PinnedPeakEntries)
		}
	}
	return sum
}

// prefetchers are policies with a source of prefetches, or none. Only some traces have predictions.
var prefetchers = []struct {
	policy, source string
}{
	{"lru", "predicted"}, {"lru", "candidates"}, {"lru", "echo"}, {"lookahead", "candidates,swap"}, {"lookahead", "echo,swap"},
	{"echo", ""}, {"echo", "predicted"}, {"echo", "candidates"}, {"echo", "echo"},
}

// budgets are numbers of moved entries, in misses of LRU without prefetches.
var budgets = []float64{1, 1.25, 1.5, 2}

// prefetches returns the table of misses at equal bytes. The last columns are those of one size.
func (c *counter) prefetches() string {
	var b strings.Builder
	b.WriteString("| traces | policy | prefetch | at 1 | at 1.25 | at 1.5 | at 2 | moved | misses | useful |\n|---|---|---|" + strings.Repeat("---:|", len(budgets)+3) + "\n")
	for _, p := range []part{parts[0], parts[1], parts[4], parts[7]} {
		base := float64(c.total(&p, named(c.t, "lru"), ahead{"", "2x"}).Misses)
		title := p.name
		for _, f := range prefetchers {
			if f.source == "predicted" && p.name != "ahead" {
				continue
			}
			var points []result.Row
			for _, a := range steps(f.source) {
				points = append(points, c.total(&p, named(c.t, f.policy), a))
			}
			fmt.Fprintf(&b, "| %s | %s | %s |", title, f.policy, cmp.Or(f.source, "none"))
			title = ""
			for _, budget := range budgets {
				fmt.Fprintf(&b, " %.3f |", least(points, budget*base)/base)
			}
			at, useful := &points[min(3, len(points)-1)], ""
			if at.Prefetched > 0 {
				useful = fmt.Sprintf(" %.0f %%", 100*float64(at.PrefetchUseful)/float64(at.Prefetched))
			}
			fmt.Fprintf(&b, " %.2f | %.3f |%s |\n", float64(at.MovedEntries)/base, float64(at.Misses)/base, useful)
		}
	}
	return b.String()
}

// least returns the fewest misses with at most the given number of moved entries. Besides the sizes of a
// prefetcher, it considers two of them in a row, each on a part of the streams.
func least(points []result.Row, moved float64) float64 {
	best := math.Inf(1)
	for i := range points {
		to := &points[i]
		if float64(to.MovedEntries) <= moved {
			best = min(best, float64(to.Misses))
		} else if i > 0 {
			from := &points[i-1]
			if share := (moved - float64(from.MovedEntries)) / float64(to.MovedEntries-from.MovedEntries); share >= 0 && share <= 1 {
				best = min(best, float64(from.Misses)+share*float64(to.Misses-from.Misses))
			}
		}
	}
	return best
}

// h100 returns the machine on which times are modelled, and its library.
func (c *counter) h100() (*hardware.Library, *hardware.Machine) {
	c.t.Helper()
	lib, err := hardware.Load("")
	fatal.If(c.t, err)
	machine, err := lib.Machine("h100")
	fatal.If(c.t, err)
	return lib, machine
}

// prefetchTimes returns the table of modelled times of a step with 1 and 64 requests on an H100, each
// fetch by its fastest path.
func (c *counter) prefetchTimes() string {
	c.t.Helper()
	lib, machine := c.h100()
	schedule, err := schedule.Parse("sequential")
	if err != nil {
		c.t.Fatal(err)
	}
	pricer := pipeline.RowPricer{Selection: "auto", Options: pipeline.Options{Machine: machine, Schedule: schedule, Kernels: kernel.Fitted(lib)},
		Find: func(name string) *hardware.Model {
			m, err := lib.Model(name)
			if err != nil {
				c.t.Fatal(err)
			}
			return m
		}}
	step := func(batch int, row result.Row, misses, prefetched int64) float64 {
		pricer.Batch = batch
		row.Misses, row.Prefetched, row.MovedEntries = misses, prefetched, misses+prefetched
		priced, err := pricer.Price(c.t.Context(), &row)
		if err != nil {
			c.t.Fatal(err)
		}
		return priced.TPOT * 1e3
	}
	var b strings.Builder
	b.WriteString("| traces | policy | prefetch | 1: none hidden | 1: all hidden | 64: none hidden | 64: all hidden |\n|---|---|---|---:|---:|---:|---:|\n")
	for _, p := range []part{parts[1], parts[4]} {
		title := p.name
		for _, policy := range []string{"lru", "echo"} {
			for _, a := range []ahead{{"", "2x"}, {"candidates:0.25x", "1.75x"}, {"echo:0.25x", "1.75x"}} {
				row := c.total(&p, named(c.t, policy), a)
				source, _, _ := strings.Cut(a.prefetch, ":")
				fmt.Fprintf(&b, "| %s | %s | %s |", title, policy, cmp.Or(source, "none"))
				for _, batch := range []int{1, 64} {
					all, demand, computed := step(batch, row, row.Misses, row.Prefetched), step(batch, row, row.Misses, 0), step(batch, row, 0, 0)
					fmt.Fprintf(&b, " %.2f | %.2f |", all, max(demand, all-computed))
				}
				title = ""
				b.WriteByte('\n')
			}
		}
	}
	return b.String()
}

// server returns a paragraph on the fetch time that echo saves on an H100. It assumes that demands of
// 2048 entries have the miss rates of the wide traces.
func (c *counter) server() string {
	c.t.Helper()
	_, machine := c.h100()
	link := transfer.NewLink(machine.Link)
	rows := map[string]*result.Row{"lru": {}, "echo": {}}
	for policy, sum := range rows {
		for _, p := range parts[:2] { // the wide traces
			row := c.total(&p, named(c.t, policy), ahead{"", "2x"})
			sum.Misses, sum.Demand = sum.Misses+row.Misses, sum.Demand+row.Demand
		}
	}
	share := func(policy string) float64 { return float64(rows[policy].Misses) / float64(rows[policy].Demand) }
	fetched := func(policy string) int64 { return int64(math.Round(2048 * share(policy))) }
	took := func(policy string, m transfer.Mechanism) float64 {
		path, err := link.Path(transfer.HostToDevice, m)
		fatal.If(c.t, err)
		n := fetched(policy)
		return 1e6 * path.Time(transfer.Request{Descriptors: n, Bytes: 656 * n, Launches: 1})
	}
	return fmt.Sprintf("\nOn the wide traces at 2x, LRU misses %.1f %% of the demand, and echo %.1f %%. At K = 2048, these are %d and %d entries of a step and layer. "+
		"In the link model of an H100, a kernel fetches them (656 B each) in %.1f and %.1f µs. Copies in batches take %.0f and %.0f µs.\n",
		100*share("lru"), 100*share("echo"), fetched("lru"), fetched("echo"),
		took("lru", transfer.Kernel), took("echo", transfer.Kernel), took("lru", transfer.Batch), took("echo", transfer.Batch))
}

package allocate

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/kvreplay/kvreplay/internal/fatal"
	"github.com/kvreplay/kvreplay/metrics/result"
)

// rowOf returns a row of a stream with K = 4, a capacity in entries and misses.
func rowOf(request string, layer, head int32, capacity, misses int64) result.Row {
	text, bytes, moved := fmt.Sprintf("%gx", float64(capacity)/4), 10, misses*10
	r := result.Row{
		Setting: result.Setting{Trace: "t.parquet", TraceDigest: "sha256:t", TopK: 4, Candidates: 4, Warmup: "lru:2", Local: 1, BlockTokens: 1, EntryBytes: &bytes, StepTokens: 1, SharedHeads: 1, Engine: "1"},
		Schema:  result.RowSchema, Policy: "lru", Capacity: &text, CapacityEntries: &capacity, RequestID: &request, LayerID: &layer, Streams: 1, Steps: 5, Demand: 100, Hits: 100 - misses, Misses: misses, MovedEntries: misses, HostToDeviceBytes: &moved,
	}
	if head >= 0 {
		r.Head = &head
	}
	return r
}

// windowRow returns a row of window:n, whose residents sum to sum over 5 steps.
func windowRow(request string, layer int32, n int, misses, sum, peak int64) result.Row {
	r := rowOf(request, layer, -1, 4, misses)
	r.Policy, r.Options, r.Capacity, r.CapacityEntries = fmt.Sprintf("window:%d", n), fmt.Sprint(n), nil, nil
	r.ResidentMean, r.ResidentPeak = float64(sum)/5, peak
	return r
}

// twoRequests returns two requests of two layers at 4, 6 and 8 entries.
func twoRequests() (rows []result.Row) {
	for i, request := range []string{"a", "b"} {
		for layer := range int32(2) {
			for j, capacity := range []int64{4, 6, 8} {
				rows = append(rows, rowOf(request, layer, -1, capacity, int64(90-20*j*(i+1)-int(layer))))
			}
		}
	}
	return rows
}

// pool collects and pools all rows.
func pool(t *testing.T, rows []result.Row, policy string) *Profile {
	t.Helper()
	c, err := Collect(rows, policy)
	fatal.If(t, err)
	p, err := c.Pool(c.Requests(), MeanResidents)
	fatal.If(t, err)
	return p
}

// Counts are summed over requests, and memory is per request: layer 0 misses 90 + 90 at 4 entries,
// 70 + 50 at 6, 50 + 10 at 8.
func TestPool(t *testing.T) {
	p := pool(t, twoRequests(), "")
	want := []Curve{
		{Key{0, shared}, []Point{{4, 4, 180, 1800}, {6, 6, 120, 1200}, {8, 8, 60, 600}}},
		{Key{1, shared}, []Point{{4, 4, 178, 1780}, {6, 6, 118, 1180}, {8, 8, 58, 580}}},
	}
	if fmt.Sprint(p.Curves) != fmt.Sprint(want) || p.Family != Capacities || p.Steps != 10 || len(p.Requests) != 2 {
		t.Errorf("%+v, want %v", p, want)
	}
	if p.kEntries != 4 {
		t.Errorf("1x is %d entries, want 4", p.kEntries)
	}
}

// The profile has each warning of the rows once, in order. It omits the overflow of the smallest
// size, because the floor is above it.
func TestPoolKeepsWarnings(t *testing.T) {
	rows := twoRequests()
	for i := range rows {
		rows[i].Warnings = [][]string{{"overflow: by 3 blocks", "sink 4 replayed"}, {"cold start", "sink 4 replayed"}}[i/6]
	}
	if got, want := pool(t, rows, "").Warnings, []string{"cold start", "sink 4 replayed"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// The order of rows and repeated rows do not change the result.
func TestOrderOfRowsDoesNotMatter(t *testing.T) {
	rows := twoRequests()
	want := fmt.Sprint(pool(t, rows, "lru").Curves)
	r := rand.New(rand.NewPCG(3, 3))
	for range 20 {
		rows = append(rows, rows[r.IntN(len(rows))])
		r.Shuffle(len(rows), func(i, j int) { rows[i], rows[j] = rows[j], rows[i] })
		if got := fmt.Sprint(pool(t, rows, "lru").Curves); got != want {
			t.Fatalf("%s, want %s", got, want)
		}
	}
}

// A window costs its mean residents over the steps of all requests, rounded up to an entry: 31 in
// 10 steps are 4. Its peak is the largest of any request. Residents are blocks, here of 2 entries.
func TestWindowCosts(t *testing.T) {
	rows := []result.Row{windowRow("a", 0, 0, 90, 0, 0), windowRow("a", 0, 1, 50, 20, 7), windowRow("b", 0, 0, 90, 0, 0), windowRow("b", 0, 1, 50, 11, 9)}
	c, err := Collect(append(rows, rowOf("a", 0, -1, 4, 9)), "window")
	fatal.If(t, err)
	for cost, want := range map[CostOf]int64{MeanResidents: 4, PeakResidents: 9} {
		p, err := c.Pool(c.Requests(), cost)
		if err != nil || p.Family != Windows || p.Curves[0].Points[1].Cost != want {
			t.Errorf("%s: %+v, %v, want %d", cost, p, err, want)
		}
	}
	for i := range rows {
		rows[i].BlockTokens = 2
	}
	if p := pool(t, rows, ""); p.Curves[0].Points[1].Cost != 7 {
		t.Errorf("blocks of two: %+v, want 7: 62 in 10 steps", p.Curves)
	}
	if c, err = Collect(rows, ""); err != nil {
		t.Fatal(err)
	}
	if p, err := c.Pool(c.Requests(), PeakResidents); err != nil || p.Curves[0].Points[1].Cost != 18 {
		t.Errorf("the peak in blocks of two: %+v, %v, want 18", p, err)
	}
}

// The sizes are those that every request has. Rows without a size of the curve are left out.
func TestSizesInCommon(t *testing.T) {
	rows := twoRequests()
	peak, plan := "peak:window:2", "plan:x"
	for _, request := range []string{"a", "b"} {
		for layer := range int32(2) {
			for capacity, text := range map[int64]*string{5: &peak, 3: &plan} {
				r := rowOf(request, layer, -1, capacity, 60)
				r.Capacity = text
				rows = append(rows, r)
			}
		}
	}
	p := pool(t, append(rows, rowOf("b", 1, -1, 16, 3)), "")
	for _, c := range p.Curves {
		if len(c.Points) != 3 {
			t.Errorf("%+v, want sizes 4, 6, 8", c)
		}
	}
	if m, err := p.Memory("8ctx"); err == nil {
		t.Errorf("8ctx is %d, want an error", m)
	}
}

func TestCollectErrors(t *testing.T) {
	change := func(f func([]result.Row) []result.Row) []result.Row { return f(twoRequests()) }
	at := func(i int, f func(*result.Row)) []result.Row {
		return change(func(rows []result.Row) []result.Row { f(&rows[i]); return rows })
	}
	each := func(f func(*result.Row)) []result.Row {
		return change(func(rows []result.Row) []result.Row {
			for i := range rows {
				f(&rows[i])
			}
			return rows
		})
	}
	for name, c := range map[string]struct {
		rows   []result.Row
		policy string
		want   string
	}{
		"none":             {nil, "", "no rows"},
		"pooled by layer":  {each(func(r *result.Row) { r.RequestID = nil }), "", "replay with --per stream"},
		"pooled by cell":   {each(func(r *result.Row) { r.RequestID, r.LayerID = nil, nil }), "lru", "replay with --per stream"},
		"heads pooled":     {each(func(r *result.Row) { r.Streams = 3 }), "", "replay with --per stream"},
		"two policies":     {at(3, func(r *result.Row) { r.Policy = "fifo" }), "", "choose one with --policy: fifo, lru"},
		"window and lru":   {append(twoRequests(), windowRow("a", 0, 1, 5, 5, 5)), "", "choose one with --policy: lru, window"},
		"unknown policy":   {twoRequests(), "lr", `no rows of policy "lr", did you mean lru?; the rows have: lru`},
		"another K":        {at(3, func(r *result.Row) { r.TopK = 5 }), "", "choose with --where, as in --where topk=4"},
		"another warm-up":  {at(3, func(r *result.Row) { r.Warmup = "cold" }), "", "--where warmup="},
		"another engine":   {at(3, func(r *result.Row) { r.Engine = "0" }), "", "engine=1"},
		"another seed":     {at(3, func(r *result.Row) { r.Seed = 7 }), "", "seed=7"},
		"entry bytes":      {at(3, func(r *result.Row) { r.EntryBytes = nil }), "", "entry_bytes=null"},
		"two digests":      {at(3, func(r *result.Row) { r.TraceDigest = "sha256:u" }), "", "the rows of trace t.parquet differ"},
		"two names":        {at(3, func(r *result.Row) { r.Trace = "u.parquet" }), "", "would count several times"},
		"contradiction":    {append(twoRequests(), rowOf("a", 0, -1, 4, 89)), "", "request a, layer 0, lru at size 4 disagree: 90 and 89 misses"},
		"another peak":     {append(twoRequests(), func() result.Row { r := rowOf("a", 0, -1, 4, 90); r.ResidentPeak = 3; return r }()), "", "request a, layer 0, lru at size 4 disagree"},
		"other steps":      {append(twoRequests(), func() result.Row { r := rowOf("a", 0, -1, 4, 90); r.Steps = 6; return r }()), "", "request a, layer 0, lru at size 4 disagree"},
		"other residents":  {append(twoRequests(), func() result.Row { r := rowOf("a", 0, -1, 4, 90); r.ResidentMean = 3; return r }()), "", "request a, layer 0, lru at size 4 disagree"},
		"without capacity": {each(func(r *result.Row) { r.Policy, r.Capacity, r.CapacityEntries = "none", nil, nil }), "", "policy none has no capacity to divide"},
	} {
		if _, err := Collect(c.rows, c.policy); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

// Rows of caches that streams share, or that change, do not make curves.
func TestCollectRefusesSharedCaches(t *testing.T) {
	for want, change := range map[string]func(*result.Row){
		`pool "request"`:    func(r *result.Row) { r.Pool = "request" },
		`reallocation "64:`: func(r *result.Row) { r.Reallocation = "64:2d-greedy" },
		"is lossy":          func(r *result.Row) { r.Lossy = true },
	} {
		rows := twoRequests()
		for i := range rows {
			change(&rows[i])
		}
		if _, err := Collect(rows, ""); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, expected %s", err, want)
		}
	}
}

// layersOfB returns rows of more layers of request b.
func layersOfB(layers ...int32) (rows []result.Row) {
	for _, layer := range layers {
		rows = append(rows, rowOf("b", layer, -1, 4, 5), rowOf("b", layer, -1, 6, 5))
	}
	return rows
}

func TestPoolErrors(t *testing.T) {
	without := func(gone func(*result.Row) bool) []result.Row {
		return slices.DeleteFunc(twoRequests(), func(r result.Row) bool { return gone(&r) })
	}
	for name, c := range map[string]struct {
		rows []result.Row
		want string
	}{
		"a request lacks a layer": {without(func(r *result.Row) bool { return *r.RequestID == "b" && *r.LayerID == 1 }), "request b of t.parquet lacks rows of layer 1, which request a"},
		"one has another":         {without(func(r *result.Row) bool { return *r.RequestID == "a" && *r.LayerID == 1 }), "request b of t.parquet has rows of layer 1, which request a"},
		"several lack layers":     {slices.Concat(without(func(r *result.Row) bool { return *r.RequestID == "a" && *r.LayerID == 1 }), layersOfB(9, 2, 3, 4, 5, 6, 7, 8)), "request b of t.parquet has rows of layer 1, which request a"},
		"one size":                {without(func(r *result.Row) bool { return *r.CapacityEntries > 4 }), "layer 0 has 1 sizes in all requests, a curve needs 2: replay with --capacity sweep"},
		"no size in common":       {without(func(r *result.Row) bool { return (*r.RequestID == "b") == (*r.CapacityEntries > 4) }), "layer 0 has 0 sizes"},
	} {
		collected, err := Collect(c.rows, "")
		fatal.If(t, err)
		if _, err := collected.Pool(collected.Requests(), MeanResidents); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	collected, err := Collect(twoRequests(), "")
	fatal.If(t, err)
	if _, err := collected.Pool(nil, MeanResidents); err == nil {
		t.Error("no requests, no error")
	}
	if _, err := collected.Pool(collected.Requests(), "median"); err == nil {
		t.Error("cost median, no error")
	}
}

func TestSelect(t *testing.T) {
	rows := twoRequests()
	for _, r := range twoRequests() {
		r.Trace, r.TraceDigest = "u.parquet", "sha256:u"
		rows = append(rows, r)
	}
	c, err := Collect(rows, "")
	fatal.If(t, err)
	for pattern, want := range map[string]string{
		"a": "t/a u/a", "t.parquet": "t/a t/b", "u.parquet/b": "u/b", "*": "t/a t/b u/a u/b", "u*": "u/a u/b", "?": "t/a t/b u/a u/b",
	} {
		requests, err := c.Select([]string{pattern})
		var got []string
		for _, r := range requests {
			got = append(got, strings.TrimSuffix(r.Trace, ".parquet")+"/"+r.ID)
		}
		if err != nil || strings.Join(got, " ") != want {
			t.Errorf("%s: %v, %v, want %s", pattern, got, err, want)
		}
	}
	for i := range rows {
		if *rows[i].RequestID == "b" {
			id := "b[1]"
			rows[i].RequestID = &id
		}
	}
	if c, err = Collect(rows, ""); err != nil {
		t.Fatal(err)
	}
	if got, err := c.Select([]string{"b[1]"}); err != nil || len(got) != 2 { // as a pattern it matches b1
		t.Errorf("by its name: %v, %v, want b[1] of both traces", got, err)
	}
	for _, pattern := range []string{"c", "[", ""} {
		if got, err := c.Select([]string{"a", pattern}); err == nil || !strings.Contains(err.Error(), "no rows of request") {
			t.Errorf("%q: %v, %v, want an error", pattern, got, err)
		}
	}
}

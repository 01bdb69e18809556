package allocate

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/kvreplay/kvreplay/internal/fatal"
	"github.com/kvreplay/kvreplay/internal/table"
	"github.com/kvreplay/kvreplay/metrics/result"
)

// study has three requests of two layers at 4, 6 and 8 entries. On a and b layer 0 needs memory, on
// c layer 1.
func study() (rows []result.Row) {
	for request, misses := range map[string][2][3]int64{"a": {{90, 40, 20}, {50, 45, 43}}, "b": {{80, 50, 30}, {50, 44, 41}}, "c": {{50, 45, 44}, {90, 30, 10}}} {
		for layer, of := range misses {
			for i, m := range of {
				rows = append(rows, rowOf(request, int32(layer), -1, int64(4+2*i), m))
			}
		}
	}
	return rows
}

func options(t *testing.T, method string) Options {
	t.Helper()
	spec, err := ParseMethod(method)
	fatal.If(t, err)
	return Options{Methods: []Spec{spec}, Memory: "1.5x"}
}

// Memory beyond the largest sizes, which needs no division, causes a warning.
func TestMoreMemoryThanSizes(t *testing.T) {
	o := options(t, "2d-greedy")
	for memory, warned := range map[string]bool{"2x": false, "9": true, "48GB": true} { // 8 and 8 entries are the largest sizes
		o.Memory = memory
		reports, err := Run(study(), o)
		fatal.If(t, err)
		if text := strings.Join(reports[0].Warnings, "\n"); strings.Contains(text, "exceeds the largest profiled sizes, 16 in total") != warned {
			t.Errorf("%s: warnings %q", memory, text)
		}
	}
}

// In 12 entries uniform gives 6 and 6: on a and b together 40 + 50 + 45 + 44 = 179 misses.
// 2d-greedy gives 8 and 4: 20 + 30 + 50 + 50 = 150. On c these sizes miss 44 + 90 = 134, and
// uniform's 45 + 30 = 75.
func TestRun(t *testing.T) {
	o := options(t, "2d-greedy")
	o.Judge = []string{"c"}
	reports, err := Run(study(), o)
	if err != nil || len(reports) != 1 {
		t.Fatal(reports, err)
	}
	r := reports[0]
	check := func(what string, s *Side, requests int, uniform, plan int64, ratio float64) {
		t.Helper()
		if len(s.Requests) != requests || s.Uniform.Misses != uniform || s.Plan.Misses != plan || *s.Plan.HostToDeviceBytes != 10*plan ||
			s.Plan.MemoryEntries != 12 || s.Uniform.MemoryEntries != 12 || *s.Ratio != ratio {
			t.Errorf("%s: %+v, want %d requests, %d and %d misses", what, s, requests, uniform, plan)
		}
	}
	check("profile", r.Profile, 2, 179, 150, 150.0/179)
	check("judge", r.Judge, 1, 75, 134, 134.0/75)
	if p := r.Plan; p.Streams[0].Size != 8 || p.Streams[1].Size != 4 || p.UsedEntries != 12 || p.Memory != "1.5x" || len(p.Profile) != 1 || strings.Join(p.Profile[0].Requests, " ") != "a b" {
		t.Errorf("plan %+v", p)
	}
	if l := r.Layers; len(l) != 2 || l[0].Misses != 50 || l[0].UniformMisses != 90 || l[1].Misses != 100 || l[1].UniformMisses != 89 || *l[0].JudgeRatio != 44.0/45 || *l[1].JudgeRatio != 3 || l[0].Share != 8.0/12 {
		t.Errorf("layers %+v", l)
	}
}

// A report repeats each warning of the profiled and judged rows once.
func TestReportKeepsWarnings(t *testing.T) {
	rows := study()
	for i := range rows {
		rows[i].Warnings = map[string][]string{"a": {"sink 4 replayed"}, "b": {"warm"}, "c": {"cold start", "sink 4 replayed"}}[*rows[i].RequestID]
	}
	o := options(t, "2d-greedy")
	o.Judge = []string{"c"}
	reports, err := Run(rows, o)
	fatal.If(t, err)
	if got, want := reports[0].Warnings, []string{"cold start", "sink 4 replayed", "warm"}; !reflect.DeepEqual(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// Sizes are checked before rows are read.
func TestValidate(t *testing.T) {
	for want, o := range map[string]Options{
		"":                                   {Memory: "2x", Floor: "window:1"},
		"memory: size":                       {Memory: "2y"},
		`floor "2y": expected 1x or entries`: {Floor: "2y"},
		`floor "1KiB": `:                     {Floor: "1KiB"},
		`floor "2ctx": `:                     {Floor: "2ctx"},
	} {
		if err := o.Validate(); want == "" && err != nil || want != "" && (err == nil || !strings.HasPrefix(err.Error(), want)) {
			t.Errorf("%+v: %v, want %q", o, err, want)
		}
	}
}

// A plan names the traces that it was made on, each with its requests.
func TestPlanOfTwoTraces(t *testing.T) {
	rows := study()
	for i := range rows {
		if *rows[i].RequestID == "c" {
			rows[i].Trace, rows[i].TraceDigest = "u.parquet", "sha256:u"
		}
	}
	reports, err := Run(rows, options(t, "2d-greedy"))
	fatal.If(t, err)
	want := []Source{{"t.parquet", "sha256:t", []string{"a", "b"}}, {"u.parquet", "sha256:u", []string{"c"}}}
	if got := reports[0].Plan.Profile; !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// Different spellings select the same requests to profile.
func TestSplit(t *testing.T) {
	want := ""
	for _, o := range []Options{{Judge: []string{"c"}}, {Requests: []string{"a", "b"}, Judge: []string{"c"}}, {Requests: []string{"b", "a"}, Judge: []string{"c", "c"}}, {Judge: []string{"c"}, Exclude: []string{"c"}}} {
		o.Methods, o.Memory = options(t, "2d-exact").Methods, "1.5x"
		reports, err := Run(study(), o)
		fatal.If(t, err)
		var text bytes.Buffer
		fatal.If(t, json.NewEncoder(&text).Encode(reports))
		if want == "" {
			want = text.String()
		}
		if text.String() != want {
			t.Errorf("%+v: %s, want %s", o, text.String(), want)
		}
	}
}

// A plan from a file is judged like one that was just made.
func TestJudgePlan(t *testing.T) {
	made, err := Run(study(), func() Options { o := options(t, "2d-greedy"); o.Judge = []string{"c"}; return o }())
	fatal.If(t, err)
	plan, err := Decode(made[0].Plan.Encode())
	fatal.If(t, err)
	judged, err := Run(study(), Options{Plan: plan, Requests: []string{"c"}})
	fatal.If(t, err)
	a, b := made[0].Judge, judged[0].Judge
	if w := judged[0].Warnings; slices.ContainsFunc(w, func(s string) bool { return strings.Contains(s, "was made from") }) {
		t.Errorf("a request that was kept apart: %q", w)
	}
	own, err := Run(study(), Options{Plan: plan})
	fatal.If(t, err)
	if w := strings.Join(own[0].Warnings, "\n"); !strings.Contains(w, fmt.Sprintf("the plan was made from %d of these %d requests", len(made[0].Profile.Requests), len(own[0].Judge.Requests))) {
		t.Errorf("the requests of the plan: %q", w)
	}
	if judged[0].Profile != nil || a.Uniform.Misses != b.Uniform.Misses || a.Plan.Misses != b.Plan.Misses || *a.Ratio != *b.Ratio || judged[0].Digest != made[0].Digest {
		t.Errorf("%+v, want %+v", b, a)
	}
}

// A window may cost more on judged requests than on the profile. Uniform windows are then
// interpolated in the same memory.
func TestWindowsAreComparedInEqualMemory(t *testing.T) {
	var rows []result.Row
	add := func(request string, layer int32, misses, sums [3]int64) {
		for n := range misses {
			rows = append(rows, windowRow(request, layer, n, misses[n], 5*sums[n], 9*sums[n]))
		}
	}
	add("a", 0, [3]int64{90, 20, 10}, [3]int64{0, 4, 8})
	add("a", 1, [3]int64{90, 80, 75}, [3]int64{0, 4, 8})
	add("b", 0, [3]int64{90, 30, 20}, [3]int64{0, 6, 10})
	add("b", 1, [3]int64{90, 70, 60}, [3]int64{0, 2, 6})
	o := options(t, "2d-greedy")
	o.Memory, o.Judge = "window:1", []string{"b"}
	reports, err := Run(rows, o)
	fatal.If(t, err)
	// On a with 8 entries, uniform ×1 misses 100. The plan takes layer 0 to ×1. For the remaining
	// 4, layer 0 to ×2 and layer 1 to ×1 save 10 each. The lower layer goes first: 10 + 90.
	r := reports[0]
	if r.Plan.Streams[0].Size != 2 || r.Plan.Streams[1].Size != 0 || r.Profile.Plan.Misses != 100 || *r.Profile.Ratio != 1 {
		t.Fatalf("plan %+v, profile %+v", r.Plan.Streams, r.Profile)
	}
	// On b it costs 10 entries and misses 20 + 90 = 110. Uniform ×1 costs 8 and misses 100, ×2
	// costs 16 and misses 80. At 10 it would miss 95.
	if j := r.Judge; j.Plan.MemoryEntries != 10 || j.Plan.Misses != 110 || j.Uniform.MemoryEntries != 8 || j.Uniform.Misses != 100 || *j.Ratio != 110.0/95 {
		t.Errorf("judged %+v, uniform %+v, ratio %v", j.Plan, j.Uniform, *j.Ratio)
	}
	if r.Plan.Cost != MeanResidents {
		t.Errorf("cost %q", r.Plan.Cost)
	}
	o.Cost = PeakResidents // nine times the mean
	if reports, err = Run(rows, o); err != nil || reports[0].MemoryEntries != 72 || reports[0].Plan.Cost != PeakResidents {
		t.Errorf("peak: %+v, %v", reports, err)
	}
	// From a file, the plan is judged by its own cost: with b's peaks, 9 × 10 entries.
	judged, err := Run(rows, Options{Plan: reports[0].Plan, Requests: []string{"b"}})
	fatal.If(t, err)
	if a, b := reports[0].Judge, judged[0].Judge; b.Plan.MemoryEntries != 90 || a.Plan.MemoryEntries != 90 || *a.Ratio != *b.Ratio {
		t.Errorf("judged by peaks %+v, want %+v", b.Plan, a.Plan)
	}
}

// Windows 1 and 2 have equal peaks, so they cost the same memory. uniform takes the larger one, and
// so does the comparison in equal memory. Between two windows it is interpolated. Beyond the
// largest it equals the largest, and below the smallest it is nothing.
func TestUniformWindowsOfOneCost(t *testing.T) {
	var rows []result.Row
	for n, misses := range []int64{90, 50, 40, 10} {
		rows = append(rows, windowRow("a", 0, n, misses, int64(n), []int64{2, 6, 6, 10}[n]))
	}
	o := options(t, "uniform")
	o.Memory, o.Cost = "window:2", PeakResidents
	reports, err := Run(rows, o)
	fatal.If(t, err)
	if s := reports[0].Profile; s.Plan.Misses != 40 || *s.Ratio != 1 {
		t.Errorf("uniform beside itself: %d misses, ratio %v", s.Plan.Misses, *s.Ratio)
	}
	c, err := Collect(rows, "")
	fatal.If(t, err)
	p, err := c.Pool(c.Requests(), PeakResidents)
	fatal.If(t, err)
	for memory, want := range map[int64]int64{1: 0, 2: 900, 4: 700, 6: 400, 7: 325, 10: 100, 11: 100} {
		if got := p.uniformIn(memory); got != want {
			t.Errorf("in %d entries uniform windows move %d, want %d", memory, got, want)
		}
	}
}

func TestRunErrors(t *testing.T) {
	greedy := options(t, "2d-greedy")
	plan := somePlan(Capacities)
	for name, c := range map[string]struct {
		change func(*Options)
		want   string
	}{
		"judged and profiled": {func(o *Options) { o.Requests, o.Judge = []string{"a", "c"}, []string{"c"} }, "request c is in both --requests and --judge"},
		"nothing left":        {func(o *Options) { o.Exclude = []string{"?"} }, "no request is left to profile: change --requests, --exclude or --judge"},
		"no such request":     {func(o *Options) { o.Exclude = []string{"d"} }, `exclude: no rows of request "d"`},
		"no such judge":       {func(o *Options) { o.Judge = []string{"d"} }, `judge: no rows of request "d"`},
		"little memory":       {func(o *Options) { o.Memory = "0.5x" }, "allocate: 4 entries of memory are too few: 2 streams of at least 4 entries take 8"},
		"no such memory":      {func(o *Options) { o.Memory = "lots" }, `size "lots"`},
		"floor not profiled":  {func(o *Options) { o.Floor = "0.5x" }, "floor: layer 0: capacity 2 was not profiled: expected 4 to 8"},
		"nothing above it":    {func(o *Options) { o.Floor = "9" }, "layer 0 has no size above the floor of 9"},
		"another plan":        {func(o *Options) { *o = Options{Plan: plan} }, "the plan is for topk 4, block_tokens 2"},
		"plan and memory":     {func(o *Options) { o.Plan = plan }, "have no effect on an existing plan"},
		"a plan of windows":   {func(o *Options) { *o = Options{Plan: somePlan(Windows)} }, "the plan has window, but the rows of lru have capacity"},
		"the plan lacks": {func(o *Options) {
			*o = Options{Plan: &Plan{Family: Capacities, Units: Units{4, 1, 1, 1}, Streams: []Share{{Key{7, shared}, 4}}}}
		}, "the plan lacks layer 0: it has layers 7"},
		"more layers": {func(o *Options) {
			*o = Options{Plan: &Plan{Family: Capacities, Units: Units{4, 1, 1, 1}, Streams: []Share{{Key{0, shared}, 4}, {Key{1, shared}, 4}, {Key{2, shared}, 4}}}}
		}, "the plan has 3 layers and heads, but the rows only 2"},
	} {
		o := greedy
		c.change(&o)
		if r, err := Run(study(), o); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %+v, %v, want %q", name, r, err, c.want)
		}
	}
	less := study()
	for i := range less {
		if *less[i].RequestID == "c" && *less[i].LayerID == 1 {
			*less[i].LayerID = 2
		}
	}
	greedy.Judge = []string{"c"}
	if _, err := Run(less, greedy); err == nil || !strings.Contains(err.Error(), "differ in layers or heads: replay both with the same --layers") {
		t.Errorf("other layers judged: %v", err)
	}
}

// The text shows the figures of TestRun.
func TestText(t *testing.T) {
	o := options(t, "2d-greedy")
	o.Judge = []string{"c"}
	reports, err := Run(study(), o)
	fatal.If(t, err)
	var got strings.Builder
	fatal.If(t, WriteText(&got, reports, table.Figures))
	want := `lru: 2 streams in 2 layers, capacities from 4 to 8 entries
memory 1.5x: 12 entries per request, at least 4 entries per stream
profiled on 2 requests of t.parquet, 10 steps: a, b
judged on 1 request of t.parquet, 5 steps: c

 method     memory  misses  bytes/step  ÷ uniform  judged  judged      judged  judged ÷
                                                   memory  misses  bytes/step   uniform
────────────────────────────────────────────────────────────────────────────────────────
 uniform        12     179    179.00 B                 12      75    150.00 B
 2d-greedy      12     150    150.00 B     0.8380      12     134    268.00 B    1.7867
2d-greedy: no other choice of profiled sizes moves less

 layer  heads  entries   × K  of memory  misses  uniform  ÷ uniform  judged ÷ uniform
──────────────────────────────────────────────────────────────────────────────────────
 0          1        8  2.00     66.7 %      50       90     0.5556            0.9778
 1          1        4  1.00     33.3 %     100       89     1.1236            3.0000
`
	if got.String() != want {
		t.Errorf("got\n%s\nwant\n%s", got.String(), want)
	}
}

// Several methods share one table, uniform once.
func TestTextOfMethods(t *testing.T) {
	o := options(t, "uniform")
	for _, name := range []string{"2d-exact", "pyramidkv"} {
		o.Methods = append(o.Methods, options(t, name).Methods...)
	}
	reports, err := Run(study(), o)
	fatal.If(t, err)
	var got strings.Builder
	fatal.If(t, WriteText(&got, reports, table.Figures))
	if strings.Count(got.String(), "\n uniform ") != 1 || !strings.Contains(got.String(), "2d-exact: no other choice of profiled sizes moves less (memory in units of 2 entries)") || strings.Contains(got.String(), "layer  heads") {
		t.Errorf("%s", got.String())
	}
}

// A method that leaves memory unused has a line that says so.
func TestUnusedMemory(t *testing.T) {
	for used, want := range map[int64]string{9: "m: it uses 9 entries and uniform 10, so its ratio is of less memory\n", 10: ""} {
		r := &Report{Method: "m", Family: Capacities, Profile: &Side{Plan: Outcome{MemoryEntries: used}, Uniform: Outcome{MemoryEntries: 10}}}
		var b strings.Builder
		if r.unused(&b); b.String() != want {
			t.Errorf("%d of 10 entries: %q, expected %q", used, b.String(), want)
		}
	}
}

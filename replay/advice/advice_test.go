package advice_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/kvreplay/kvreplay/datasets/corpus"
	"github.com/kvreplay/kvreplay/internal/fatal"
	"github.com/kvreplay/kvreplay/metrics/result"
	"github.com/kvreplay/kvreplay/policies/all"
	"github.com/kvreplay/kvreplay/replay"
	"github.com/kvreplay/kvreplay/replay/advice"
	"github.com/kvreplay/kvreplay/replay/hardware"
	"github.com/kvreplay/kvreplay/replay/pipeline"
	"github.com/kvreplay/kvreplay/replay/pipeline/operator"
	"github.com/kvreplay/kvreplay/replay/pipeline/plan"
	"github.com/kvreplay/kvreplay/replay/pipeline/schedule"
	"github.com/kvreplay/kvreplay/trace"
)

// replayed are the profiles and rows of the bundled trace with lru and lookahead at 1x, 2x and 4x.
var replayed = sync.OnceValues(func() (found struct {
	profiles []*pipeline.Profile
	rows     []result.Row
}, err error) {
	f, err := trace.OpenReader(corpus.EmbeddedFile, bytes.NewReader(corpus.Embedded), int64(len(corpus.Embedded)))
	if err != nil {
		return found, err
	}
	defer f.Close()
	o := replay.Options{Per: replay.PerRequest}
	for _, name := range []string{"lru", "lookahead"} {
		spec, err := all.Table().Parse(name)
		if err != nil {
			return found, err
		}
		o.Policies = append(o.Policies, spec)
	}
	if o.Capacities, err = replay.ParseCapacities([]string{"1x", "2x", "4x"}); err != nil {
		return found, err
	}
	job, err := replay.Plan(f, o)
	if err != nil {
		return found, err
	}
	path := filepath.Join(folder, "profile.parquet")
	p, err := replay.CreateProfile(path, false)
	if err != nil {
		return found, err
	}
	if err := job.Record(p); err != nil {
		return found, err
	}
	done, err := job.Run(context.Background())
	if err != nil {
		return found, err
	}
	if err := p.Close(); err != nil {
		return found, err
	}
	cells, err := pipeline.Cells(context.Background(), path)
	if err != nil {
		return found, err
	}
	found.rows = done.Rows
	found.profiles, err = pipeline.ReadProfiles(context.Background(), path, cells)
	return found, err
})

var folder string

func TestMain(m *testing.M) { runIn(m) }

// question asks about DeepSeek-V3.2 at 64K on a machine, with copies of the profiles and rows.
func question(t *testing.T, machine, model string, schedules ...string) ([]*pipeline.Profile, advice.Question) {
	t.Helper()
	found, err := replayed()
	fatal.If(t, err)
	lib, err := hardware.Load("")
	fatal.If(t, err)
	q := advice.Question{Trace: "t", Rows: slices.Clone(found.rows)}
	q.Options.Options = pipeline.Options{Batch: 1, Fragments: 1, Context: 65536, Steps: 4, Network: pipeline.Networks(lib)}
	q.LayerMap, q.TopK, q.MaxBatch = "stretch", 2048, 64
	if q.Machine, err = lib.Machine(machine); err != nil {
		t.Fatal(err)
	}
	if q.Model, err = lib.ModelOrConfig(model); err != nil {
		t.Fatal(err)
	}
	if q.Selection, err = operator.ParseSelection("auto", q.Model); err != nil {
		t.Fatal(err)
	}
	if q.Entry, err = operator.ParseEntry("auto", q.Model); err != nil {
		t.Fatal(err)
	}
	for _, name := range schedules {
		s, err := schedule.Parse(name)
		fatal.If(t, err)
		q.Schedules = append(q.Schedules, s)
	}
	var profiles []*pipeline.Profile
	for _, p := range found.profiles {
		profiles = append(profiles, copied(p, func(c pipeline.Counts) pipeline.Counts { return c }))
	}
	return profiles, q
}

// copied returns a profile with other counts.
func copied(p *pipeline.Profile, change func(pipeline.Counts) pipeline.Counts) *pipeline.Profile {
	own := *p
	own.Requests = nil
	for _, r := range p.Requests {
		steps := make([][]pipeline.Counts, len(r.Steps))
		for i := range r.Steps {
			for _, c := range r.Steps[i] {
				steps[i] = append(steps[i], change(c))
			}
		}
		own.Requests = append(own.Requests, pipeline.Request{ID: r.ID, Steps: steps})
	}
	return &own
}

func advise(t *testing.T, profiles []*pipeline.Profile, q advice.Question) *advice.Advice {
	t.Helper()
	a, err := advice.Advise(context.Background(), profiles, q)
	fatal.If(t, err)
	return a
}

// The advised configuration ties with the fastest of all prices, and the served one is the fastest of
// LRU with waiting fetches. Its options are the capacity in the units of the engines.
func TestAdvise(t *testing.T) {
	profiles, q := question(t, "h100", "deepseek-v3.2", "sequential", "da", "gpu", "dense")
	q.SLO = 0.05
	a := advise(t, profiles, q)
	q.EveryCell = true
	found, err := plan.Search(context.Background(), profiles, q.Options)
	fatal.If(t, err)
	var best, served, resident, advised *plan.Candidate
	for i := range found.Candidates { // the slow twin: look at each
		c := &found.Candidates[i]
		if c.Serves != schedule.SparseTopK {
			continue
		}
		if best == nil || c.Tokens > best.Tokens {
			best = c
		}
		if strings.HasPrefix(c.Schedule, "sequential") && c.Policy == "lru" && (served == nil || c.Tokens > served.Tokens) {
			served = c
		}
		if c.Schedule == "gpu" {
			resident = c
		}
		if c.Schedule == a.Advised.Schedule && c.Cell == a.Advised.Cell {
			advised = c
		}
	}
	if ratio, low, _ := best.Against(advised.Result); low > 1 || a.Advised.Policy != "lru" || a.Advised.TPOT > q.SLO {
		t.Errorf("advised %+v, the fastest is %s with %s, %g × as fast", a.Advised, best.Schedule, best.Cell, ratio)
	}
	if a.Served == nil || a.Served.Tokens != served.Tokens || a.Served.Batch != served.Batch || a.Resident == nil || a.Resident.Tokens != resident.Tokens || a.Dense == nil {
		t.Errorf("served %+v, expected %s with %s; on the GPU %+v", a.Served, served.Schedule, served.Cell, a.Resident)
	}
	var multiple float64
	if _, err := fmt.Sscanf(a.Served.Capacity, "%gx", &multiple); err != nil || a.Served.Entries != int(multiple*2048) {
		t.Errorf("%s is %d entries, %v", a.Served.Capacity, a.Served.Entries, err)
	}
	if want := float64(a.Advised.Entries) * 656 * 61; a.Advised.Bytes != want {
		t.Errorf("a request takes %g B, expected %g", a.Advised.Bytes, want)
	}
	sglang, trtllm, vllm := a.Engines[0], a.Engines[1], a.Engines[2]
	var options struct {
		TopK  int `json:"top_k"`
		Slots int `json:"device_buffer_size"`
		Ratio int `json:"host_to_device_ratio"`
	}
	fatal.If(t, json.Unmarshal([]byte(strings.Split(sglang.Config, "'")[1]), &options))
	if options.TopK != 2048 || options.Slots != a.Served.Entries || options.Slots*options.Ratio < 65536 || options.Slots*(options.Ratio-1) >= 65536 || !strings.Contains(sglang.Config, "fp8_e4m3") {
		t.Errorf("SGLang: %s", sglang.Config)
	}
	if want := fmt.Sprintf("gpu_cache_factor=%g,", multiple); !strings.Contains(trtllm.Config, want) || len(trtllm.Notes) != 2 {
		t.Errorf("TensorRT-LLM: %s %q, expected %s", trtllm.Config, trtllm.Notes, want)
	}
	parts := strings.Split(vllm.Config, "'")
	for _, i := range []int{1, 3} {
		if !json.Valid([]byte(parts[i])) {
			t.Errorf("vLLM: %s", parts[i])
		}
	}
	if !strings.Contains(parts[1], fmt.Sprintf(`"device_buffer_size": %d`, a.Served.Entries)) {
		t.Errorf("vLLM: %s", vllm.Config)
	}
	for _, e := range a.Engines {
		if len(e.Sources) == 0 || !strings.HasPrefix(e.Sources[0], "https://") {
			t.Errorf("%s has sources %q", e.Name, e.Sources)
		}
	}
	if a.Confidence != "low" || len(a.Reasons) < 4 {
		t.Errorf("confidence %s: %q", a.Confidence, a.Reasons)
	}
}

// Advice prefers a policy to LRU only if both the errors of the model and the requests separate them.
// The figures of lookahead are changed here.
func TestClaims(t *testing.T) {
	fewer := func(c pipeline.Counts) pipeline.Counts {
		c.Fetched, c.FetchedRuns, c.Moved = c.Fetched/50, min(c.FetchedRuns, c.Fetched/50), c.Moved/50
		return c
	}
	for _, c := range []struct {
		name     string
		profile  bool // lookahead misses far less in the priced profile
		rows     bool // and in the rows of each request
		requests int
		policy   string
		reason   string
	}{
		{"as measured", false, false, 6, "lru", "errors of the time model"},
		{"both", true, true, 6, "lookahead", ""},
		{"model only", true, false, 6, "lru", "requests do not separate"},
		{"one request", true, true, 1, "lru", "requests do not separate"},
		{"requests only", false, true, 6, "lru", "errors of the time model"},
	} {
		t.Run(c.name, func(t *testing.T) {
			profiles, q := question(t, "rtx4090", "deepseek-v3.2", "sequential")
			var rows []result.Row
			for _, r := range q.Rows {
				if c.requests == 1 && *r.RequestID != *q.Rows[0].RequestID {
					continue
				}
				if r.Policy == "lookahead" {
					for _, lru := range q.Rows {
						if lru.Policy == "lru" && *lru.Capacity == *r.Capacity && *lru.RequestID == *r.RequestID {
							r.Misses = lru.Misses
						}
					}
					if c.rows {
						r.Misses /= 50
					}
				}
				rows = append(rows, r)
			}
			if c.name != "as measured" {
				q.Rows = rows
			}
			if c.profile {
				for i, p := range profiles {
					if p.Cell.Policy == "lookahead" {
						profiles[i] = copied(p, fewer)
					}
				}
			}
			a := advise(t, profiles, q)
			if a.Advised.Policy != c.policy || a.Gain == nil || a.Gain.Better != (c.policy != "lru") || !strings.Contains(a.Gain.Reason, c.reason) {
				t.Errorf("advised %s @ %s, gain %+v", a.Advised.Policy, a.Advised.Capacity, a.Gain)
			}
			faster := pipeline.Cell{Policy: a.Gain.Policy, Capacity: a.Advised.Capacity}
			if tied := slices.Contains(a.Tied, faster); tied && a.Gain.Low > 1 {
				t.Errorf("%s has at least %g times the tokens/s, and is as fast", faster, a.Gain.Low)
			}
			if a.Gain != nil && (a.Gain.Policy != "lookahead" || a.Gain.Low > a.Gain.Tokens || a.Gain.High != nil && *a.Gain.High < a.Gain.Tokens) {
				t.Errorf("gain %+v", a.Gain)
			}
		})
	}
}

// A model without an indexer has other options, and a GPU with room needs none.
func TestEngines(t *testing.T) {
	profiles, q := question(t, "h100", "llama-3.1-8b", "sequential", "dense")
	a := advise(t, profiles, q)
	if a.Engines[0].Config != "" || a.Engines[1].Config != "" || !strings.HasPrefix(a.Engines[2].Config, "--kv-offloading-size ") {
		t.Errorf("%+v", a.Engines)
	}
	if !slices.ContainsFunc(a.Reasons, func(r string) bool { return strings.Contains(r, "no Top-K attention of its own") }) {
		t.Errorf("%q", a.Reasons)
	}
	profiles, q = question(t, "b200", "llama-3.1-8b", "sequential", "gpu")
	q.MaxBatch = 2
	a = advise(t, profiles, q)
	if a.Advised.Policy != "" || a.Gain != nil || a.Engines[0].Config != "" || !strings.Contains(a.Engines[0].Notes[0], "no option is needed") {
		t.Errorf("advised %+v, %+v", a.Advised, a.Engines[0])
	}
}

// A cache is at most the context. The answer says so, and the engines get a buffer of that size.
func TestWholeContext(t *testing.T) {
	profiles, q := question(t, "h100", "deepseek-v3.2", "sequential")
	q.Context, q.TopK = 1024, 1024
	a := advise(t, profiles, q)
	if c := a.Advised; c.Capacity == "1x" || c.Entries != 1024 || c.Share != 1 || c.Bytes != 1024*656*61 {
		t.Errorf("advised %+v, expected 1,024 tokens at more than 1x", c)
	}
	if config := a.Engines[0].Config; !strings.Contains(config, `"device_buffer_size": 1024, "host_to_device_ratio": 1`) {
		t.Errorf("SGLang: %s", config)
	}
	var text strings.Builder
	answer := advice.Answer{Machine: a.Machine, Advice: []*advice.Advice{a}}
	fatal.If(t, answer.WriteText(&text))
	if said := strings.Join(strings.Fields(text.String()), " "); !strings.Contains(said, "keep the whole context of 1,024 tokens of each request and layer on the GPU") {
		t.Errorf("the answer does not state the whole context:\n%s", said)
	}
}

// The advised machine has most tokens/s, or the cheapest tokens if all prices are known.
func TestChoose(t *testing.T) {
	one := func(machine string, tokens, dollars float64) *advice.Advice {
		a := &advice.Advice{Machine: machine, Advised: advice.Choice{Tokens: tokens, TPOT: 0.01, Low: 0.0099, High: 0.0101}}
		if dollars > 0 {
			a.DollarsPerMillion = &dollars
		}
		return a
	}
	for _, c := range []struct {
		of        []*advice.Advice
		want, why string
	}{
		{[]*advice.Advice{one("a", 100, 0)}, "a", ""},
		{[]*advice.Advice{one("a", 100, 0), one("b", 200, 0)}, "b", "it has the most tokens/s per GPU"},
		{[]*advice.Advice{one("a", 100, 1), one("b", 200, 2)}, "a", "its tokens cost least"},
		{[]*advice.Advice{one("a", 100, 1), one("b", 200, 0)}, "b", "it has the most tokens/s per GPU, because b has no price"},
		{[]*advice.Advice{one("a", 100, 0), one("b", 101, 0)}, "b", "it has the most tokens/s per GPU, but the errors of the model may hide the difference to a"},
		{[]*advice.Advice{one("a", 100, 1), one("b", 200, 1.01)}, "a", "its tokens cost least, but the errors of the model may hide the difference to b"},
	} {
		r := advice.Answer{Advice: c.of}
		if r.Choose(); r.Machine != c.want || r.Why != c.why {
			t.Errorf("%s %q, expected %s %q", r.Machine, r.Why, c.want, c.why)
		}
	}
}

// A capacity must be a multiple of K.
func TestCheckCapacities(t *testing.T) {
	if err := advice.CheckCapacities([]string{"1x", "1.5x", "16x"}); err != nil {
		t.Error(err)
	}
	for _, text := range []string{"", "x", "0.5x", "0.2ctx", "64MiB", "6400", "NaNx", "-1x"} {
		if err := advice.CheckCapacities([]string{text}); err == nil {
			t.Errorf("%q is accepted", text)
		}
	}
}

// An SLO that nothing meets is an error with the nearest configuration.
func TestNothingMeets(t *testing.T) {
	profiles, q := question(t, "h100", "deepseek-v3.2", "sequential")
	q.SLO = 1e-4
	if _, err := advice.Advise(context.Background(), profiles, q); err == nil || !strings.Contains(err.Error(), "nearest: ") {
		t.Errorf("%v", err)
	}
	profiles, q = question(t, "h100", "deepseek-v3.2", "gpu", "sequential")
	q.MaxBatch = 1
	both := advise(t, profiles, q)
	q.SLO = (both.Resident.TPOT + both.Served.TPOT) / 2
	if a := advise(t, profiles, q); a.Served != nil || !strings.Contains(a.Refused, "misses the SLO: fastest TPOT") {
		t.Errorf("served %+v, refused %q", a.Served, a.Refused)
	}
}

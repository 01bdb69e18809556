package trtllm

import (
	"bytes"
	"context"
	"crypto/sha256"
	"flag"
	"fmt"
	"maps"
	"math"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/kvreplay/kvreplay/internal/fatal"
	"github.com/kvreplay/kvreplay/replay/hardware"
	"github.com/kvreplay/kvreplay/replay/reproduce"
	"github.com/kvreplay/kvreplay/replay/serving"
)

var update = flag.Bool("update", false, "rewrite replay/serving/TRTLLM.md")

const page = "../../serving/TRTLLM.md"

// digest has that of the page with runs of few requests, as it was when the page was written.
const digest = "testdata/short.sha256"

// The page is the output of `kvreplay reproduce trtllm --format markdown`. It takes two minutes of
// processor time, so only -update makes it. Otherwise a page of short runs tells whether figures changed.
func TestPage(t *testing.T) {
	r := shortRuns(t)
	var b bytes.Buffer
	fatal.If(t, r.RenderMarkdown(&b, false))
	now := fmt.Sprintf("%x\n", sha256.Sum256(b.Bytes()))
	if *update {
		r, err := reproduce.Make(t.Context(), []reproduce.Paper{Paper()}, reproduce.Inputs{})
		fatal.If(t, err)
		checkErrors(t, r)
		b.Reset()
		fatal.If(t, r.RenderMarkdown(&b, false))
		fatal.If(t, os.WriteFile(page, b.Bytes(), 0o644))
		fatal.If(t, os.WriteFile(digest, []byte(now), 0o644))
	}
	if have, err := os.ReadFile(digest); err != nil || string(have) != now {
		t.Errorf("runs of 20 requests have other figures than when %s was written (%v); go test ./replay/reproduce/trtllm -update rewrites it", page, err)
	}
	written, err := os.ReadFile(page)
	fatal.If(t, err)
	var medians []string
	for _, of := range releases {
		_, row, _ := strings.Cut(string(written), "\n| "+of.version+" | ")
		if cells := strings.Split(row, "|"); len(cells) > 6 {
			medians = append(medians, strings.TrimSpace(cells[6]))
		}
	}
	if len(medians) != 4 {
		t.Fatalf("medians of four versions, have %q", medians)
	}
	want := fmt.Sprintf("the median |error| of throughputs is %s, %s, %s and %s", medians[0], medians[1], medians[2], medians[3])
	readme, err := os.ReadFile("../../serving/README.md")
	if err != nil || !strings.Contains(string(readme), want) {
		t.Errorf("the README of serving lacks %q (%v)", want, err)
	}
}

// checkErrors checks the largest errors that documents state.
func checkErrors(t *testing.T, r *reproduce.Report) {
	t.Helper()
	all, err := results(&r.Papers[0])
	fatal.If(t, err)
	for _, x := range all {
		if (strings.HasPrefix(x.model, "llama") || x.model == "mistral-7b") && x.figure == "throughput" && math.Abs(x.error) > 0.4 {
			t.Errorf("a throughput of %s, %s × %s, version %s, is %.0f %% off, and documents state at most 40 %%", x.model, x.gpus, x.machine, x.version, 100*x.error)
		}
	}
}

var short = sync.OnceValues(func() (*reproduce.Report, error) {
	return reproduce.Make(context.Background(), []reproduce.Paper{Paper()}, reproduce.Inputs{Short: true})
})

// shortRuns returns all figures by runs of few requests.
func shortRuns(t *testing.T) *reproduce.Report {
	t.Helper()
	if testing.Short() {
		t.Skip("serves 931 runs")
	}
	r, err := short()
	fatal.If(t, err)
	return r
}

// With few requests, every line has a figure, and both kinds of output have all tables.
func TestShort(t *testing.T) {
	r := shortRuns(t)
	all, err := results(&r.Papers[0])
	fatal.If(t, err)
	counts, blind := map[string]int{}, 0
	for _, x := range all {
		counts[x.version]++
		if !math.IsNaN(x.blind) {
			blind++
		}
	}
	if want := map[string]int{"0.14": 144, "0.17": 346, "0.20": 167, "1.0": 196, "1.1": 78}; !maps.Equal(counts, want) || blind != 167+196+78 {
		t.Errorf("results %v and %d blind errors, expected %v and those of the last three versions", counts, blind, want)
	}
	for _, print := range []func(*bytes.Buffer) error{
		func(b *bytes.Buffer) error { return r.RenderTable(b) },
		func(b *bytes.Buffer) error { return r.RenderMarkdown(b, false) },
	} {
		var b bytes.Buffer
		fatal.If(t, print(&b))
		for _, want := range []string{"several a100-80", "rtx-pro-6000-server", "deepseek-v3", "TTFT", "43.9 %"} {
			if !strings.Contains(b.String(), want) {
				t.Errorf("the page lacks %q:\n%s", want, b.String())
			}
		}
	}
}

// By hand: a GPU of 10 GB with weights of 2 GB has 8 GB for KV of 1,000 B. 95 % are 7,600,000 tokens.
// At 60,000 tokens a request that is 126.7 requests, and 128 in steps of 32. With 1 answer token for each
// prompt token an iteration has 253.3 tokens, fewer than the least, 2,048. At 6,000 tokens it is 1266.7
// requests, 1,280 in steps of 256. With 5 prompt tokens for each answer token, 7,600 tokens in steps of 512.
func TestTuned(t *testing.T) {
	m := &hardware.Model{}
	m.Parameters.Value, m.BytesPerParameter.Value, m.Entry.Value, m.Layers.Value, m.KVHeads.Value = 2e9, 1, 100, 10, 8
	gpu := &hardware.GPU{}
	gpu.Memory.Value = 10e9
	e := serving.Engine{}
	e.Model, e.Machine = m, &hardware.Machine{GPU: gpu}
	for _, c := range [][4]int{{30000, 30000, 128, 2048}, {5000, 1000, 1280, 7680}, {2, 1, 4096, 12288}} {
		if requests, tokens := tuned(&e, 1, c[0], c[1]); requests != c[2] || tokens != c[3] {
			t.Errorf("%d + %d tokens: %d requests and %d tokens, expected %d and %d", c[0], c[1], requests, tokens, c[2], c[3])
		}
	}
	// A stored number of NVFP4 is two weights or a scale. So 2e9 weights count 1.125e9 numbers of half a byte, and KV has
	// 8,965,625 tokens.
	m.NVFP4 = true
	if requests, _ := tuned(&e, 1, 30000, 30000); requests != 160 {
		t.Errorf("%d requests with NVFP4, expected 160", requests)
	}
}

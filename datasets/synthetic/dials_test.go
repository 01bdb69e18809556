package synthetic

import (
	"bytes"
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/kvreplay/kvreplay/internal/fatal"
)

// Invalid dials are rejected with the dial's name and the expectation.
func TestBadDials(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Dials)
		text   string
	}{
		"overlap of 1":           {func(d *Dials) { d.Overlap = 1 }, "overlap 1, expected at most 1 − 1/K"},
		"overlap not a number":   {func(d *Dials) { d.Overlap = math.NaN() }, "overlap NaN, expected 0 to 1"},
		"negative burst":         {func(d *Dials) { d.Burst = -0.1 }, "burst -0.1"},
		"infinite gap":           {func(d *Dials) { d.GapMedian = math.Inf(1) }, "gap_median +Inf"},
		"no gap":                 {func(d *Dials) { d.GapMedian = 0 }, "gap_median 0"},
		"hot fills the demand":   {func(d *Dials) { d.Hot = 0.9 }, "lower hot or recent"},
		"K above the context":    {func(d *Dials) { d.TopK, d.Candidates = 40000, 40000 }, "context"},
		"M below K":              {func(d *Dials) { d.Candidates = 100 }, "candidates M = 100 is less than topk K = 2048"},
		"windows take the room":  {func(d *Dials) { d.Windows = d.Context - d.Candidates + 1 }, "context"},
		"no steps":               {func(d *Dials) { d.Steps = 0 }, "steps 0"},
		"negative heads":         {func(d *Dials) { d.Heads = -1 }, "heads -1"},
		"too many steps":         {func(d *Dials) { d.Steps = 1 << 20 }, "steps 1048576"},
		"too many streams":       {func(d *Dials) { d.Requests, d.Layers = 1<<20, 1<<20 }, "streams"},
		"products that overflow": {func(d *Dials) { d.Requests, d.Layers, d.Heads = 1<<62, 1<<62, 4 }, "streams"},
		"too many indices":       {func(d *Dials) { d.Context, d.TopK, d.Candidates, d.Steps = 1<<24, 1<<20, 1<<20, 1<<12 }, "indices a stream"},
		"unknown order":          {func(d *Dials) { d.Order = "score" }, `order "score"`},
		"candidates unranked":    {func(d *Dials) { d.Order = "index" }, "M = K = 2048"},
		"scores unranked":        {func(d *Dials) { d.Order, d.Candidates, d.Scores = "index", d.TopK, 1 }, "scores 1 with order index"},
		"pins leave no room":     {func(d *Dials) { d.Sink, d.Local, d.Candidates = 4, 64, d.Context-64 }, "sink 4 and local 64"},
		"a sink alone":           {func(d *Dials) { d.Sink = 4 }, "sink 4 and local 0"},
		"layer list too short":   {func(d *Dials) { d.ByLayer = map[string]Values{"overlap": {0.5}} }, "overlap has 1 values"},
		"unknown layer dial":     {func(d *Dials) { d.ByLayer = map[string]Values{"overlaps": {}} }, "did you mean overlap?"},
		"bad layer value":        {func(d *Dials) { d.ByLayer = map[string]Values{"overlap": {0.5, 0.5, 2, 0.5}} }, "layer 2: overlap 2"},
		"infinite below others": {func(d *Dials) {
			d.Overlap, d.ByLayer = math.Inf(1), map[string]Values{"overlap": {0.5, 0.5, 0.5, 0.5}}
		}, "overlap +Inf, expected a number"},
		"layers out of order": {func(d *Dials) { d.LayerIDs = []int32{0, 2, 1, 3} }, "ascending"},
		"spread":              {func(d *Dials) { d.LayerSpread = math.NaN() }, "layer_spread NaN"},
	} {
		d := Default()
		c.change(&d)
		if err := d.Validate(); err == nil || !strings.Contains(err.Error(), c.text) {
			t.Errorf("%s: error %v, expected %q", name, err, c.text)
		}
	}
	d := Default()
	if err := d.Validate(); err != nil {
		t.Errorf("the defaults: %v", err)
	}
}

// A dial file changes the dials that it names. Dials for all layers replace those by layer.
func TestDecode(t *testing.T) {
	d := Default()
	for _, text := range []string{
		"layers: 3\nby_layer:\n  overlap: [0.5, 0.6, 0.7]\n  heat: [0, 0.5, 1]\n",
		`{"context": 65536, "heat": 0.25}`,
		"layers: 2\n",
	} {
		if err := d.Decode([]byte(text)); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
	}
	if want := map[string]Values{"overlap": {0.5, 0.6}}; !reflect.DeepEqual(d.ByLayer, want) || d.Context != 65536 || d.Heat != 0.25 || d.Steps != Default().Steps {
		t.Errorf("decoded %+v", d)
	}
	if l := d.at(1, 0); l.Overlap != 0.6 || l.Heat != 0.25 {
		t.Errorf("layer 1 has %+v", l)
	}
	if err := d.Set("overlap", 0.9); err != nil || d.at(1, 0).Overlap != 0.9 {
		t.Errorf("set for all: %v, %+v", err, d)
	}
	d.ByLayer = map[string]Values{"overlap": {0.5, 0.6}}
	if d.SetLayers(3); d.Validate() == nil {
		t.Error("three layers with the dials of two")
	}
}

// Dials by head follow when layers and heads are cut, and are not made up for more.
func TestHeads(t *testing.T) {
	d := Default()
	fatal.If(t, d.Decode([]byte("layers: 2\nheads: 3\nby_layer: {overlap: [0.1, 0.2, 0.3, 0.4, 0.5, 0.6], heat: [0, 1]}\n")))
	if l := d.at(1, 1); l.Overlap != 0.5 || l.Heat != 1 {
		t.Errorf("layer 1, head 1 has %+v", l)
	}
	fatal.If(t, d.Decode([]byte("heads: 2\n")))
	if want := (Values{0.1, 0.2, 0.4, 0.5}); !reflect.DeepEqual(d.ByLayer["overlap"], want) {
		t.Errorf("two heads of two layers have %v, expected %v", d.ByLayer["overlap"], want)
	}
	for _, text := range []string{"heads: 3\n", "layers: 3\n"} {
		if err := d.Decode([]byte(text)); err == nil || !strings.Contains(err.Error(), "values, expected one for each") {
			t.Errorf("%q: error %v", text, err)
		}
	}
	if err := d.Decode([]byte("layers: 1\nheads: 0\n")); err != nil || d.at(0, 0).Overlap != 0.1 {
		t.Errorf("one layer that shares a selection: %v, %+v", err, d.ByLayer)
	}
}

// A bad dial file leaves the dials unchanged, and its error states the fault.
func TestBadFiles(t *testing.T) {
	for text, want := range map[string]string{
		"overlapp: 0.5":                          "did you mean overlap?",
		"overlap: high":                          "line 1: overlap is high, expected a number",
		"overlap: 2":                             "overlap 2, expected",
		"overlap: .nan":                          "overlap NaN",
		"steps: 1.5":                             "1.5",
		" \n":                                    "the text is empty",
		"steps: 5\nsteps: 6":                     "steps",
		"by_layer: {overlap: [0.5]}":             "overlap has 1 values",
		"by_layer: {overlaps: [1, 1, 1, 1]}":     "did you mean overlap?",
		"- 1":                                    "",
		"a: [":                                   "",
		"layers: 2\x00":                          "not a text, expected dials",
		"PAR1\x15\xff":                           "not a text, expected dials",
		"sink: 4\nlocal: 40000":                  "has only 0 tokens to name",
		"seed: -1":                               "",
		strings.Repeat("#", mostDialBytes+1):     "expected a file of dials",
		"layer_ids: [1, 2]":                      "layer_ids names 2 layers",
		"hot: 0.99":                              "lower hot",
		"candidates: 1":                          "less than topk",
		"context: 99999999999999999999":          "line 1: context is 9999999..., expected a whole number",
		"layers: 99999999999\nheat: 0":           "streams",
		"about: x\nabout: y":                     "about",
		"topk: 0":                                "topk K = 0",
		"by_layer: {near: [0, 0, 0, 2]}":         "layer 3: near 2",
		"by_layer: {near: [0, 0, x, 2]}":         "x",
		"order: index":                           "M = K",
		"requests: 0x7fffffffffffffff\nheads: 2": "streams",
	} {
		d := Default()
		err := d.Decode([]byte(text))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40q: error %v, expected %q", text, err, want)
		}
		if !reflect.DeepEqual(d, Default()) {
			t.Errorf("%.40q changed the dials", text)
		}
	}
}

// Decode reads back the output of Encode.
func TestEncode(t *testing.T) {
	for _, name := range Presets() {
		d, err := Preset(name)
		fatal.If(t, err)
		text, err := d.Encode()
		fatal.If(t, err)
		back := Default()
		if err := back.Decode(text); err != nil || !reflect.DeepEqual(&back, d) {
			t.Errorf("%s: %v\n%+v\n%+v", name, err, back, *d)
		}
		if again, err := back.Encode(); err != nil || !bytes.Equal(again, text) {
			t.Errorf("%s: encoded otherwise a second time: %v", name, err)
		}
	}
	if _, err := Preset("deepseek-v3.2-23k"); err == nil || !strings.Contains(err.Error(), "did you mean") {
		t.Errorf("unknown preset: %v", err)
	}
}

// No text breaks the decoder, and accepted dials can be drawn.
func FuzzDecode(f *testing.F) {
	f.Add([]byte("layers: 3\nheads: 8\nlayer_spread: 0.25\norder: rank\nrecent: 0.075\n"))
	f.Add([]byte(`{"layers": 2, "by_layer": {"overlap": [0.5, 0.25]}, "layer_ids": [3, 5], "hot": 1e-3}`))
	f.Add([]byte("overlap: .inf\n"))
	f.Add([]byte("&a [*a]"))
	f.Fuzz(func(t *testing.T, text []byte) {
		d := Default()
		if d.Decode(text) != nil {
			return
		}
		if err := d.Validate(); err != nil {
			t.Fatalf("decoded what is not valid: %v", err)
		}
		for i := range min(d.Layers, 3) {
			d.spread(i, 0)
		}
		out, err := d.Encode()
		fatal.If(t, err)
		back := Default()
		if err := back.Decode(out); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	})
}

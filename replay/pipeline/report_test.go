package pipeline

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/kvreplay/kvreplay/internal/fatal"
	"github.com/kvreplay/kvreplay/replay/pipeline/operator"
	"github.com/kvreplay/kvreplay/replay/pipeline/schedule"
)

// TestCSVNames checks that columns have the names of JSON's fields.
func TestCSVNames(t *testing.T) {
	var out strings.Builder
	fatal.If(t, WriteCSV(&out, nil))
	for _, name := range strings.Split(strings.TrimSpace(out.String()), ",") {
		if strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789_") != "" {
			t.Errorf("column %q, expected lower case with underscores", name)
		}
	}
	var causes schedule.Exposure
	for c := range schedule.Causes {
		if name := "exposed_" + c.Key() + "_s"; !strings.Contains(out.String(), ","+name+",") {
			t.Errorf("no column %q in %s", name, out.String())
		}
		causes[c] = float64(c) + 0.5
	}
	object, err := json.Marshal(causes)
	fatal.If(t, err)
	if !strings.HasPrefix(string(object), `{"compute":0.5,"selection":1.5,`) || !strings.Contains(string(object), `"write_back":4.5,`) {
		t.Errorf("JSON %s", object)
	}
	var again schedule.Exposure
	if err := json.Unmarshal(object, &again); err != nil || again != causes {
		t.Errorf("%s reads back as %v: %v", object, again, err)
	}
}

// Prices state their limits: the profile's labels, scaling, assumptions and fitted constants.
func TestPricesStateLabels(t *testing.T) {
	p := read(t, realProfile(t))
	if got := p.Meta.Labels.String(); got != "1 request" {
		t.Errorf("the profile has the labels %q", got)
	}
	for _, c := range []struct{ schedule, machine, model, want string }{
		{"gpu", "h100", "smollm2-135m", "1 request, layers stretched"},
		{"da", "gh200", "smollm2-135m", "1 request, layers stretched"},
		{"da", "h100", "smollm2-135m", "1 request, layers stretched, fitted constant"},
		{"prefetch", "h100", "deepseek-v3.2", "1 request, K scaled ×8, layers stretched, oracle schedule, fitted constant"},
	} {
		o := options(t, p, c.schedule)
		o.Machine, o.Model = parts(t, c.machine, c.model)
		topk := 0
		if c.model != "smollm2-135m" {
			topk = 2048
		}
		var err error
		if o.Scaling, err = NewScaling(p, o.Model, "stretch", topk); err != nil {
			t.Fatal(err)
		}
		if o.Selection, err = operator.ParseSelection("auto", o.Model); err != nil {
			t.Fatal(err)
		}
		o.Steps, o.Context = 1, 4096
		r := priced(t, p, o)
		if got := r.Labels.String(); got != c.want {
			t.Errorf("%s on %s, %s: labels %q, expected %q", c.schedule, c.machine, c.model, got, c.want)
		}
		if notes := strings.Join(r.Notes, "\n"); strings.Contains(notes, "fitted to measured points") != strings.HasSuffix(c.want, "fitted constant") {
			t.Errorf("%s on %s: the notes do not name what is fitted, or name it for nothing:\n%s", c.schedule, c.machine, notes)
		}
		var step strings.Builder
		fatal.If(t, WriteTimeline(t.Context(), &step, p, o))
		if !strings.Contains(step.String(), "["+c.want+"] ") {
			t.Errorf("the timeline's title lacks %q", c.want)
		}
	}
	tiered := read(t, realProfile(t, "dram=lru@4x"))
	o := options(t, tiered, "da")
	o.Ahead.Accuracy, o.Steps = 0.5, 1
	if r := priced(t, tiered, o); !slices.Contains(r.Labels, "read-ahead assumed") {
		t.Errorf("labels %q lack the read-ahead", r.Labels)
	}
}

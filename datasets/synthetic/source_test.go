package synthetic

import (
	"math"
	"reflect"
	"testing"

	"github.com/kvreplay/kvreplay/internal/fatal"
	"github.com/kvreplay/kvreplay/trace"
)

// small is a trace that is quickly drawn.
func small() Dials {
	d := Default()
	d.Requests, d.Layers, d.Heads, d.Context, d.Steps, d.Windows, d.TopK, d.Candidates = 2, 3, 2, 2000, 20, 6, 128, 160
	d.LayerSpread, d.HeadSpread, d.Scores = 0.3, 0.3, 1.2
	return d
}

// Streams follow the rules of the format and come in key order.
func TestStreams(t *testing.T) {
	ranked, unranked, tight, one := small(), small(), small(), small()
	unranked.Order, unranked.Candidates, unranked.Scores, unranked.Heads = trace.OrderIndex, unranked.TopK, 0, 0
	tight.Context = tight.Candidates + tight.Windows // the first list names every token
	one.Layers, one.LayerIDs, one.Recent, one.TopK, one.Candidates, one.Overlap = 3, []int32{2, 3, 9}, 0, 1, 1, 0
	for name, d := range map[string]Dials{"ranked": ranked, "unranked": unranked, "tight": tight, "K = 1": one} {
		if err := d.Validate(); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		m, err := d.Meta()
		fatal.If(t, err)
		m.Version = trace.Version
		source, check := NewSource(&d), trace.NewChecker(name, &m)
		var s trace.Stream
		var last *trace.Key
		for i := range source.Streams() {
			source.Stream(i, &s)
			if e := check.First(&s); e != nil {
				t.Fatalf("%s: %v", name, e)
			}
			if s.Rows != d.Windows+d.Steps || s.Windows != d.Windows || len(s.Indices) != s.Rows*d.Candidates {
				t.Fatalf("%s: %d rows, %d windows, %d indices", name, s.Rows, s.Windows, len(s.Indices))
			}
			if key := s.Key; last != nil && last.Compare(key) >= 0 {
				t.Fatalf("%s: %v after %v", name, key, *last)
			} else {
				last = &key
			}
		}
	}
}

// A stream depends only on seed, dials and key, not on earlier draws or on the number of other
// streams.
func TestStreamsAreIndependent(t *testing.T) {
	d := small()
	all := NewSource(&d)
	var a, b trace.Stream
	for i := all.Streams() - 1; i >= 0; i-- {
		all.Stream(i, &a)
		NewSource(&d).Stream(i, &b)
		if !reflect.DeepEqual(a.Indices, b.Indices) {
			t.Fatalf("stream %d differs when others were drawn before it", i)
		}
	}
	more := d
	more.Requests = 9
	NewSource(&more).Stream(0, &b)
	if all.Stream(0, &a); !reflect.DeepEqual(a.Indices, b.Indices) {
		t.Error("the first stream changes with the number of requests")
	}
	d.Seed++
	if all.Stream(0, &b); reflect.DeepEqual(a.Indices, b.Indices) {
		t.Error("two seeds draw the same stream")
	}
}

// Layers and heads are spread as asked: not at all, or each otherwise.
func TestSpread(t *testing.T) {
	d := small()
	overlaps := func() map[float64]bool {
		set := map[float64]bool{}
		for layer := range 3 {
			for head := range 2 {
				l := d.spread(layer, head)
				if err := l.validate(d.TopK); err != nil {
					t.Errorf("layer %d, head %d: %v", layer, head, err)
				}
				set[l.Overlap] = true
			}
		}
		return set
	}
	if n := len(overlaps()); n != 6 {
		t.Errorf("%d overlaps in 3 layers of 2 heads, expected 6", n)
	}
	d.HeadSpread = 0
	if n := len(overlaps()); n != 3 {
		t.Errorf("%d overlaps without spread of heads, expected 3", n)
	}
	d.LayerSpread = 0
	if set := overlaps(); len(set) != 1 || !set[d.Overlap] {
		t.Errorf("overlaps %v without spread, expected %v", set, d.Overlap)
	}
	d.LayerSpread, d.HeadSpread, d.Overlap, d.Hot = 2, 2, 0.55, 0.4
	overlaps() // stay free of contradiction
}

// The overlap of the dials is reached, with two exceptions. Steps may have to exchange more than
// the demand, or the context may have no other blocks.
func TestReached(t *testing.T) {
	for name, c := range map[string]struct {
		change  func(*Dials)
		reached bool
	}{
		"default":       {func(*Dials) {}, true},
		"spread":        {func(d *Dials) { d.LayerSpread, d.HeadSpread, d.Heads = 0.5, 0.5, 2 }, true},
		"no overlap":    {func(d *Dials) { d.Overlap, d.Recent, d.Burst, d.Steps = 0, 0, 0, 1000 }, true},
		"uneven":        {func(d *Dials) { d.Overlap, d.Recent, d.Burst = 0.05, 0, 1 }, false},
		"short context": {func(d *Dials) { d.TopK, d.Windows, d.Steps, d.Context = 320, 0, 16, 325 }, false},
		"one row":       {func(d *Dials) { d.Windows, d.Steps = 0, 1 }, true},
	} {
		d := Default()
		d.TopK, d.Candidates = 256, 320
		c.change(&d)
		if overlap, asked := d.Reached(); math.Abs(overlap-asked) < 0.02 != c.reached {
			t.Errorf("%s: overlap %.3f, asked for %.3f, expected it reached: %v", name, overlap, asked, c.reached)
		}
	}
}

// A spread leaves the mean churn as it is, however wide it is and where it is cut.
func TestSpreadKeepsMean(t *testing.T) {
	for _, overlap := range []float64{0.2, 0.8, 0.99} {
		for _, deviation := range []float64{0.1, 0.5, 1, 2} {
			for _, over := range []string{"layers", "heads"} {
				d := Default()
				if d.Overlap, d.Recent = overlap, 0.01; over == "layers" {
					d.LayerSpread = deviation
				} else {
					d.HeadSpread = deviation
				}
				const draws = 5000
				mean := 0.0
				for i := range draws {
					l := d.spread(i, i)
					mean += (1 - l.Overlap) / draws
				}
				if want := 1 - overlap; math.Abs(mean/want-1) > 0.05 {
					t.Errorf("overlap %v, spread %v over %s: mean churn %.4f, expected %.4f", overlap, deviation, over, mean, want)
				}
			}
		}
	}
}

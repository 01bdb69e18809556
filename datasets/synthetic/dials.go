package synthetic

import (
	"fmt"
	"math"
	"slices"

	"github.com/kvreplay/kvreplay/trace"
)

// Dials say what trace to draw: its extent and how its demand repeats.
type Dials struct {
	// About says what this is: what was fitted to what, what is assumed. It goes into
	// the metadata of the trace.
	About string `yaml:"about,omitempty" json:"about,omitempty"`
	// Seed is the only source of chance.
	Seed uint64 `yaml:"seed" json:"seed"`

	Requests int     `yaml:"requests" json:"requests"`
	Layers   int     `yaml:"layers" json:"layers"`
	LayerIDs []int32 `yaml:"layer_ids,omitempty,flow" json:"layer_ids,omitempty"` // ascending; none: 0 … layers−1
	Heads    int     `yaml:"heads" json:"heads"`                                  // 0: a layer's heads share one selection
	Context  int     `yaml:"context" json:"context"`                              // tokens of a prompt
	Steps    int     `yaml:"steps" json:"steps"`                                  // decode steps of a stream
	Windows  int     `yaml:"windows" json:"windows"`                              // prompt windows before them
	TopK     int     `yaml:"topk" json:"topk"`                                    // K, the demand
	// Sink and Local are the numbers of first and of last tokens that are pinned, the one
	// being generated included; lists name none of them. Local 0: nothing is said of pins,
	// and lists name any token.
	Sink  int `yaml:"sink,omitempty" json:"sink,omitempty"`
	Local int `yaml:"local,omitempty" json:"local,omitempty"`
	// Candidates is M, the length of a list.
	Candidates int `yaml:"candidates" json:"candidates"`
	// Order is trace.OrderRank, or trace.OrderIndex for lists without ranks.
	Order string `yaml:"order" json:"order"`
	// Scores is the exponent α > 0 of scores: that of rank i is (i+1)^−α over the sum of
	// the list's. 0 is a trace without scores.
	Scores     float64 `yaml:"scores" json:"scores"`
	EntryBytes int     `yaml:"entry_bytes,omitempty" json:"entry_bytes,omitempty"` // of a token in a stream; 0: not stated

	// LayerSpread and HeadSpread are standard deviations of the logarithm of churn,
	// 1 − overlap, between layers and between the heads of a layer. Its mean stays.
	LayerSpread float64 `yaml:"layer_spread" json:"layer_spread"`
	HeadSpread  float64 `yaml:"head_spread" json:"head_spread"`

	Locality `yaml:",inline"`
	// ByLayer are dials that differ between layers: a value for each layer, or one for
	// each head of each layer, those of a layer together.
	ByLayer map[string]Values `yaml:"by_layer,omitempty" json:"by_layer,omitempty"`
}

// Values are a dial's values, one a layer or one a head.
type Values []float64

// Default returns dials of the kind that small models show: every field is set, so
// that a dial file needs to name only what it changes.
func Default() Dials {
	return Dials{Seed: 1, Requests: 1, Layers: 4, Context: 32 << 10, Steps: 256, Windows: 32,
		TopK: 2048, Candidates: 2560, Order: trace.OrderRank,
		Locality: Locality{Overlap: 0.8, Burst: 0.3, RunShape: 1.2, GapMedian: 4.5, GapShape: 0.7,
			Heat: 0.4, Company: 0.05, Recent: 0.1, Neighbours: 0.3, Near: 0.25}}
}

// Limits of what is drawn.
const (
	mostTokens  = 1 << 24
	mostSteps   = forever - leadIn - ahead // with windows
	mostIndices = 1 << 30                  // of a stream
	mostStreams = 1 << 24
)

// Validate reports the first thing that cannot be drawn.
func (d *Dials) Validate() error {
	for _, check := range []func() error{d.validateExtent, d.validateLists, d.validateLayers} {
		if err := check(); err != nil {
			return err
		}
	}
	return nil
}

func (d *Dials) validateExtent() error {
	switch {
	case d.Requests < 1 || d.Layers < 1 || d.Steps < 1:
		return fmt.Errorf("requests %d, layers %d, steps %d, expected at least 1 each", d.Requests, d.Layers, d.Steps)
	case d.Heads < 0 || d.Windows < 0:
		return fmt.Errorf("heads %d, windows %d, expected none below 0", d.Heads, d.Windows)
	case max(d.Requests, d.Layers, d.Heads) > mostStreams || d.streams() > mostStreams:
		return fmt.Errorf("requests %d × layers %d × heads %d, expected at most %d streams", d.Requests, d.Layers, d.Heads, mostStreams)
	case d.Context < 1 || d.Context > mostTokens:
		return fmt.Errorf("context %d, expected 1 to %d tokens", d.Context, mostTokens)
	case d.Steps > mostSteps || d.Windows > mostSteps || d.Steps+d.Windows > mostSteps:
		return fmt.Errorf("steps %d and windows %d, expected at most %d together", d.Steps, d.Windows, mostSteps)
	case d.Sink < 0 || d.Local < 0 || d.Sink > mostTokens || d.Local > mostTokens || d.Sink > 0 && d.Local == 0:
		return fmt.Errorf("sink %d and local %d, expected none below 0, and a local window of at least 1 with a sink", d.Sink, d.Local)
	case d.EntryBytes < 0:
		return fmt.Errorf("entry_bytes %d is negative", d.EntryBytes)
	}
	return nil
}

func (d *Dials) streams() int { return d.Requests * d.Layers * max(1, d.Heads) }

func (d *Dials) validateLists() error {
	switch {
	case d.TopK < 1:
		return fmt.Errorf("topk K = %d, expected at least 1", d.TopK)
	case d.Candidates < d.TopK:
		return fmt.Errorf("candidates M = %d is less than topk K = %d: a list is the demand and more", d.Candidates, d.TopK)
	case d.Order != trace.OrderRank && d.Order != trace.OrderIndex:
		return fmt.Errorf("order %q, expected %s or %s", d.Order, trace.OrderRank, trace.OrderIndex)
	case d.Order == trace.OrderIndex && d.Candidates != d.TopK:
		return fmt.Errorf("candidates M = %d with order %s, expected M = K = %d: without ranks the list is the demand", d.Candidates, d.Order, d.TopK)
	case d.Candidates > d.listed():
		return fmt.Errorf("candidates M = %d, but the first list has a context of %d tokens (context %d less windows %d%s)", d.Candidates, d.listed(), d.Context, d.Windows, d.lessPins())
	case d.Candidates > mostIndices/(d.Steps+d.Windows):
		return fmt.Errorf("%d lists of M = %d, expected at most %d indices a stream", d.Steps+d.Windows, d.Candidates, mostIndices)
	case !(d.Scores >= 0 && d.Scores <= 10):
		return fmt.Errorf("scores %v, expected an exponent from 0 (none) to 10", d.Scores)
	case d.Scores > 0 && d.Order == trace.OrderIndex:
		return fmt.Errorf("scores %v with order %s: scores fall with the rank, and there is none", d.Scores, d.Order)
	}
	return nil
}

// listed is the number of tokens that the first list can name.
func (d *Dials) listed() int { return d.Context - d.Windows - d.Sink - d.Local }

// lessPins says what pins take from it.
func (d *Dials) lessPins() string {
	if d.Local == 0 {
		return ""
	}
	return fmt.Sprintf(", sink %d and local %d", d.Sink, d.Local)
}

func (d *Dials) validateLayers() error {
	if d.LayerIDs != nil {
		if len(d.LayerIDs) != d.Layers {
			return fmt.Errorf("layer_ids names %d layers, layers says %d", len(d.LayerIDs), d.Layers)
		}
		for i, id := range d.LayerIDs {
			if id < 0 || i > 0 && id <= d.LayerIDs[i-1] {
				return fmt.Errorf("layer_ids %v, expected them ascending from 0", d.LayerIDs)
			}
		}
	}
	if !(d.LayerSpread >= 0 && d.LayerSpread <= 2) || !(d.HeadSpread >= 0 && d.HeadSpread <= 2) {
		return fmt.Errorf("layer_spread %v, head_spread %v, expected 0 to 2", d.LayerSpread, d.HeadSpread)
	}
	for _, dial := range LocalityDials {
		_, hidden := d.ByLayer[dial.Name] // but the trace's metadata state it
		if v := *dial.At(&d.Locality); hidden && (math.IsNaN(v) || math.IsInf(v, 0)) {
			return fmt.Errorf("%s %v, expected a number, though by_layer has others", dial.Name, v)
		}
	}
	for name, values := range d.ByLayer {
		if _, err := FindDial(name); err != nil {
			return fmt.Errorf("by_layer: %w", err)
		}
		if n := len(values); n != d.Layers && n != d.Layers*max(1, d.Heads) {
			return fmt.Errorf("by_layer: %s has %d values, expected one for each of %d layers, or for each head of each", name, n, d.Layers)
		}
	}
	layers, heads := 1, 1 // that differ
	if len(d.ByLayer) > 0 {
		layers = d.Layers
	}
	if d.byHead() {
		heads = d.Heads
	}
	for i := range layers * heads {
		l := d.at(i/heads, i%heads)
		if err := l.validate(d.TopK); err != nil {
			switch {
			case heads > 1:
				return fmt.Errorf("layer %d, head %d: %w", d.layerID(i/heads), i%heads, err)
			case len(d.ByLayer) > 0:
				return fmt.Errorf("layer %d: %w", d.layerID(i), err)
			}
			return err
		}
	}
	return nil
}

// byHead reports whether dials differ between the heads of a layer.
func (d *Dials) byHead() bool {
	for _, values := range d.ByLayer {
		if len(values) != d.Layers {
			return true
		}
	}
	return false
}

// at returns the dials of a layer and head by number, before any spread.
func (d *Dials) at(layer, head int) Locality {
	l := d.Locality
	for j := range LocalityDials {
		if values, ok := d.ByLayer[LocalityDials[j].Name]; ok {
			width := len(values) / d.Layers // 1, or heads
			*LocalityDials[j].At(&l) = values[layer*width+min(head, width-1)]
		}
	}
	return l
}

func (d *Dials) layerID(i int) int32 {
	if d.LayerIDs != nil {
		return d.LayerIDs[i]
	}
	return int32(i)
}

// Set sets a dial for all layers.
func (d *Dials) Set(name string, value float64) error {
	dial, err := FindDial(name)
	if err != nil {
		return err
	}
	*dial.At(&d.Locality) = value
	delete(d.ByLayer, name)
	return nil
}

// SetLayers keeps the first n layers. It adds none to those that dials by layer are of:
// Validate refuses more.
func (d *Dials) SetLayers(n int) {
	keep := min(max(n, 0), d.Layers)
	for name, values := range d.ByLayer {
		d.ByLayer[name] = slices.Clip(values[:keep*(len(values)/max(1, d.Layers))])
	}
	if len(d.LayerIDs) > keep {
		d.LayerIDs = d.LayerIDs[:keep]
	}
	d.Layers = n
}

// SetHeads keeps the first n heads of each layer. It adds none to those that dials are of.
func (d *Dials) SetHeads(n int) {
	keep := min(max(n, 1), d.Heads)
	for name, values := range d.ByLayer {
		if width := len(values) / max(1, d.Layers); width > 1 {
			var kept Values
			for heads := range slices.Chunk(values, width) {
				kept = append(kept, heads[:keep]...)
			}
			d.ByLayer[name] = kept
		}
	}
	d.Heads = n
}

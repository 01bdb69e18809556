// Package synthetic draws Top-K traces whose locality is set by dials. Dials control the overlap of
// consecutive demands, the gaps after which blocks come back, the differences between blocks, and
// the blocks next to the threshold. Dials are set by hand, taken from a preset, or fitted to a real
// trace. MODEL.md describes the model.
//
// A stream is drawn in two passes. A process decides which blocks enter and leave the demand at
// each step. A ranker then orders each demand and picks the candidates behind it. Both work on
// changes, so a step costs the size of its lists, at any context. Streams depend only on their
// dials, seed and key.
package synthetic

import (
	"bytes"
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"path"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v4"

	"github.com/kvreplay/kvreplay/internal/files"
	"github.com/kvreplay/kvreplay/internal/names"
	"github.com/kvreplay/kvreplay/internal/slice"
	"github.com/kvreplay/kvreplay/trace"
)

// Dials describe the trace to draw: its extent and the repetition of its demand.
type Dials struct {
	// About describes the dials: the fitted trace and the assumptions. It becomes metadata of the
	// trace.
	About string `yaml:"about,omitempty" json:"about,omitempty"`
	// Seed is the only source of randomness.
	Seed uint64 `yaml:"seed" json:"seed"`

	Requests int     `yaml:"requests" json:"requests"`
	Layers   int     `yaml:"layers" json:"layers"`
	LayerIDs []int32 `yaml:"layer_ids,omitempty,flow" json:"layer_ids,omitempty"` // ascending. None means 0 … layers−1
	Heads    int     `yaml:"heads" json:"heads"`                                  // 0: a layer's heads share one selection
	Context  int     `yaml:"context" json:"context"`                              // tokens of a prompt
	Steps    int     `yaml:"steps" json:"steps"`                                  // decode steps of a stream
	Windows  int     `yaml:"windows" json:"windows"`                              // prompt windows before them
	TopK     int     `yaml:"topk" json:"topk"`                                    // K, the demand
	// Sink and Local are the numbers of first and of last tokens that are pinned, including the token
	// being generated. Lists name none of them. Local 0 means that the trace states no pins, and lists
	// name any token.
	Sink  int `yaml:"sink,omitempty" json:"sink,omitempty"`
	Local int `yaml:"local,omitempty" json:"local,omitempty"`
	// Candidates is M, the length of a list.
	Candidates int `yaml:"candidates" json:"candidates"`
	// Order is trace.OrderRank, or trace.OrderIndex for lists without ranks.
	Order string `yaml:"order" json:"order"`
	// Scores is the exponent α > 0 of scores. The score of rank i is (i+1)^−α divided by the sum over
	// the list. 0 is a trace without scores.
	Scores     float64 `yaml:"scores" json:"scores"`
	EntryBytes int     `yaml:"entry_bytes,omitempty" json:"entry_bytes,omitempty"` // of a token in a stream, 0 if unknown

	// LayerSpread and HeadSpread are standard deviations of the logarithm of churn, 1 − overlap,
	// between layers and between the heads of a layer. The mean churn stays.
	LayerSpread float64 `yaml:"layer_spread" json:"layer_spread"`
	HeadSpread  float64 `yaml:"head_spread" json:"head_spread"`

	Locality `yaml:",inline"`
	// ByLayer are dials that differ between layers. A dial has a value for each layer, or one for each
	// head of each layer, with those of a layer together.
	ByLayer map[string]Values `yaml:"by_layer,omitempty" json:"by_layer,omitempty"`
}

// Values are a dial's values, one per layer or one per head.
type Values []float64

// Default returns dials that are typical of small models. Every field is set, so a dial file needs
// to name only its changes.
func Default() Dials {
	return Dials{Seed: 1, Requests: 1, Layers: 4, Context: 32 << 10, Steps: 256, Windows: 32,
		TopK: 2048, Candidates: 2560, Order: trace.OrderRank,
		Locality: Locality{Overlap: 0.8, Burst: 0.3, RunShape: 1.2, GapMedian: 4.5, GapShape: 0.7,
			Heat: 0.4, Company: 0.05, Recent: 0.1, Neighbours: 0.3, Near: 0.25}}
}

// Limits of a drawing.
const (
	mostTokens  = 1 << 24
	mostSteps   = forever - leadIn - leadOut // with windows
	mostIndices = 1 << 30                    // of a stream
	mostStreams = 1 << 24
)

// Validate returns the first error that prevents a drawing.
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
		return fmt.Errorf("candidates M = %d is less than topk K = %d, expected at least K", d.Candidates, d.TopK)
	case d.Order != trace.OrderRank && d.Order != trace.OrderIndex:
		return fmt.Errorf("order %q, expected %s or %s", d.Order, trace.OrderRank, trace.OrderIndex)
	case d.Order == trace.OrderIndex && d.Candidates != d.TopK:
		return fmt.Errorf("candidates M = %d with order %s, expected M = K = %d (without ranks the whole list is the demand)", d.Candidates, d.Order, d.TopK)
	case d.Candidates > d.listed():
		return fmt.Errorf("candidates M = %d, but the first list has only %d tokens to name (context %d less windows %d%s)", d.Candidates, max(0, d.listed()), d.Context, d.Windows, d.lessPins())
	case d.Candidates > mostIndices/(d.Steps+d.Windows):
		return fmt.Errorf("%d lists of M = %d, expected at most %d indices a stream", d.Steps+d.Windows, d.Candidates, mostIndices)
	case !(d.Scores >= 0 && d.Scores <= 10):
		return fmt.Errorf("scores %v, expected an exponent from 0 (none) to 10", d.Scores)
	case d.Scores > 0 && d.Order == trace.OrderIndex:
		return fmt.Errorf("scores %v with order %s: scores need ranks. Set scores to 0", d.Scores, d.Order)
	}
	return nil
}

// listed returns the number of tokens that the first list can name.
func (d *Dials) listed() int { return d.Context - d.Windows - d.Sink - d.Local }

// lessPins describes the tokens that pins exclude.
func (d *Dials) lessPins() string {
	if d.Local == 0 {
		return ""
	}
	return fmt.Sprintf(", sink %d and local %d", d.Sink, d.Local)
}

func (d *Dials) validateLayers() error {
	if d.LayerIDs != nil {
		if len(d.LayerIDs) != d.Layers {
			return fmt.Errorf("layer_ids names %d layers, but layers is %d", len(d.LayerIDs), d.Layers)
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
			return fmt.Errorf("%s %v, expected a number even if by_layer has values", dial.Name, v)
		}
	}
	for name, values := range d.ByLayer {
		if _, err := FindDial(name); err != nil {
			return fmt.Errorf("by_layer: %w", err)
		}
		if n := len(values); n != d.Layers && n != d.Layers*max(1, d.Heads) {
			return fmt.Errorf("by_layer: %s has %d values, expected one for each of %d layers, or for each of their heads", name, n, d.Layers)
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

// SetLayers keeps the first n layers. It adds none to dials by layer: Validate rejects more.
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

// SetHeads keeps the first n heads of each layer. It adds none to dials by head.
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

// Locality are the dials of a stream: how its demand repeats. Times are in decode steps. MODEL.md
// gives the formulas.
type Locality struct {
	// Overlap is the mean share of the demand that the next step demands again. (1 − overlap)·K blocks
	// leave at a step, and the same number enters.
	Overlap float64 `yaml:"overlap" json:"overlap"`
	// Burst is the coefficient of variation of the number of blocks that leave per step.
	Burst float64 `yaml:"burst" json:"burst"`
	// RunShape is the shape β of the log-logistic law of runs. A run is the number of consecutive
	// steps that demand a block. 1/(1 + (r/m)^β) of the blocks that entered stay longer than r. The
	// median m follows from the overlap.
	RunShape float64 `yaml:"run_shape" json:"run_shape"`
	// GapMedian and GapShape are median and shape of the log-logistic law of gaps. A gap is the number
	// of consecutive steps that do not demand a block, between two that do.
	GapMedian float64 `yaml:"gap_median" json:"gap_median"`
	GapShape  float64 `yaml:"gap_shape" json:"gap_shape"`
	// Drift is the share of the leaving blocks that never come back.
	Drift float64 `yaml:"drift" json:"drift"`
	// Heat is the correlation of a block's gaps. With 0 all blocks are alike. With 1 a block that came
	// back soon always does, and stays long.
	Heat float64 `yaml:"heat" json:"heat"`
	// Company is the correlation of gaps that begin at the same step. Blocks that leave together come
	// back together.
	Company float64 `yaml:"company" json:"company"`
	// Hot is the share of the demand that never leaves, the first tokens first.
	Hot float64 `yaml:"hot" json:"hot"`
	// Recent is the share of the demand that generated tokens in their first run have. That run begins
	// after the local window.
	Recent float64 `yaml:"recent" json:"recent"`
	// Skipped is the share of the generated tokens that are not demanded at once. That is the first
	// step at which they are not pinned, which is their own step without a local window.
	Skipped float64 `yaml:"skipped,omitempty" json:"skipped,omitempty"`
	// Neighbours is the share of the never-seen blocks that enter behind a demanded block: x if x−1 is
	// demanded, while there are any. The others come from anywhere.
	Neighbours float64 `yaml:"neighbours" json:"neighbours"`
	// Near is the chance that a block which has just left, or enters at the next step, is a candidate
	// (ranks K … M−1). At a distance of n steps the chance is Near/n. The remaining candidates are
	// drawn from anywhere.
	Near float64 `yaml:"near" json:"near"`
}

// Dial describes a field of Locality.
type Dial struct {
	Name        string // as in dial files and flags
	Usage       string
	Least, Most float64
	At          func(*Locality) *float64
}

// LocalityDials are the dials of a stream, in the order of Locality.
var LocalityDials = []Dial{
	{"overlap", "mean share of the demand that the next step demands again", 0, 1, func(l *Locality) *float64 { return &l.Overlap }},
	{"burst", "coefficient of variation of the number of blocks that leave at a step", 0, 2, func(l *Locality) *float64 { return &l.Burst }},
	{"run_shape", "shape of the distribution of runs in the demand, heavy-tailed if small", 0.3, 10, func(l *Locality) *float64 { return &l.RunShape }},
	{"gap_median", "median number of steps until a block is demanded again", 0.01, 1e6, func(l *Locality) *float64 { return &l.GapMedian }},
	{"gap_shape", "shape of the distribution of gaps, heavy-tailed if small", 0.1, 10, func(l *Locality) *float64 { return &l.GapShape }},
	{"drift", "share of the leaving blocks that never come back", 0, 1, func(l *Locality) *float64 { return &l.Drift }},
	{"heat", "correlation of the gaps of a block, high if blocks differ much", 0, 1, func(l *Locality) *float64 { return &l.Heat }},
	{"company", "correlation of gaps that begin at the same step", 0, 1, func(l *Locality) *float64 { return &l.Company }},
	{"hot", "share of the demand that never leaves", 0, 1, func(l *Locality) *float64 { return &l.Hot }},
	{"recent", "share of the demand that generated tokens have from their first step on", 0, 1, func(l *Locality) *float64 { return &l.Recent }},
	{"skipped", "share of the generated tokens that are not demanded at once", 0, 1, func(l *Locality) *float64 { return &l.Skipped }},
	{"neighbours", "share of the new blocks that enter next to a demanded one", 0, 1, func(l *Locality) *float64 { return &l.Neighbours }},
	{"near", "probability that a block is a candidate before it enters or after it leaves", 0, 1, func(l *Locality) *float64 { return &l.Near }},
}

// FindDial returns the dial of a name, or an error that offers the nearest name.
func FindDial(name string) (*Dial, error) {
	known := slice.Map(LocalityDials, func(d Dial) string { return d.Name })
	if i := slices.Index(known, name); i >= 0 {
		return &LocalityDials[i], nil
	}
	return nil, fmt.Errorf("no dial is named %q%s", name, names.Nearest(name, known))
}

// validate returns the first dial out of its range, or the first contradiction between dials, for a
// demand of k blocks.
func (l *Locality) validate(k int) error {
	for _, d := range LocalityDials {
		if v := *d.At(l); !(v >= d.Least && v <= d.Most) { // rejects NaN too
			return fmt.Errorf("%s %v, expected %v to %v", d.Name, v, d.Least, d.Most)
		}
	}
	if most := mostOverlap(l, k); l.Overlap > most {
		return fmt.Errorf("overlap %v, expected at most 1 − %.4g/K = %.4f, because generated tokens enter at each step", l.Overlap, bornOf(l), most)
	}
	if rest, churn := restDemand(l, float64(k)), churnOf(l, float64(k)); rest < churn-bornOf(l) {
		return fmt.Errorf("overlap %v makes %.0f of K = %d blocks leave per step, but hot %v and recent %v allow %.0f. Raise overlap, or lower hot or recent",
			l.Overlap, churn, k, l.Hot, l.Recent, math.Max(0, rest))
	}
	return nil
}

// bornOf returns the mean number of generated tokens that enter per step.
func bornOf(l *Locality) float64 { return 1 - l.Skipped }

// mostOverlap returns the overlap of a demand of k in which only the generated token is new.
func mostOverlap(l *Locality, k int) float64 { return 1 - bornOf(l)/float64(k) }

// churnOf returns the mean number of blocks that leave a demand of k per step.
func churnOf(l *Locality, k float64) float64 { return (1 - l.Overlap) * k }

// recentDemand returns the generated tokens in a demand of k. A token that enters stays for at
// least one step.
func recentDemand(l *Locality, k float64) float64 { return math.Max(bornOf(l), l.Recent*k) }

// recentRun returns the mean first run of generated tokens.
func recentRun(l *Locality, k float64) float64 {
	if bornOf(l) <= 0 {
		return 1
	}
	return recentDemand(l, k) / bornOf(l)
}

// restDemand returns the part of a demand of k that is neither hot nor recent.
func restDemand(l *Locality, k float64) float64 { return k*(1-l.Hot) - recentDemand(l, k) }

//go:embed presets/*.yaml
var presetFiles embed.FS

// mostDialBytes is the size of the largest dial file that is read.
const mostDialBytes = 4 << 20

// Presets names the presets, in alphabetical order.
func Presets() []string {
	entries, err := presetFiles.ReadDir("presets")
	if err != nil {
		panic(err) // embedded
	}
	return slice.Map(entries, func(e fs.DirEntry) string { return strings.TrimSuffix(e.Name(), ".yaml") })
}

// Preset returns the dials of a preset, or an error that offers the nearest name.
func Preset(name string) (*Dials, error) {
	name, err := names.Find("preset", name, names.Of(Presets()...))
	if err != nil {
		return nil, err
	}
	text, err := presetFiles.ReadFile(path.Join("presets", name+".yaml"))
	if err != nil {
		panic(err) // embedded
	}
	d := Default()
	if err := d.Decode(text); err != nil {
		return nil, fmt.Errorf("preset %s: %w", name, err)
	}
	return &d, nil
}

// Read changes d by the dial file at path, in YAML or JSON. Reading stops if ctx ends.
func (d *Dials) Read(ctx context.Context, path string) error {
	text, err := files.Read(ctx, path)
	if err != nil {
		return fmt.Errorf("read dials: %w", err)
	}
	if err := d.Decode(text); err != nil {
		return fmt.Errorf("read dials %s: %w", path, err)
	}
	return nil
}

// Decode changes d by text, in YAML or JSON. Dials that text does not name stay, with two
// exceptions. A dial named for all layers loses its values by layer. by_layer replaces all values
// by layer. On an error d is unchanged.
func (d *Dials) Decode(text []byte) error {
	if len(text) > mostDialBytes {
		return fmt.Errorf("more than %d bytes, expected a file of dials", mostDialBytes)
	}
	if len(bytes.TrimSpace(text)) == 0 {
		return errors.New("the text is empty, expected dials (`kvreplay datasets fit` writes them)")
	}
	if !utf8.Valid(text) || bytes.IndexByte(text, 0) >= 0 {
		return errors.New("not a text, expected dials (`kvreplay datasets fit -o` writes them)")
	}
	said := map[string]any{}
	if err := yaml.Load(text, &said, yaml.WithUniqueKeys()); err != nil {
		return fmt.Errorf("%w (expected dials, as `kvreplay datasets fit -o` writes them)", names.OfYAML(err, text, said))
	}
	next := d.without(said)
	if err := yaml.Load(text, &next, yaml.WithKnownFields()); err != nil {
		return names.OfYAML(err, text, next)
	}
	if said["by_layer"] == nil {
		layers, heads := next.Layers, next.Heads
		next.Layers, next.Heads = d.Layers, d.Heads
		next.SetLayers(layers)
		next.SetHeads(heads)
	}
	if err := next.Validate(); err != nil {
		return err
	}
	*d = next
	return nil
}

// without returns a copy of d, without the values by layer that said replaces.
func (d *Dials) without(said map[string]any) Dials {
	next := *d
	next.ByLayer = nil
	if _, ok := said["by_layer"]; ok {
		next.LayerIDs = nil
		return next
	}
	next.ByLayer = maps.Clone(d.ByLayer)
	maps.DeleteFunc(next.ByLayer, func(name string, _ Values) bool {
		_, ok := said[name]
		return ok
	})
	return next
}

// Encode writes d as a dial file that Decode reads back.
func (d *Dials) Encode() ([]byte, error) { return yaml.Dump(d, yaml.WithIndent(2)) }

// MarshalYAML writes the values in one line.
func (v Values) MarshalYAML() (any, error) {
	n := &yaml.Node{Kind: yaml.SequenceNode, Style: yaml.FlowStyle}
	for _, x := range v {
		n.Content = append(n.Content, &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!float", Value: strconv.FormatFloat(x, 'g', -1, 64)})
	}
	return n, nil
}

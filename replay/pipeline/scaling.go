package pipeline

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/kvreplay/kvreplay/metrics/result"
	"github.com/kvreplay/kvreplay/replay"
	"github.com/kvreplay/kvreplay/replay/hardware"
)

// Scaling maps the counts of a profile to those of a model.
type Scaling struct {
	LayerOf    []int   // index of the profiled layer for each layer of the model
	Factor     float64 // counts of the model's layer ÷ counts of the profiled layer
	Heads      float64 // streams of a model layer, which is also the number of entries per token
	EntryBytes float64 // size of an entry
	TopK       int     // tokens that a head selects, 0 if not known
	// Labels are the conditions that the scaling adds to every figure.
	Labels result.Labels
	Notes  []string
}

// NewScaling maps a profile to a model. If the profile has all of the model's layers and heads,
// nothing is scaled and layerMap may be empty. Otherwise layerMap states the profiled layer for
// each of the model's layers:
//
//	nearest           the one with the nearest number
//	stretch           the one at the same relative depth
//	0-19=3,20-60=25   as listed: model layers = profiled layer
//
// Heads are scaled by their number. If topk is not 0, all counts are scaled to that budget.
func NewScaling(p *Profile, m *hardware.Model, layerMap string, topk int) (*Scaling, error) {
	s := &Scaling{Factor: 1, Heads: 1, EntryBytes: float64(m.Entry.Value)}
	needs := s.heads(p, m)
	layers := int(m.Layers.Value)
	if !allLayers(p.Layers, layers) {
		s.Labels = s.Labels.With(result.LabelStretched)
		needs = append(needs, fmt.Sprintf("it has %d layers (%s), %s has %d", len(p.Layers), listed(p.Layers), m.Name, layers))
	}
	if b := p.Meta.EntryBytes; b != nil && float64(*b) != s.EntryBytes {
		needs = append(needs, fmt.Sprintf("its entries have %d B, those of %s have %g B", *b, m.Name, s.EntryBytes))
	}
	if layerMap == "" {
		if len(needs) > 0 {
			return nil, fmt.Errorf("the profile differs from %s: %s: map its layers with --layer-map: nearest, stretch, or a list as in 0-%d=%d", m.Name, strings.Join(needs, "; "), layers-1, p.Layers[0])
		}
		layerMap = "nearest"
	}
	if topk < 0 || topk > mostContext {
		return nil, fmt.Errorf("top-k %d, expected 1 to %d, or 0 for the profile's K", topk, mostContext)
	}
	var err error
	if s.LayerOf, err = MapLayers(p.Layers, layers, layerMap); err != nil {
		return nil, err
	}
	for _, what := range needs {
		s.Notes = append(s.Notes, "scaled: "+what)
	}
	if len(needs) > 0 {
		s.Notes = append(s.Notes, fmt.Sprintf("scaled: layer map %s, counts × %.4g, entries of %g B", layerMap, s.Factor, s.EntryBytes))
	}
	s.budget(p, m, topk)
	return s, nil
}

// heads sets entry size and factor. They depend on whether a layer or each head selects.
func (s *Scaling) heads(p *Profile, m *hardware.Model) (needs []string) {
	profiled := p.Heads * max(1, p.Meta.SharedHeads)
	if profiled == 1 {
		return nil
	}
	s.Heads, s.EntryBytes = m.KeyHeads(), float64(m.EntryPerHead())
	if s.Heads != float64(profiled) {
		s.Factor *= s.Heads / float64(profiled)
		s.Labels = s.Labels.With(result.LabelScaledHeads(s.Factor))
		needs = append(needs, fmt.Sprintf("it has %d heads per layer, %s has %g", profiled, m.Name, s.Heads))
	}
	return needs
}

func (s *Scaling) budget(p *Profile, m *hardware.Model, topk int) {
	unit := cmp.Or(p.Meta.ListTokens, p.Meta.BlockTokens)
	k := p.Meta.TopK * max(1, unit)
	if s.TopK = topk; topk == 0 {
		s.TopK = k
	}
	switch {
	case topk > 0 && topk != k:
		s.Factor *= float64(topk) / float64(k)
		s.Labels = s.Labels.With(result.LabelScaledK(float64(topk) / float64(k)))
		s.Notes = append(s.Notes, fmt.Sprintf("scaled: demand, misses and residents × %.4g, from K = %d to %d tokens", float64(topk)/float64(k), k, topk))
	case topk == 0 && m.Indexer != nil && float64(k) != float64(m.Indexer.TopK.Value):
		s.Notes = append(s.Notes, fmt.Sprintf("not scaled: the profile's K is %d tokens, %s selects %g", k, m.Name, m.Indexer.TopK.Value))
	}
}

// Within returns the scaling for a context of some tokens. A head selects at most all of them, so a shorter
// context than K scales the counts down.
func (s *Scaling) Within(context int64) *Scaling {
	if context >= int64(s.TopK) {
		return s
	}
	short := *s
	short.Factor *= float64(context) / float64(s.TopK)
	short.TopK = int(context)
	return &short
}

func allLayers(profiled []int32, layers int) bool {
	for i, l := range profiled {
		if l != int32(i) {
			return false
		}
	}
	return len(profiled) == layers
}

func listed(layers []int32) string {
	var texts []string
	for i, l := range layers {
		if i == 8 && len(layers) > 9 {
			return strings.Join(texts, ", ") + ", …"
		}
		texts = append(texts, strconv.Itoa(int(l)))
	}
	return strings.Join(texts, ", ")
}

// MapLayers reads a layer map of NewScaling. It returns the index in profiled for each of a model's layers.
func MapLayers(profiled []int32, layers int, text string) ([]int, error) {
	layerOf := make([]int, layers)
	switch text {
	case "nearest":
		for i := range layerOf {
			for j, l := range profiled {
				if math.Abs(float64(l)-float64(i)) < math.Abs(float64(profiled[layerOf[i]])-float64(i)) {
					layerOf[i] = j
				}
			}
		}
		return layerOf, nil
	case "stretch":
		for i := range layerOf {
			layerOf[i] = i * len(profiled) / layers
		}
		return layerOf, nil
	}
	for i := range layerOf {
		layerOf[i] = -1
	}
	for item := range strings.SplitSeq(text, ",") {
		if err := mapItem(profiled, layerOf, item); err != nil {
			return nil, fmt.Errorf("layer map %s: %w", text, err)
		}
	}
	for i, j := range layerOf {
		if j < 0 {
			return nil, fmt.Errorf("layer map %s: layer %d of %d has no profiled layer", text, i, layers)
		}
	}
	return layerOf, nil
}

// mapItem reads "0-19=3" or "7=3".
func mapItem(profiled []int32, layerOf []int, item string) error {
	span, layer, ok := strings.Cut(item, "=")
	from, to, isRange := strings.Cut(span, "-")
	if !isRange {
		to = from
	}
	a, err1 := strconv.Atoi(from)
	b, err2 := strconv.Atoi(to)
	l, err3 := strconv.Atoi(layer)
	if !ok || err1 != nil || err2 != nil || err3 != nil || a < 0 || a > b || b >= len(layerOf) {
		return fmt.Errorf("%q: expected nearest, stretch, or MODEL LAYERS=PROFILED LAYER with layers 0 to %d, as in 0-19=3", item, len(layerOf)-1)
	}
	j := slices.IndexFunc(profiled, func(p int32) bool { return int(p) == l })
	if j < 0 {
		return fmt.Errorf("%q: layer %d is not profiled: choose among %s", item, l, listed(profiled))
	}
	for i := a; i <= b; i++ {
		if layerOf[i] >= 0 {
			return fmt.Errorf("%q: layer %d of the model is named twice", item, i)
		}
		layerOf[i] = j
	}
	return nil
}

// Decoding returns a profile for schedules whose time is independent of any cache. Every request has
// prompt tokens and generates generate tokens. Prefill computes the first of them, so generate − 1 steps
// follow. Step i has prompt + i cached tokens, and those that select demand DefaultTopK of them. Allocated caches have prompt +
// generate positions from the first step, and all of them move. These are static caches, as Hugging
// Face Transformers' OffloadedStaticCache copies them.
func Decoding(prompt, generate int, allocated bool, m *hardware.Model) (*Profile, *Scaling, error) {
	if prompt < 1 || generate < 2 {
		return nil, nil, fmt.Errorf("a prompt of %d tokens and %d generated, expected at least 1 and 2 (prefill generates the first token)", prompt, generate)
	}
	if prompt > mostContext || generate > mostSteps {
		return nil, nil, fmt.Errorf("a prompt of %d tokens and %d generated, expected at most %d and %d", prompt, generate, mostContext, mostSteps)
	}
	steps := make([]Counts, generate-1)
	for i := range steps {
		length := int64(prompt + i + 1)
		if allocated {
			length = int64(prompt + generate)
		}
		steps[i] = Counts{Demand: int64(m.DefaultTopK(length)), Resident: length, Positions: 1, SeqLen: length, Prompt: int64(prompt)}
	}
	p := &Profile{Meta: replay.ProfileMeta{Setting: result.Setting{TopK: prompt + generate, Model: m.Name}}, Described: fmt.Sprintf("prompt %d, generate %d", prompt, generate),
		Requests: []Request{{ID: "0", Steps: [][]Counts{steps}}}, Layers: []int32{0}, Heads: 1}
	scaling := &Scaling{LayerOf: make([]int, int(m.Layers.Value)), Factor: 1, Heads: 1, EntryBytes: float64(m.Entry.Value)}
	if limit := int(m.Context.Value); prompt+generate > limit {
		scaling.Notes = append(scaling.Notes, fmt.Sprintf("%d tokens exceed the context of %s, %d", prompt+generate, m.Name, limit))
	}
	return p, scaling, nil
}

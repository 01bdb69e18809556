package pipeline

import (
	"fmt"

	"github.com/kvreplay/kvreplay/metrics/result"
	"github.com/kvreplay/kvreplay/replay"
	"github.com/kvreplay/kvreplay/replay/hardware"
)

// Decoding is a profile for schedules that move whole layers, whatever a cache would
// miss: every request has prompt tokens and generates others, the first of which is
// prefill's, so that generate − 1 steps follow, step i with prompt + i tokens cached.
// Allocated caches have prompt + generate positions from the first step on, and all of
// them move (static caches, as Hugging Face Transformers' OffloadedStaticCache copies
// them).
func Decoding(prompt, generate int, allocated bool, m *hardware.Model) (*Profile, *Scaling, error) {
	if prompt < 1 || generate < 2 {
		return nil, nil, fmt.Errorf("a prompt of %d tokens and %d generated, expected at least 1 and 2: the first token is prefill's", prompt, generate)
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
		steps[i] = Counts{Demand: length, Resident: length, Positions: 1, SeqLen: length, Prompt: int64(prompt)}
	}
	p := &Profile{Meta: replay.ProfileMeta{Setting: result.Setting{TopK: prompt + generate, Model: m.Name}}, Cell: Cell{Policy: fmt.Sprintf("prompt %d, generate %d", prompt, generate)},
		Requests: []Request{{ID: "0", Steps: [][]Counts{steps}}}, Layers: []int32{0}, Heads: 1}
	scaling := &Scaling{LayerOf: make([]int, int(m.Layers.Value)), Factor: 1, Heads: 1, EntryBytes: float64(m.Entry.Value)}
	if limit := int(m.Context.Value); prompt+generate > limit {
		scaling.Notes = append(scaling.Notes, fmt.Sprintf("%d tokens exceed the context of %s, %d", prompt+generate, m.Name, limit))
	}
	return p, scaling, nil
}

package pipeline

import (
	"fmt"
	"slices"
	"strings"

	"github.com/kvreplay/kvreplay/internal/names"
)

// Schedule places the operations of a step on a timeline.
type Schedule interface {
	// Name is its text form, with all options; ParseSchedule reads it.
	Name() string
	// Parts is how many parts the batch is divided into, 1 where it stays whole.
	Parts() int
	// Place adds a step to an empty timeline.
	Place(t *Timeline, s *Step)
}

// Closed is a schedule with a closed form of its step time.
type Closed interface {
	Schedule
	// Closed is the step's time in seconds where nothing but the stages of the formula
	// takes time: write-back hides, but for the SMs that its kernel takes, and copy engines
	// fetch (no SMs are taken).
	Closed(s *Step) float64
}

// Moves says which data a schedule moves, and what must fit into the GPU.
type Moves int

// What moves.
const (
	MovesMisses   Moves = iota // of a cache; the rest of the KV is below it
	MovesNothing               // all KV is on the GPU
	MovesLayers                // each layer's KV, every step; the GPU holds two of them
	MovesUncached              // a share of each layer's KV, every step, of some layers
)

// mover is a schedule that does not move a cache's misses.
type mover interface {
	moves() (m Moves, weights bool)
}

// denser is a schedule that moves whole layers of KV.
type denser interface {
	dense() *KVPR
}

// MovesOf says what a schedule moves, and whether weights go over the link too.
func MovesOf(s Schedule) (m Moves, weights bool) {
	if m, ok := s.(mover); ok {
		return m.moves()
	}
	return MovesMisses, false
}

// Serves names the model that a schedule's tokens come from. Speeds are only ranked among
// schedules that serve the same one.
type Serves string

// The models served.
const (
	SparseTopK    Serves = "sparse Top-K attention"
	DenseAttended Serves = "dense attention"
	// Quantized is dense attention over KV that was quantised, which loses precision.
	Quantized Serves = "dense attention, quantised KV"
)

// AttendsDensely reports whether attention reads the whole context, as the model was
// trained, rather than its Top-K. Such a schedule selects nothing, and takes as long
// whatever a cache would miss.
func AttendsDensely(s Schedule) bool {
	return ServesOf(s) != SparseTopK
}

// entry is a schedule of the table.
type entry struct {
	name   string
	serves Serves // with options that lose nothing
	usage  string
	// summary is one line of help.
	summary string
	parse   func(options string) (Schedule, error)
	aliases []string // the systems that it models, and other names
}

// ServesOf returns the model that a schedule of the table serves.
func ServesOf(s Schedule) Serves {
	if d, ok := s.(denser); ok && (d.dense().KV.Group > 0 || d.dense().X.Group > 0) {
		return Quantized
	}
	name, _, _ := strings.Cut(s.Name(), ":")
	for _, e := range table {
		if e.name == name {
			return e.serves
		}
	}
	panic("pipeline: schedule " + name + " is not in the table")
}

// predictor is a schedule that assumes a prediction.
type predictor interface {
	// predicts is the share of the misses that the prediction names, 0 to 1.
	predicts() float64
}

// Oracle reports whether a schedule predicts more misses than the profile measured.
// Profiles measure no predictions, so every prediction is assumed.
func Oracle(s Schedule) bool {
	p, ok := s.(predictor)
	return ok && p.predicts() > 0
}

var table = []entry{
	{"sequential", SparseTopK, "sequential[:lookup=gpu|cpu]", "select, look up, fetch, compute, one after the other", parseSequential, []string{"serial"}},
	{"prefetch", SparseTopK, "prefetch[:accuracy=1]", "a layer ahead, with the input of the layer before (InfiniGen)", parsePrefetch, []string{"infinigen"}},
	{"da", SparseTopK, "da", "attention on residents overlaps the fetch (ESS)", parseDA, []string{"ess"}},
	{"dba", SparseTopK, "dba[:phi=0.5,delta_us=0]", "da, and the last phi of the selection overlaps too (ESS)", parseDBA, []string{"ess"}},
	{"layerwise", SparseTopK, "layerwise[:phi=0.5,delta_us=0]", "da or dba, whichever exposes less, layer by layer (ESS)", parseLayerwise, []string{"ess"}},
	{"sfc", SparseTopK, "sfc[:parts=auto]", "micro-batches: GPU selects, CPU looks up, link fetches side by side (KVDrive)", parseSFC, []string{"kvdrive"}},
	{"tbo", SparseTopK, "tbo", "two halves of the batch, half a layer apart (two-batch overlap)", parseTBO, []string{"two-batch-overlap"}},
	{"kvpr", DenseAttended, "kvpr[:order=row|column,batches=1,weights=gpu|host,load=first|coarse|fine,recompute=on|paper|off,kv=fp16|int4,x=fp16|int4,group=64]", "all KV moves, a part of it is recomputed from activations x meanwhile (KVPR)", parseKVPR, nil},
	{"flexgen", DenseAttended, "flexgen[:batches=1,weights=gpu|host,kv=fp16|int4,group=64]", "all KV moves, a layer ahead (FlexGen)", parseFlexGen, nil},
	{"ellm", DenseAttended, "ellm[:uncached=auto,swap=auto,recompute=auto,choose=time,fused=no]", "first tokens stay uncached: layers run again while others are swapped in (eLLM)", parseELLM, nil},
	{"gpu", SparseTopK, "gpu", "sparse Top-K attention, all KV on the GPU", parseOnGPU, []string{"on-gpu"}},
	{"dense", DenseAttended, "dense", "dense attention over the whole context, all KV on the GPU", parseDense, nil},
}

// ScheduleList describes the schedules, a line each.
func ScheduleList() string {
	var b strings.Builder
	for _, e := range table {
		if len(e.usage) > 52 {
			fmt.Fprintf(&b, "  %s\n  %52s %s\n", e.usage, "", e.summary)
		} else {
			fmt.Fprintf(&b, "  %-52s %s\n", e.usage, e.summary)
		}
	}
	return strings.TrimRight(b.String(), "\n")
}

// scheduleNames are the names of the table with their aliases.
func scheduleNames() []names.Name {
	list := make([]names.Name, len(table))
	for i, e := range table {
		list[i] = names.Name{Name: e.name, Aliases: e.aliases}
	}
	return list
}

// ScheduleNames lists them without options.
func ScheduleNames() []string { return names.List(scheduleNames()) }

// ScheduleAliases lists the other names of schedules, as in "prefetch (infinigen)".
func ScheduleAliases() string {
	aliased := slices.DeleteFunc(scheduleNames(), func(n names.Name) bool { return n.Aliases == nil })
	return strings.Join(names.WithAliases(aliased), ", ")
}

// ParseSchedule reads "NAME[:OPTION=VALUE,...]". NAME may be an alias, in any case.
func ParseSchedule(text string) (Schedule, error) {
	name, options, _ := strings.Cut(text, ":")
	name, err := names.Find("schedule", name, scheduleNames())
	if err != nil {
		return nil, err
	}
	for _, e := range table {
		if e.name != name {
			continue
		}
		s, err := e.parse(options)
		if err != nil {
			return nil, fmt.Errorf("schedule %s: %w; usage: %s", text, err, e.usage)
		}
		return s, nil
	}
	panic("pipeline: no schedule is named " + name)
}

// named joins a schedule's name and the canonical text of its options.
func named(name, options string) string {
	if options == "" {
		return name
	}
	return name + ":" + options
}

// parts are those of the step, or the whole batch as one.
func (s *Step) parts() [][]Layer {
	if len(s.Parts) == 0 {
		return [][]Layer{s.Whole}
	}
	return s.Parts
}

// later ends with the last of two operations.
func (t *Timeline) later(a, b Op) Op { return t.Add(Join, 0, 0, 0, a, b) }

package schedule

import (
	"fmt"
	"slices"
	"strings"

	"github.com/kvreplay/kvreplay/internal/names"
	"github.com/kvreplay/kvreplay/internal/slice"
	"github.com/kvreplay/kvreplay/policies"
)

// Schedule places the operations of a step on a timeline. To add one, write its type next
// to its family and add a line to the table below.
type Schedule interface {
	// Name returns its text form with all options. Parse reads it.
	Name() string
	// Parts returns the number of parts of the batch, 1 if it stays whole.
	Parts() int
	// Traits returns the data that it moves and the model that it serves.
	Traits() Traits
	// Place adds a step to an empty timeline.
	Place(t *Timeline, s *Step)
}

// Traits are the properties of a schedule that its timeline does not show.
type Traits struct {
	Serves  Serves
	Moves   Moves
	Weights bool // weights also move over the link
	// Predicted is the share of the misses that a prediction names, 0 to 1. Profiles measure no
	// predictions, so every prediction is assumed.
	Predicted float64
}

// Moves is the data that a schedule moves. It decides which data must fit into the GPU.
type Moves int

// The data that moves.
const (
	MovesMisses   Moves = iota // misses of a cache, with the rest of the KV below it
	MovesNothing               // all KV is on the GPU
	MovesLayers                // each layer's KV in every step, with two layers on the GPU
	MovesUncached              // a share of the KV of some layers, in every step
	MovesQueries               // queries and outputs of attention, with all KV in host memory
	MovesDropped               // nothing: a lossy policy drops entries, and the rest is on the GPU
)

// Serves names the model that a schedule's tokens come from. Speeds are ranked only among schedules
// that serve the same model.
type Serves string

// The models served.
const (
	SparseTopK    Serves = "sparse Top-K attention"
	DenseAttended Serves = "dense attention"
	// LossyTopK is sparse attention over entries that lost precision (Entry.Lossy).
	LossyTopK Serves = "sparse Top-K attention, lossy entries"
	// Compressed is attention over the entries that a lossy policy keeps.
	Compressed Serves = "attention over kept entries, others dropped"
	// Quantized is dense attention over KV that was quantised, which loses precision.
	Quantized Serves = "dense attention, quantised KV"
)

// AttendsDensely reports whether attention reads the whole context, as the model was
// trained, instead of its Top-K. Such a schedule selects nothing, and its time does not
// depend on the misses of a cache.
func AttendsDensely(s Schedule) bool {
	serves := s.Traits().Serves
	return serves != SparseTopK && serves != Compressed
}

// Selects reports whether a schedule finds a Top-K.
func Selects(s Schedule) bool { return s.Traits().Serves == SparseTopK }

// HasCell reports whether the time of a schedule depends on the policy and its capacity.
func HasCell(s Schedule) bool {
	m := s.Traits().Moves
	return m == MovesMisses || m == MovesDropped
}

// wholeBatch is embedded by schedules that move a cache's misses and keep the batch whole.
type wholeBatch struct{ name string }

// Name returns the text form.
func (w wholeBatch) Name() string { return w.name }

// Parts returns 1.
func (wholeBatch) Parts() int { return 1 }

// Traits returns those of a schedule that moves misses.
func (wholeBatch) Traits() Traits { return Traits{Serves: SparseTopK} }

// canonical reads a schedule's options and returns its name with all of them.
func canonical(name, options string, list ...policies.Option) (wholeBatch, error) {
	text, err := policies.ParseOptions(options, list...)
	if text != "" {
		name += ":" + text
	}
	return wholeBatch{name}, err
}

// without leaves out the last option if it has this value, so that names stay those before the option.
func (w wholeBatch) without(option string) wholeBatch {
	if before, found := strings.CutSuffix(w.name, option); found {
		w.name = before[:len(before)-1] // and its separator
	}
	return w
}

// plain reads the options of a schedule that has none.
func plain(s Schedule) func(options string) (Schedule, error) {
	return func(options string) (Schedule, error) {
		_, err := policies.ParseOptions(options)
		return s, err
	}
}

// entry is a schedule of the table.
type entry struct {
	name, usage string
	summary     string // one line of help
	parse       func(options string) (Schedule, error)
	aliases     []string // the systems that it models and other names
}

var table = []entry{
	{"sequential", "sequential[:lookup=gpu|cpu]", "selects, looks up, fetches and computes one after the other", parseSequential, []string{"serial"}},
	{"prefetch", "prefetch[:accuracy=1]", "a layer ahead, with the input of the layer before (InfiniGen)", parsePrefetch, []string{"infinigen"}},
	{"da", "da[:attend=apart|whole]", "attention on residents overlaps the fetch (ESS), or follows it whole (ShadowKV)", parseDA, []string{"ess"}},
	{"dba", "dba[:phi=0.5,delta_us=0]", "da, and the last phi of the selection overlaps too (ESS)", parseDBA, []string{"ess"}},
	{"layerwise", "layerwise[:phi=0.5,delta_us=0]", "da or dba, whichever exposes less, layer by layer (ESS)", parseLayerwise, []string{"ess"}},
	{"sfc", "sfc[:parts=auto]", "micro-batches: the GPU selects, the CPU looks up and the link fetches at once (KVDrive)", parseSFC, []string{"kvdrive"}},
	{"tbo", "tbo[:within=none|da|dba,phi=0.5,delta_us=0]", "two halves of the batch take turns at each transfer (two-batch overlap)", parseTBO, []string{"two-batch-overlap"}},
	{"kvpr", "kvpr[:order=row|column,batches=1,weights=gpu|host,load=first|coarse|fine,recompute=on|paper|off,kv=fp16|int4,x=fp16|int4,group=64]", "all KV moves, except a part that is recomputed from activations meanwhile (KVPR)", parseKVPR, nil},
	{"flexgen", "flexgen[:batches=1,weights=gpu|host,kv=fp16|int4,group=64,cache=pinned|pageable]", "all KV moves, a layer ahead (FlexGen)", parseFlexGen, nil},
	{"ellm", "ellm[:uncached=auto,swap=auto,recompute=auto,choose=time,fused=no]", "first tokens stay uncached: some layers run again while others are swapped in (eLLM)", parseELLM, nil},
	{"host", "host[:attend=all|demand|missed,halves=no|yes,weights=gpu|host]", "the CPU attends to KV in host memory, or to the misses alone (FastDecode)", parseHost, []string{"fastdecode"}},
	{"gpu", "gpu", "sparse Top-K attention, all KV on the GPU", plain(OnGPU{}), []string{"on-gpu"}},
	{"kept", "kept", "attention over the entries that a lossy policy keeps, all on the GPU", plain(Kept{wholeBatch{"kept"}}), nil},
	{"dense", "dense", "dense attention over the whole context, all KV on the GPU", plain(OnGPU{Dense: true}), nil},
}

// List describes the schedules, one per line.
func List() string {
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

func (e entry) names() names.Name { return names.Name{Name: e.name, Aliases: e.aliases} }

// Names returns the names of the schedules without options.
func Names() []string { return names.List(slice.Map(table, entry.names)) }

// Aliases returns the other names of schedules, as in "prefetch (infinigen)".
func Aliases() string {
	aliased := slices.DeleteFunc(slice.Map(table, entry.names), func(n names.Name) bool { return n.Aliases == nil })
	return strings.Join(names.WithAliases(aliased), ", ")
}

// Parse reads "NAME[:OPTION=VALUE,...]". NAME may be an alias, in any case.
func Parse(text string) (Schedule, error) {
	name, options, _ := strings.Cut(text, ":")
	e, err := names.FindIn(table, "schedule", name, entry.names)
	if err != nil {
		return nil, err
	}
	s, err := e.parse(options)
	if err != nil {
		return nil, fmt.Errorf("schedule %s: %w; usage: %s", text, err, e.usage)
	}
	return s, nil
}

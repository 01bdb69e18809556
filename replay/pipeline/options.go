package pipeline

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/kvreplay/kvreplay/replay/collective"
	"github.com/kvreplay/kvreplay/replay/hardware"
	"github.com/kvreplay/kvreplay/replay/kernel"
	"github.com/kvreplay/kvreplay/replay/pipeline/operator"
	"github.com/kvreplay/kvreplay/replay/pipeline/schedule"
)

// Options state how to price a profile.
type Options struct {
	Machine   *hardware.Machine
	Model     *hardware.Model
	Scaling   *Scaling
	Selection operator.Selection
	Entry     operator.Entry // of schedules that move misses, others have the model's own
	Schedule  schedule.Schedule
	Batch     int
	Seed      uint64
	Steps     int     // 0: those of the longest request
	Context   int64   // tokens of every request, 0 for the profile's
	Positions int     // positions of every request that a step decodes, 0 for the profile's
	Accept    float64 // tokens that a step yields, 0 for 1 if steps have one position
	Experts   int     // GPUs that share routed experts, 0: doubled from 1 until half of each GPU is free
	Threads   int     // host threads for lookups, 0: those of the host
	Lookup    string  // structure that blocks are looked up in: page (also if it is ""), hash, sorted or list
	// TensorParallel is the number of GPUs that divide every layer, 0 for 1.
	TensorParallel int
	// PipelineParallel is the number of GPUs that divide the layers, 0 for 1.
	PipelineParallel int
	// Network returns the network between the GPUs of a machine, as Networks does. Tensor and pipeline
	// parallelism need it. If it is nil, the exchange of routed experts takes no time.
	Network   NetworkFinder
	Reserve   float64 // share of GPU memory for driver, context, activations and workspace, 0: estimated (Memory.Reserve)
	Occupied  float64 // bytes of a GPU that hold neither weights nor entries, instead of Reserve, 0: by Reserve
	Path      string  // call, batch, kernel, pageable, or the fastest for each fetch if it is "" or fastest
	Merge     bool    // adjacent missed blocks move as one piece over the link, and are one read of the SSD
	Fragments int64   // pieces of a block in memory, 0 for 1
	Depth     int64   // reads in flight to the drives, over all GPUs that share them, 0: the machine's
	Ahead     schedule.ReadAhead
	Mapped    bool // the SSD's file is mapped into memory, and reads are page faults. Otherwise they fill pinned buffers
	// Prefill, if it has a prompt, is priced before the steps.
	Prefill Prefill
	// Kernels returns the kernel model of the machine's GPU. If it is nil or returns nil, operators
	// take the times of a roofline. Commands set kernel.Fitted unless a flag says otherwise.
	Kernels kernel.Source
	// Engine adds its overhead to kernels. nil adds none.
	Engine *operator.Engine
	// Override, if not nil, replaces the times of operators. usual has those of Kernels. Studies of
	// papers use it if a paper has operators of its own.
	Override func(usual operator.Pricer) operator.Pricer
	// Priced, if not nil, gets the number of priced steps and their total before each step.
	Priced func(done, total int)

	shared
}

// Largest values of options. They exceed any machine, and their products fit into 63 bits.
const (
	// MostRequests is the largest batch.
	MostRequests  = 1 << 20
	mostContext   = 1 << 30 // tokens of a request
	mostPositions = 1 << 10 // positions in a step
	mostSteps     = 1 << 20
	mostFragments = 1 << 10 // pieces of a block
	mostThreads   = 1 << 12 // threads of a host
	mostDepth     = 1 << 20 // reads in flight
)

// Bounds checks the numbers with fixed bounds.
func (o *Options) Bounds() error {
	for _, b := range []struct {
		name             string
		value, low, most int64
	}{
		{"batch", int64(o.Batch), 1, MostRequests},
		{"context", o.Context, 0, mostContext},
		{"positions", int64(o.Positions), 0, mostPositions},
		{"steps", int64(o.Steps), 0, mostSteps},
		{"fragments", o.Fragments, 0, mostFragments},
		{"threads", int64(o.Threads), 0, mostThreads},
		{"reads in flight", o.Depth, 0, mostDepth},
		{"expert GPUs", int64(o.Experts), 0, math.MaxInt32},
		{"tensor-parallel GPUs", int64(o.TensorParallel), 0, collective.Most},
		{"pipeline-parallel GPUs", int64(o.PipelineParallel), 0, collective.Most},
	} {
		if b.value < b.low || b.value > b.most {
			return fmt.Errorf("%s %d, expected %d to %d", b.name, b.value, max(1, b.low), b.most) // 0 is a default
		}
	}
	if _, err := operator.ParseLookup(o.Lookup); err != nil {
		return err
	}
	if err := o.Prefill.check(); err != nil {
		return err
	}
	switch {
	case !(o.Reserve >= 0 && o.Reserve < 1): // excludes NaN
		return fmt.Errorf("reserve %g, expected a share of GPU memory, 0 to below 1", o.Reserve)
	case !(o.Occupied >= 0):
		return fmt.Errorf("%g occupied bytes of GPU memory, expected 0 or more", o.Occupied)
	case !(o.Ahead.Accuracy >= 0 && o.Ahead.Accuracy <= 1):
		return fmt.Errorf("read-ahead %g, expected a share of the reads, 0 to 1", o.Ahead.Accuracy)
	case o.Path != "" && o.Path != fastest && o.Path != pageable && !slices.Contains(hardware.PathNames, o.Path):
		return fmt.Errorf("path %q, expected %s, %s, %s", o.Path, fastest, strings.Join(hardware.PathNames, ", "), pageable)
	}
	return nil
}

// fastest selects the path that takes the least time for a fetch. pageable does the same in host
// memory that is not pinned.
const (
	fastest  = "fastest"
	pageable = "pageable"
)

func (o *Options) check(p *Profile) error {
	if err := o.Bounds(); err != nil {
		return err
	}
	positions := cmp.Or(o.Positions, max(1, p.Meta.StepTokens))
	switch parts := o.Schedule.Parts(); {
	case parts > o.Batch:
		return fmt.Errorf("schedule %s divides a batch of %d requests into %d parts", o.Schedule.Name(), o.Batch, parts)
	case !schedule.AttendsDensely(o.Schedule) && o.Schedule.Traits().Moves != schedule.MovesDropped && o.longest() < int64(o.Scaling.TopK):
		return fmt.Errorf("context %d, expected at least K, %d tokens: state a larger --context or a smaller --topk", o.longest(), o.Scaling.TopK)
	case !Decodes(o.Schedule, p) && p.Lossy():
		return fmt.Errorf("schedule %s selects among all entries, but %s drops some: choose kept", o.Schedule.Name(), p.Cell.Policy)
	case !Decodes(o.Schedule, p):
		return fmt.Errorf("schedule kept needs a policy that drops entries, and %s keeps all: choose another schedule", p.Cell.Policy)
	case o.Accept == 0 && positions > 1:
		return fmt.Errorf("a step decodes %d positions: state the tokens that it yields with --accept (1 to %d)", positions, positions)
	case o.Accept != 0 && !(o.Accept >= 1 && o.Accept <= float64(positions)): // excludes NaN
		return fmt.Errorf("accept %g, expected 1 to the %d positions that a step decodes", o.Accept, positions)
	case o.Experts > 1 && o.Model.MoE == nil:
		return fmt.Errorf("--expert-gpus %d has no effect, because %s has no routed experts", o.Experts, o.Model.Name)
	case o.Experts > 1 && o.Experts > int(o.Model.MoE.Experts.Value):
		return fmt.Errorf("%d GPUs for the routed experts of %s, expected at most %g, one per expert", o.Experts, o.Model.Name, o.Model.MoE.Experts.Value)
	case o.Ahead != schedule.ReadAhead{} && !p.Tiered:
		return errors.New("--read-ahead and --gpudirect have no effect, because the profile reads from no SSD: replay with a tier of host memory (--tier)")
	case o.Mapped && !p.Tiered:
		return errors.New("--mapped has no effect, because the profile reads from no SSD: replay with a tier of host memory (--tier)")
	case o.Mapped && o.Ahead.Direct:
		return errors.New("--mapped and --gpudirect: page faults read into host memory: choose one")
	case o.Ahead.Direct && !o.Machine.GPUDirect.Known():
		return fmt.Errorf("machine %s has no gpudirect rate: add one to its file, or remove --gpudirect", o.Machine.Name)
	case p.Tiered && o.Machine.Drive == nil:
		return fmt.Errorf("the profile reads from an SSD, and %s has none: choose another machine", o.Machine.Name)
	}
	if err := o.quantizable(); err != nil {
		return err
	}
	if err := o.checkEntry(p); err != nil {
		return err
	}
	if err := o.checkParallel(); err != nil {
		return err
	}
	return o.checkStages()
}

// longest returns the largest number of tokens that a head can select: the stated context, or else
// that of the model.
func (o *Options) longest() int64 { return cmp.Or(o.Context, int64(o.Model.Context.Value)) }

// quantizable refuses a schedule that quantises, unless the cache is K and V in FP16.
func (o *Options) quantizable() error {
	k, ok := o.Schedule.(*schedule.KVPR)
	if !ok || k.KV.Group == 0 || o.Model.CachesKeysAndValues() {
		return nil
	}
	return fmt.Errorf("it quantises FP16 keys and values, but %s caches other entries: leave kv=int4 out", o.Model.Name)
}

// entry returns the entry of the schedule: the model's own if no misses move.
func (o *Options) entry() operator.Entry {
	if o.Schedule.Traits().Moves != schedule.MovesMisses {
		return operator.Entry{}
	}
	return o.Entry
}

// checkEntry returns an error if heads select apart, but an entry has all heads.
func (o *Options) checkEntry(p *Profile) error {
	if o.entry().AllHeads() && p.Heads > 1 {
		return fmt.Errorf("entry hidden has all heads, but %d heads select apart: replay with --share-heads", p.Heads)
	}
	return nil
}

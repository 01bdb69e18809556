package kvpr

import (
	"context"
	"fmt"
	"strings"

	"github.com/kvreplay/kvreplay/replay/hardware"
	"github.com/kvreplay/kvreplay/replay/pipeline"
)

// bench prices the paper's settings.
type bench struct {
	ctx context.Context
	lib *hardware.Library
}

// rates are what a machine reaches.
type rates struct {
	link     float64 // bytes/s to the GPU
	flops    float64 // FLOP/s of recomputing
	overhead float64 // s a layer, row by row; column by column it is part of the link's rate
}

// setting is one run of the paper: a batch of equal prompts that decodes.
type setting struct {
	machine, model   string
	schedule         string
	batch            int // of all batches that pass a layer
	prompt, generate int
	// static: all positions that were allocated move, from the first step on, and what a
	// layer takes besides moving and recomputing is the overhead alone.
	static bool
	gpus   int // that share the host, each with such a batch; 0: as many as the machine has
}

// steps are those of decoding: prefill makes the first token.
func (s *setting) steps() float64 { return float64(s.generate - 1) }

// machine is a bundled one with a link and a GPU of some rates.
func (b *bench) machine(name string, gpus int, r rates) (*hardware.Machine, error) {
	bundled, err := b.lib.Machine(name)
	if err != nil {
		return nil, err
	}
	m, gpu := *bundled, *bundled.GPU
	m.Link = plainLink(r.link)
	gpu.AchievedBF16 = hardware.Fact[hardware.FLOPPerSecond]{Value: hardware.FLOPPerSecond(r.flops), Written: "fitted"}
	m.GPU = &gpu
	if gpus > 0 {
		m.GPUs = gpus
	}
	return &m, nil
}

// plainLink moves at one rate, whatever the pieces.
func plainLink(rate float64) *hardware.Link {
	paths := hardware.Paths{Call: &hardware.Curve{Regimes: []hardware.Regime{{Rate: hardware.Fact[hardware.BytesPerSecond]{Value: hardware.BytesPerSecond(rate), Written: "fitted"}}}}}
	return &hardware.Link{HostToDevice: paths, DeviceToHost: paths}
}

// price is what `kvreplay time` prints of a setting, on a machine with the given rates. It
// prices all steps, or one step if they are equal.
func (b *bench) price(s setting, r rates) (*pipeline.Result, error) {
	machine, err := b.machine(s.machine, s.gpus, r)
	if err != nil {
		return nil, err
	}
	o := pipeline.Options{Machine: machine, Threads: 1, Reserve: 0}
	if s.static {
		o.Table = overheadOnly(r.overhead)
	}
	return b.decode(s, o)
}

// shipped is what `kvreplay time` prints of a setting by default: on the bundled machine,
// without a constant of the paper.
func (b *bench) shipped(s setting) (*pipeline.Result, error) {
	machine, err := b.lib.Machine(s.machine)
	if err != nil {
		return nil, err
	}
	return b.decode(s, pipeline.Options{Machine: machine, Threads: 16, Reserve: 0.1, Depth: 64})
}

// decode prices a setting on a machine.
func (b *bench) decode(s setting, o pipeline.Options) (_ *pipeline.Result, err error) {
	if o.Model, err = b.lib.Model(s.model); err != nil {
		return nil, err
	}
	var profile *pipeline.Profile
	if profile, o.Scaling, err = pipeline.Decoding(s.prompt, s.generate, s.static, o.Model); err != nil {
		return nil, err
	}
	if o.Schedule, err = pipeline.ParseSchedule(s.schedule); err != nil {
		return nil, err
	}
	if o.Selection, err = pipeline.ParseSelection("auto", o.Model); err != nil {
		return nil, err
	}
	o.Batch = s.batch
	if s.static {
		o.Steps = 1
	}
	return pipeline.Price(b.ctx, profile, o)
}

// overheadOnly is a table of measured times, as `kvreplay time --table` reads it, in which
// a layer takes some seconds for all that is neither moving nor recomputing.
func overheadOnly(seconds float64) func(pipeline.Computer) (pipeline.Computer, error) {
	var csv strings.Builder
	csv.WriteString("operator,query_tokens,context_tokens,time_us\n")
	for _, operator := range []string{"project", "pre", "attend_all", "output"} {
		fmt.Fprintf(&csv, "%s,1,1,0\n", operator)
	}
	fmt.Fprintf(&csv, "post,1,1,%.17g\n", seconds*1e6)
	return func(rest pipeline.Computer) (pipeline.Computer, error) {
		return pipeline.ReadTimetable(strings.NewReader(csv.String()), "overhead", rest, false)
	}
}

// seconds is how long a setting decodes.
func (b *bench) seconds(s setting, r rates) (float64, error) {
	result, err := b.price(s, r)
	if err != nil {
		return 0, err
	}
	return result.Mean * s.steps(), nil
}

// tokens are tokens/s of a setting that takes once some seconds more.
func (b *bench) tokens(s setting, r rates, once float64) (float64, error) {
	t, err := b.seconds(s, r)
	return float64(s.batch) * s.steps() / (t + once), err
}

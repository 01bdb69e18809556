package kvpr

import (
	"github.com/kvreplay/kvreplay/replay/hardware"
	"github.com/kvreplay/kvreplay/replay/kernel"
	"github.com/kvreplay/kvreplay/replay/pipeline"
	"github.com/kvreplay/kvreplay/replay/pipeline/operator"
	"github.com/kvreplay/kvreplay/replay/reproduce"
	"github.com/kvreplay/kvreplay/replay/transfer"
)

// bench prices the paper's settings.
type bench struct{ *reproduce.Study }

// rates are the rates that a machine reaches.
type rates struct {
	link     float64 // bytes/s to the GPU
	flops    float64 // FLOP/s of recomputation
	overhead float64 // s per layer, row by row, part of the link's rate column by column
}

// setting is one run of the paper: a batch of equal prompts that decodes.
type setting struct {
	machine, model   string
	schedule         string
	batch            int // requests of all batches that pass a layer
	prompt, generate int
	// static moves all allocated positions from the first step on. The overhead is a layer's time
	// without moving and recomputing.
	static bool
	gpus   int // GPUs that share the host, each with such a batch, 0 for the machine's number
}

// steps returns the number of decode steps. Prefill makes the first token.
func (s *setting) steps() float64 { return float64(s.generate - 1) }

// plainLink returns a link with one rate for pieces of any size.
func plainLink(rate float64) *hardware.Link {
	fact := hardware.Fact[hardware.BytesPerSecond]{Value: hardware.BytesPerSecond(rate), Written: "fitted"}
	paths := hardware.Paths{Call: &hardware.Curve{Regimes: []hardware.Regime{{Rate: fact}}}}
	return &hardware.Link{HostToDevice: paths, DeviceToHost: paths}
}

// onePiece returns the time of one contiguous transfer at a rate.
func onePiece(rate float64, bytes int64) float64 {
	path := transfer.NewCurve(plainLink(rate).HostToDevice.Call, transfer.Packets{})
	return path.Time(transfer.Request{Descriptors: 1, Bytes: bytes, Launches: 1})
}

// price returns the output of `kvreplay time --kernels roofline` for a setting on a machine with the
// given rates. The paper's formulas have these rates and no launches.
func (b *bench) price(s setting, r rates) *pipeline.Result {
	m := *b.Machine(s.machine)
	gpu := *m.GPU
	gpu.AchievedBF16 = hardware.Fact[hardware.FLOPPerSecond]{Value: hardware.FLOPPerSecond(r.flops), Written: "fitted"}
	m.Link, m.GPU = plainLink(r.link), &gpu
	if s.gpus > 0 {
		m.GPUs = s.gpus
	}
	o := pipeline.Options{Machine: &m, Threads: 1, Kernels: kernel.None, Engine: b.Engine("none")}
	if s.static {
		o.Override = func(usual operator.Pricer) operator.Pricer { return overheadOnly{usual, r.overhead} }
	}
	return b.decode(s, o)
}

// shipped returns the output of `kvreplay time --engine pytorch` for a setting, on the bundled machine
// and without a constant of the paper. The systems of the paper run plain PyTorch.
func (b *bench) shipped(s setting) *pipeline.Result {
	return b.decode(s, pipeline.Options{Machine: b.Machine(s.machine), Threads: 16, Reserve: 0.1, Engine: b.Engine("pytorch")})
}

// decode prices all steps of a setting, or one step if they are equal.
func (b *bench) decode(s setting, o pipeline.Options) *pipeline.Result {
	o.Model, o.Batch = b.Model(s.model), s.batch
	if s.static {
		o.Steps = 1
	}
	profile, scaling, err := pipeline.Decoding(s.prompt, s.generate, s.static, o.Model)
	reproduce.Check(err)
	o.Scaling = scaling
	return b.Price(profile, s.schedule, "", o)
}

// overheadOnly are operators of a layer that takes some seconds in addition to moving and recomputing.
type overheadOnly struct {
	operator.Pricer
	seconds float64
}

// Layer returns the overhead as the time of the output projection and the FFN.
func (c overheadOnly) Layer(layer int, l *operator.Load) (o operator.Times, err error) {
	o, err = c.Pricer.Layer(layer, l)
	o.Project, o.Pre, o.AttendAll, o.Post = 0, 0, 0, c.seconds
	return o, err
}

// Output returns 0.
func (overheadOnly) Output(float64) (float64, error) { return 0, nil }

func (b *bench) seconds(s setting, r rates) float64 { return b.price(s, r).Mean * s.steps() }

// tokens returns tokens/s of a setting that takes once more seconds.
func (b *bench) tokens(s setting, r rates, once float64) float64 {
	return float64(s.batch) * s.steps() / (b.seconds(s, r) + once)
}

// predict compares a cell with the default output of kvreplay time. The fitted rates are only for
// the reason of a miss. It returns our figure, NaN if the setting does not fit.
func (b *bench) predict(
	d *reproduce.Draft, cell []reproduce.Row, s setting, r *rates, ours func(*pipeline.Result) float64,
) float64 {
	result := b.shipped(s)
	if !result.Fits() {
		d.Absent("default", append(cell, reproduce.Row{"verdict": result.Memory.Verdict})...)
		return reproduce.None
	}
	const large = 1 << 30
	m := b.Machine(s.machine)
	link := transfer.NewLink(m.Link).Fastest(transfer.HostToDevice)
	rate := large / link.Time(transfer.Request{Descriptors: 1, Bytes: large, Launches: 1})
	d.Set("default", ours(result), append(cell, reproduce.Row{"bundled": rate / 1e9, "link": r.link / 1e9,
		"share": 100 * r.flops / float64(m.GPU.BF16.Value), "overhead": 1e3 * r.overhead})...)
	return ours(result)
}

func tokensPerSecond(r *pipeline.Result) float64 { return r.Tokens }

package kvpr

import (
	"fmt"

	"github.com/kvreplay/kvreplay/replay/pipeline"
	"github.com/kvreplay/kvreplay/replay/reproduce"
	"github.com/kvreplay/kvreplay/replay/transfer"
)

// shippedGate is the gate of what users get by default. It is that of ESS's and KVDrive's
// predictions.
const shippedGate = 0.1

// Two lines compare each cell: priced by default, and with constants fitted to the paper.
const (
	byDefault  = ", by default"
	withFitted = ", fitted constants"
)

// shippedMethod explains the lines by default.
const shippedMethod = " Lines \"by default\" are the output of kvreplay time for the setting and schedule on the bundled machine. They use no constant of the paper."

// predict compares a cell with what kvreplay time prints by default. The rates are the
// fitted ones, for the reason of a miss.
func (b *bench) predict(item, unit string, printed float64, s setting, r *rates, figure func(*pipeline.Result) float64) (l reproduce.Line, err error) {
	item += byDefault
	result, err := b.shipped(s)
	if err != nil {
		return l, err
	}
	if !result.Fits() {
		return reproduce.Absent(item, unit, reproduce.Printed(printed), "kvreplay time rejects the setting: "+result.Memory.Verdict), nil
	}
	why, err := b.difference(s, r)
	if err != nil {
		return l, err
	}
	l = reproduce.Compare(reproduce.Prediction, item, unit, reproduce.Printed(printed), figure(result), reproduce.Gate{Relative: shippedGate})
	return l.Unless(why), nil
}

// difference compares the bundled link and the GPU's datasheet with the fitted rates.
func (b *bench) difference(s setting, r *rates) (string, error) {
	m, err := b.lib.Machine(s.machine)
	if err != nil {
		return "", err
	}
	const large = 1 << 30
	link := large / transfer.NewLink(m.Link).Fastest(transfer.HostToDevice).Time(transfer.Request{Descriptors: 1, Bytes: large, Launches: 1})
	text := fmt.Sprintf("by default the link moves %.1f GB/s. The fit to the paper gives %.1f GB/s, recomputation at %.0f %% of the datasheet's rate", link/1e9, r.link/1e9, 100*r.flops/float64(m.GPU.BF16.Value))
	if r.overhead > 0 {
		text += fmt.Sprintf(" and an overhead of %.2f ms a layer", 1e3*r.overhead)
	}
	return text, nil
}

// rate is the throughput of all requests, tokens/s.
func rate(r *pipeline.Result) float64 { return r.Tokens }

// decodes is how long a setting decodes by a result, s.
func (s *setting) decodes(r *pipeline.Result) float64 { return r.Mean * s.steps() }

package replay

import (
	"fmt"
	"math"
	"slices"

	"github.com/kvreplay/kvreplay/replay/referee"
	"github.com/kvreplay/kvreplay/trace"
)

// lossyCheck compares a lossy cell with the referee's replay of it, step by step.
type lossyCheck struct {
	want []referee.LossyCounts
	cell *lossyCell
	at   int
	err  error
}

// newLossyCheck replays cell c on the i-th selected stream with the referee, which reads the
// whole request.
func newLossyCheck(p *plan, i, c int, cell *lossyCell, st lossyStart) (*lossyCheck, error) {
	from, to := p.requestOf(i)
	reader := p.file.NewReader(trace.ReadScores | trace.ReadMasses | trace.ReadPromptMass)
	defer reader.Close()
	config := referee.LossyConfig{Policy: p.cells[c].spec.Name(), TopK: p.topk, Candidates: p.m, Windows: p.warmup.Replayed(),
		Sink: p.pins.Sink, Local: p.pins.Local, BlockTokens: p.pins.BlockTokens, Attention: st.attention.of, Masses: st.attention.masses, Covered: st.attention.covered}
	var streams []*trace.Stream
	for n := from; n < to; n++ {
		s := new(trace.Stream)
		if err := reader.Read(p.streams[n], s); err != nil {
			return nil, err
		}
		blocks, err := p.cells[c].capacity.Blocks(p.sizingOf(n))
		if err != nil {
			blocks = st.budget // a peak, which only methods have that do not divide
		}
		streams, config.Capacities = append(streams, s), append(config.Capacities, blocks)
	}
	want, err := referee.RunLossy(streams, i-from, config)
	return &lossyCheck{want: want, cell: cell}, err
}

// compare is an observer.
func (l *lossyCheck) compare(s *StepReport) {
	if l.err != nil || s.T < 0 {
		return
	}
	if l.at == len(l.want) {
		l.err = fmt.Errorf("referee: the engine replays step %d, the referee has ended", s.T)
		return
	}
	w := &l.want[l.at]
	l.at++
	victims := slices.Sorted(slices.Values(s.Victims))
	switch {
	case s.T != w.T || s.Step != w.Step:
		l.err = fmt.Errorf("referee: step %d (T = %d), the referee is at %d (T = %d)", s.Step, s.T, w.Step, w.T)
	case s.Births != len(w.Born) || s.Resident != len(w.Held):
		l.err = fmt.Errorf("referee: step %d: %d births and %d held, the referee counts %d and %d", w.Step, s.Births, s.Resident, len(w.Born), len(w.Held))
	case !slices.Equal(l.cell.holds(), w.Held):
		l.err = fmt.Errorf("referee: step %d: held %v, the referee has %v", w.Step, l.cell.holds(), w.Held)
	case !slices.Equal(s.Lost, w.Lost):
		l.err = fmt.Errorf("referee: step %d: lost %v, the referee has %v", w.Step, s.Lost, w.Lost)
	case !slices.Equal(victims, w.Dropped):
		l.err = fmt.Errorf("referee: step %d: dropped %v, the referee has %v", w.Step, victims, w.Dropped)
	case !nearMass(s.KeptMass, w.Kept) || !nearMass(s.CoveredMass, w.Covered):
		l.err = fmt.Errorf("referee: step %d: mass %v of %v kept, the referee has %v of %v", w.Step, float64(s.KeptMass)/massUnit, float64(s.CoveredMass)/massUnit, w.Kept, w.Covered)
	}
}

// holds are the blocks that are held, ascending.
func (c *lossyCell) holds() (blocks []int32) {
	for x := c.free; x < c.local; x++ {
		if c.there[x] != 0 {
			blocks = append(blocks, int32(x))
		}
	}
	return blocks
}

// nearMass compares a mass in parts of massUnit with a sum of floats.
func nearMass(parts int64, mass float64) bool {
	return math.Abs(float64(parts)/massUnit-mass) < 1e-6
}

// verdict is the first difference, or nil.
func (l *lossyCheck) verdict() error {
	if l.err == nil && l.at != len(l.want) {
		return fmt.Errorf("referee: the engine replayed %d steps, the referee %d", l.at, len(l.want))
	}
	return l.err
}

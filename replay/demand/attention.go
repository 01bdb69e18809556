package demand

import "github.com/kvreplay/kvreplay/trace"

// Attention is what a trace says of the attention that listed blocks were given.
type Attention struct {
	Weights bool // for policies: attention_mass, or softmax scores
	Masses  bool // shares of a step's attention: attention_mass, or softmax scores that are no maxima
	Covered bool // covered_mass says how much of it the whole list holds, where masses do not
	scores  bool // both are in the column of scores
}

// AttentionOf looks at a trace's columns.
func AttentionOf(m *trace.Meta, hasMass, hasScores, hasCovered bool) (a Attention) {
	switch {
	case hasMass:
		a.Weights, a.Masses = true, true
	case hasScores && m.ScoreKind == "softmax":
		a.Weights, a.scores, a.Masses = true, true, m.Reducer == trace.ReducerMean || m.Reducer == trace.ReducerNone
	}
	a.Covered = hasCovered && !a.Masses
	return a
}

// Given is the attention that the blocks of a row's list were given, nil if the trace has none.
func (a Attention) Given(s *trace.Stream, row int) []float32 {
	switch {
	case !a.Weights:
		return nil
	case a.scores:
		return s.ScoreList(row)
	}
	return s.AttentionMass[s.Offsets[row]:s.Offsets[row+1]]
}

// Attention is what the blocks of row i's list were given, as a says.
func (d *Delta) Attention(a Attention, i int) []float32 { return a.Given(d.stream, d.first+i) }

// CoveredMass is the share of the attention of row i that its list holds.
func (d *Delta) CoveredMass(i int) float64 { return float64(d.stream.CoveredMass[d.first+i]) }

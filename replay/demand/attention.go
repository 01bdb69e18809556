package demand

import "github.com/kvreplay/kvreplay/trace"

// Attention states which columns of a trace record the attention to listed blocks.
type Attention struct {
	Weights bool // policies may read attention: from attention_mass, or softmax scores
	Masses  bool // the attention of blocks adds up: attention_mass, or softmax scores that are no maxima
	Covered bool // covered_mass is the attention of whole lists, and Masses is false
	scores  bool // weights and masses are softmax scores
}

// AttentionOf derives the Attention of a trace from its columns.
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

// Given returns the attention to each block of a row's list, or nil if the trace has none.
func (a Attention) Given(s *trace.Stream, row int) []float32 {
	switch {
	case !a.Weights:
		return nil
	case a.scores:
		return s.ScoreList(row)
	}
	return s.MassList(row)
}

// Attention returns the attention to each block of row i's list, from the column that a states.
func (d *Delta) Attention(a Attention, i int) []float32 { return a.Given(d.stream, d.first+i) }

// CoveredMass returns the share of row i's attention that goes to the blocks of its list.
func (d *Delta) CoveredMass(i int) float64 { return float64(d.stream.CoveredMass[d.first+i]) }

package run

import (
	"github.com/kvreplay/kvreplay/policies"
	"github.com/kvreplay/kvreplay/replay/demand"
	"github.com/kvreplay/kvreplay/trace"
)

// columns are what a trace, or a stream in memory, has of what policies can need.
type columns struct {
	ranks, scores         bool
	attention, promptMass bool
	windows               bool // that the run replays
}

// columnsOf looks at a stream in memory.
func columnsOf(s *trace.Stream, m *trace.Meta, o *StreamOptions) columns {
	return columns{ranks: m.Order == trace.OrderRank, scores: len(s.Scores) > 0, attention: streamAttention(s, m, o).Weights,
		promptMass: len(s.PromptMass) > 0 || s.EmptyPromptMass}
}

// streamAttention is what a stream in memory says of the attention that listed blocks were given.
func streamAttention(s *trace.Stream, m *trace.Meta, o *StreamOptions) demand.Attention {
	return demand.AttentionOf(m, len(s.AttentionMass) > 0, len(s.Scores) > 0, len(s.CoveredMass) > 0 && o.Candidates == m.Candidates)
}

// lack says which column that a policy needs is not there. Empty if all are.
func (c columns) lack(needs policies.Needs) string {
	switch {
	case needs&policies.NeedCandidates != 0 && !c.ranks:
		return "it needs ranks, the trace has order=index"
	case needs&policies.NeedScores != 0 && !c.scores:
		return "it needs scores, the trace has none"
	}
	return ""
}

// lackLossy is lack for what lossy policies alone need.
func (c columns) lackLossy(needs policies.Needs) string {
	switch {
	case needs&policies.NeedAttention != 0 && !c.attention:
		return "it needs the attention that listed blocks were given, and the trace has neither attention_mass nor scores of kind softmax; capture with --attention-mass always, or let ranks stand in where the method has an option for it (h2o:scores=ranks)"
	case needs&policies.NeedPromptMass != 0 && !c.promptMass:
		return "it needs prompt_mass, which the trace has not; scripts/capture records it unless told --no-prompt-mass"
	case needs&policies.NeedWindows != 0 && !c.promptMass && !c.windows:
		return "it needs prompt windows or prompt_mass; the trace has neither, or the warm-up is cold (scripts/capture records both, --windows 32)"
	}
	return ""
}

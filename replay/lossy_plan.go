package replay

// hasLossy reports whether a cell of the plan is of a lossy policy.
func (p *plan) hasLossy() bool {
	for _, c := range p.cells {
		if c.spec.Entry.Traits.Lossy {
			return true
		}
	}
	return false
}

// attention is what the trace says of the attention that listed blocks were given.
func (p *plan) attention() attention {
	whole := p.m == p.meta.Candidates // covered_mass is of whole lists
	return attentionOf(p.meta, p.file.HasAttentionMass(), p.file.HasScores(), p.file.HasCoveredMass() && whole)
}

package replay

import (
	"fmt"

	"github.com/kvreplay/kvreplay/policies"
)

// hasLossy reports whether a cell of the plan is of a lossy policy.
func (p *plan) hasLossy() bool {
	for _, c := range p.cells {
		if c.spec.Entry.Traits.Lossy {
			return true
		}
	}
	return false
}

// lossyUnable says why a lossy policy cannot run on the trace; empty if it can.
func (p *plan) lossyUnable(spec policies.Spec, needs policies.Needs) string {
	switch {
	case !p.layout.plain():
		return "lossy methods drop what the trace lists: without --block-tokens, --share-heads, --mtp and --clusters (kvreplay derive makes traces of blocks)"
	case p.opt.Pool != PoolNone || p.opt.Reallocation.Every > 0:
		return "lossy methods have budgets of their own: without --pool and --reallocate"
	case p.opt.Outliers.Source != OutliersNone:
		return "lossy methods choose themselves what stays: without --outliers"
	case p.opt.Prefetch.Source != PrefetchNothing:
		return "lossy methods fetch nothing: without --prefetch"
	case len(p.opt.Tiers) > 0:
		return "lossy methods keep nothing below the GPU: without --tier"
	case p.warmup.Kind == WarmupImportance || p.warmup.Kind == WarmupStaging:
		return fmt.Sprintf("it compresses the prompt itself, the warm-up %v places blocks: choose lru:W or cold", p.warmup)
	}
	if why := p.has.lackLossy(needs); why != "" {
		return why
	}
	if _, divides := spec.Make().(policies.Divider); divides {
		for _, c := range p.opt.Capacities {
			if c.kind == peakOf || c.kind == planned {
				return fmt.Sprintf("it divides the memory of a request itself, and %v is of single streams", c)
			}
		}
	}
	return ""
}

// attention is what the trace says of the attention that listed blocks were given.
func (p *plan) attention() attention {
	whole := p.m == p.meta.Candidates // covered_mass is of whole lists
	return attentionOf(p.meta, p.file.HasAttentionMass(), p.file.HasScores(), p.file.HasCoveredMass() && whole)
}

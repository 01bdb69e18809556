package run

import (
	"fmt"

	"github.com/kvreplay/kvreplay/replay/setting"
)

// checkPrefetch checks the prefetcher against the trace.
func (p *plan) checkPrefetch() error {
	f := p.opt.Prefetch
	switch {
	case f.Source == setting.PrefetchNothing:
		return nil
	case f.Source == setting.PrefetchPredicted && !p.file.HasPredicted():
		return fmt.Errorf("prefetch %v needs predicted_indices, the trace has none", f)
	case f.Source == setting.PrefetchCandidates && !p.ranks:
		return fmt.Errorf("prefetch %v needs ranks, the trace has order=index", f)
	case f.Source == setting.PrefetchCandidates && p.m == p.topk:
		return fmt.Errorf("prefetch %v needs candidates beyond K = %d, M is %d (--topk takes a smaller K)", f, p.topk, p.m)
	}
	p.warn = append(p.warn, fmt.Sprintf("prefetch %v: OPT bounds no misses here; judge misses and moved entries together", f))
	return nil
}

package derive

import (
	"errors"
	"fmt"
	"maps"

	"github.com/kvreplay/kvreplay/trace"
)

// NoteDerived is the key of the metadata note that says what was derived from what.
const NoteDerived = "derived"

// measuredNotes say what the capture measured of a selector's first K: they hold for no
// other demand.
var measuredNotes = []string{"exact.recall", "exact.resident", "exact.mass"}

// derivedMeta checks the options against the source and fills p.meta and p.cut.
func (p *plan) derivedMeta(f *trace.File) error {
	p.meta = *p.source
	if err := p.budget(); err != nil {
		return err
	}
	if err := p.blocks(); err != nil {
		return err
	}
	if err := p.union(f); err != nil {
		return err
	}
	p.precision(f)
	p.drops(f)
	digest, err := f.Digest()
	p.digest = digest
	if err != nil {
		return err
	}
	p.meta.Notes = maps.Clone(p.meta.Notes)
	if p.meta.Notes == nil {
		p.meta.Notes = map[string]string{}
	}
	if p.meta.TopK != p.source.TopK || p.meta.BlockTokens != p.source.BlockTokens || p.o.Union {
		for _, key := range measuredNotes {
			delete(p.meta.Notes, key)
		}
	}
	before := p.meta.Notes[NoteDerived]
	if before != "" {
		before += "; then "
	}
	done := p.o.String()
	if done == "" {
		done = "copying"
	}
	p.meta.Notes[NoteDerived] = before + "from " + digest + " by " + done
	return nil
}

// budget sets K and M.
func (p *plan) budget() error {
	k, m := p.source.TopK, p.source.Candidates
	if p.o.TopK < 0 || p.o.Candidates < 0 {
		return fmt.Errorf("--topk %d and --candidates %d: expected positive numbers", p.o.TopK, p.o.Candidates)
	}
	if p.o.TopK != 0 {
		k = p.o.TopK
	}
	if p.o.Candidates != 0 {
		m = p.o.Candidates
	}
	switch {
	case k == p.source.TopK && m == p.source.Candidates:
		return nil
	case p.source.Order == trace.OrderIndex:
		return fmt.Errorf("order=index: the source gives no ranks, so its lists of K = M = %d cannot be cut to K = %d, M = %d", p.source.TopK, k, m)
	case m > p.source.Candidates:
		return fmt.Errorf("--candidates %d: the source has lists of M = %d", m, p.source.Candidates)
	case k > m && p.o.TopK == 0:
		return fmt.Errorf("--candidates %d cuts into the demand of K = %d: give a smaller --topk as well", m, k)
	case k > m:
		return fmt.Errorf("--topk %d exceeds M = %d, the length of the lists", k, m)
	}
	p.meta.TopK, p.meta.Candidates, p.cut = k, m, m
	return nil
}

// blocks sets block_tokens; K and M then follow from the lists.
func (p *plan) blocks() error {
	b := p.o.BlockTokens
	switch {
	case b == 0 || b == p.source.BlockTokens:
		return nil
	case b < 0 || b%p.source.BlockTokens != 0:
		return fmt.Errorf("--block-tokens %d: expected a multiple of the source's %d", b, p.source.BlockTokens)
	case p.meta.TopK != p.meta.Candidates:
		return fmt.Errorf("--block-tokens %d: the demand of K = %d tokens becomes a different number of blocks at each step, so that no K separates it from the candidates (M = %d); cut the candidates off with --topk %d --candidates %d",
			b, p.meta.TopK, p.meta.Candidates, p.meta.TopK, p.meta.TopK)
	}
	p.meta.BlockTokens, p.meta.TopK, p.meta.Candidates = b, 0, 0 // the writer fills in the longest list
	return nil
}

// union sets what the union of heads changes.
func (p *plan) union(f *trace.File) error {
	if !p.o.Union {
		return nil
	}
	if p.o.Candidates != 0 && p.o.Candidates != p.meta.TopK && p.o.BlockTokens == 0 {
		return errors.New("--candidates with --heads union: a union is of the heads' demands (--topk), it has no ranks and so no candidates")
	}
	if p.meta.TopK != 0 {
		p.cut = p.meta.TopK
	}
	heads, err := p.headsPerLayer(f)
	if err != nil {
		return err
	}
	p.meta.Order, p.meta.Reducer, p.meta.TopK, p.meta.Candidates = trace.OrderIndex, trace.ReducerUnion, 0, 0
	p.meta.EntryBytes *= heads
	p.meta.ScoreKind, p.meta.ScoreMantissaBits = "", nil
	return nil
}

// precision keeps scores and masses whose precision the source does not state as they are,
// where the writer would round them.
func (p *plan) precision(f *trace.File) {
	if p.meta.ScoreMantissaBits == nil && !p.o.Union && (f.HasScores() || f.HasAttentionMass() || f.HasPromptMass()) {
		exact := 23
		p.meta.ScoreMantissaBits = &exact
	}
}

// headsPerLayer is the number of streams that become one. All layers have the same:
// the entry of a union is the entries of its heads.
func (p *plan) headsPerLayer(f *trace.File) (int, error) {
	count := map[trace.Key]int{}
	for _, i := range p.streams {
		s := f.Streams()[i]
		if s.Head == trace.NoHead {
			return 0, fmt.Errorf("--heads union: %v has no heads, they share its selection already", s.Key)
		}
		count[trace.Key{Request: s.Request, Layer: s.Layer, Head: trace.NoHead}]++
	}
	first := f.Streams()[p.streams[0]].Key
	first.Head = trace.NoHead
	for key, n := range count {
		if n != count[first] {
			return 0, fmt.Errorf("--heads union: %v has %d heads, %v has %d, expected as many in every layer", first, count[first], key, n)
		}
	}
	return count[first], nil
}

// drops notes the columns that lose their meaning.
func (p *plan) drops(f *trace.File) {
	shorter := p.cut < p.source.Candidates
	if f.HasCoveredMass() && (shorter || p.o.Union) {
		p.result.Dropped = append(p.result.Dropped, "covered_mass")
	}
	if p.o.Union && f.HasScores() {
		p.result.Dropped = append(p.result.Dropped, "scores")
	}
	if p.o.Union && f.HasAttentionMass() {
		p.result.Dropped = append(p.result.Dropped, "attention_mass")
	}
	if p.o.Union && f.HasPromptMass() {
		p.result.Dropped = append(p.result.Dropped, "prompt_mass")
	}
}

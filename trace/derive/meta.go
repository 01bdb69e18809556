package derive

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/kvreplay/kvreplay/trace"
)

// NoteDerived is the key of the metadata note that states the operations and the source.
const NoteDerived = "derived"

// measuredNotes are the measurements of a selector's first K at capture. They do not apply to
// another demand. With a dot and a number, they are those of that many tokens.
var measuredNotes = []string{"exact.recall", "exact.resident", "exact.mass"}

// derivedMeta checks the options against the source and fills d.meta and d.cut.
func (d *derivation) derivedMeta(f *trace.File) error {
	d.meta = *d.from
	if err := d.budget(); err != nil {
		return err
	}
	if err := d.blocks(); err != nil {
		return err
	}
	if err := d.union(f); err != nil {
		return err
	}
	// The writer rounds scores and masses of no stated precision. Keep them as they are.
	if d.meta.ScoreMantissaBits == nil && !d.o.Union && (f.HasScores() || f.HasAttentionMass() || f.HasPromptMass()) {
		d.meta.ScoreMantissaBits = new(23)
	}
	d.drops(f)
	digest, err := f.Digest()
	d.digest = digest
	if err != nil {
		return err
	}
	d.meta.Notes = maps.Clone(d.meta.Notes)
	if d.meta.Notes == nil {
		d.meta.Notes = map[string]string{}
	}
	d.measurements()
	before := d.meta.Notes[NoteDerived]
	if before != "" {
		before += "; then "
	}
	done := cmp.Or(d.o.String(), "copying")
	d.meta.Notes[NoteDerived] = before + "from " + digest + " by " + done
	return nil
}

// measurements keeps the notes on the selector's first K that apply to the derived demand. With
// another K they are those that capture made at that K, such as exact.recall.256 for 256 tokens.
func (d *derivation) measurements() {
	same := d.meta.BlockTokens == d.from.BlockTokens && !d.o.Union
	if same && d.meta.TopK == d.from.TopK {
		return
	}
	for _, key := range measuredNotes {
		value, measured := d.meta.Notes[fmt.Sprintf("%s.%d", key, d.meta.TopK*d.meta.BlockTokens)]
		if delete(d.meta.Notes, key); measured && same {
			d.meta.Notes[key] = value
		}
	}
	maps.DeleteFunc(d.meta.Notes, func(key, _ string) bool {
		return !same && slices.ContainsFunc(measuredNotes, func(m string) bool { return strings.HasPrefix(key, m+".") })
	})
}

func (d *derivation) budget() error {
	k, m := d.from.TopK, d.from.Candidates
	if d.o.TopK < 0 || d.o.Candidates < 0 {
		return fmt.Errorf("--topk %d and --candidates %d: expected positive numbers", d.o.TopK, d.o.Candidates)
	}
	if d.o.TopK != 0 {
		k = d.o.TopK
	}
	if d.o.Candidates != 0 {
		m = d.o.Candidates
	}
	switch {
	case k == d.from.TopK && m == d.from.Candidates:
		return nil
	case d.from.Order == trace.OrderIndex:
		return fmt.Errorf("order=index: the source gives no ranks, so its lists of K = M = %d cannot be cut to K = %d, M = %d", d.from.TopK, k, m)
	case m > d.from.Candidates:
		return fmt.Errorf("--candidates %d exceeds M = %d of the source", m, d.from.Candidates)
	case k > m && d.o.TopK == 0:
		return fmt.Errorf("--candidates %d is below K = %d: lower --topk too", m, k)
	case k > m && m < d.from.Candidates:
		return fmt.Errorf("--topk %d exceeds --candidates %d, expected at most M", k, m)
	case k > m:
		return fmt.Errorf("--topk %d exceeds M = %d of the source", k, m)
	}
	d.meta.TopK, d.meta.Candidates, d.cut = k, m, m
	return nil
}

// blocks sets block_tokens. K and M then follow from the lists.
func (d *derivation) blocks() error {
	b := d.o.BlockTokens
	switch {
	case b == 0 || b == d.from.BlockTokens:
		return nil
	case b > 1<<30:
		return fmt.Errorf("--block-tokens %d: expected at most %d", b, 1<<30)
	case b < 0 || b%d.from.BlockTokens != 0:
		return fmt.Errorf("--block-tokens %d: expected a multiple of the source's %d", b, d.from.BlockTokens)
	case d.meta.TopK != d.meta.Candidates:
		return fmt.Errorf("--block-tokens %d: K = %d tokens fill a varying number of blocks, so no K can mark candidates (M = %d). Drop them: --topk %d --candidates %d",
			b, d.meta.TopK, d.meta.Candidates, d.meta.TopK, d.meta.TopK)
	}
	d.meta.BlockTokens, d.meta.TopK, d.meta.Candidates = b, 0, 0 // the writer computes K and M from the longest list
	return nil
}

func (d *derivation) union(f *trace.File) error {
	if !d.o.Union {
		return nil
	}
	if d.o.Candidates != 0 && d.o.Candidates != d.meta.TopK && d.o.BlockTokens == 0 {
		return errors.New("--candidates and --heads union: a union of demands has no ranks and no candidates. Remove --candidates")
	}
	if d.meta.TopK != 0 {
		d.cut = d.meta.TopK
	}
	heads, err := d.headsPerLayer(f)
	if err != nil {
		return err
	}
	d.meta.Order, d.meta.Reducer, d.meta.TopK, d.meta.Candidates = trace.OrderIndex, trace.ReducerUnion, 0, 0
	d.meta.EntryBytes *= heads
	d.meta.ScoreKind, d.meta.ScoreMantissaBits = "", nil
	return nil
}

// headsPerLayer returns the number of heads that a union merges, which must be equal in all layers. An
// entry of a union consists of the entries of its heads.
func (d *derivation) headsPerLayer(f *trace.File) (int, error) {
	count := map[trace.Key]int{}
	for _, i := range d.streams {
		s := f.Streams()[i]
		if s.Head == trace.NoHead {
			return 0, fmt.Errorf("--heads union: the heads of %v share its selection already. Remove --heads", s.Key)
		}
		count[trace.Key{Request: s.Request, Layer: s.Layer, Head: trace.NoHead}]++
	}
	first := f.Streams()[d.streams[0]].Key
	first.Head = trace.NoHead
	for key, n := range count {
		if n != count[first] {
			return 0, fmt.Errorf("--heads union: %v has %d heads, %v has %d, expected equal numbers", first, count[first], key, n)
		}
	}
	return count[first], nil
}

// drops notes the columns that lose their meaning.
func (d *derivation) drops(f *trace.File) {
	shorter := d.cut < d.from.Candidates
	for _, c := range []struct {
		name string
		lost bool
	}{{"covered_mass", f.HasCoveredMass() && (shorter || d.o.Union)}, {"scores", f.HasScores() && d.o.Union},
		{"attention_mass", f.HasAttentionMass() && d.o.Union}, {"prompt_mass", f.HasPromptMass() && d.o.Union}} {
		if c.lost {
			d.result.Dropped = append(d.result.Dropped, c.name)
		}
	}
}

package importer

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/kvreplay/kvreplay/trace"
)

// flagNames maps JSON keys of metadata fields that must agree to the flags that state them.
var flagNames = map[string]string{
	"order": "--order", "topk": "--topk", "block_tokens": "--block-tokens", "sink": "--sink", "local": "--local",
	"entry_bytes": "--entry-bytes", "selector": "--note selector", "reducer": "--note reducer", "score_kind": "--note score_kind",
	"score_mantissa_bits": "--score-bits", "model": "--model", "generator": "--note generator", "decoding": "--note decoding",
	"licence": "--licence",
}

// metadata merges the statements of options and sources into the metadata of the trace.
func (c *collector) metadata() (trace.Meta, error) {
	flags := c.opts.Meta
	flags.Candidates = 0
	meta, err := combine(append([]statement{{source: "", meta: flags}}, c.statements...))
	if err != nil {
		return meta, err
	}
	if err := c.findOrder(&meta); err != nil {
		return meta, err
	}
	if err := c.findTopK(&meta); err != nil {
		return meta, err
	}
	if meta.Candidates > 0 && meta.Order == trace.OrderRank { // a source states it for its own lists
		meta.Candidates = max(meta.Candidates, c.longest)
	}
	if err := c.findPrompts(); err != nil {
		return meta, err
	}
	c.warnUnsaid(&meta)
	return meta, meta.Validate()
}

// combine merges statements field by field. The first is that of the flags. Two different values
// are an error, except for notes. Notes of several sources are joined, and a note from a flag
// replaces them.
func combine(all []statement) (trace.Meta, error) {
	merged := trace.Meta{Version: trace.Version}
	from, notes := map[string]string{}, map[string][]string{}
	for _, s := range all {
		merged.Candidates = max(merged.Candidates, s.meta.Candidates)
		for note, v := range s.meta.Notes {
			if _, flag := all[0].meta.Notes[note]; (!flag || s.source == "") && !slices.Contains(notes[note], v) {
				notes[note] = append(notes[note], v)
			}
		}
		for i, f := range reflect.VisibleFields(reflect.TypeFor[trace.Meta]()) {
			key, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			flag, ok := flagNames[key]
			v, to := reflect.ValueOf(s.meta).Field(i), reflect.ValueOf(&merged).Elem().Field(i)
			if !ok || v.IsZero() {
				continue
			}
			if old, known := from[key]; known && !reflect.DeepEqual(to.Interface(), v.Interface()) {
				return merged, fmt.Errorf("%s: states %s %v, but %s states %v, expected equal values", s.source, key, reflect.Indirect(v), cmp.Or(old, flag), reflect.Indirect(to))
			}
			to.Set(v)
			from[key] = s.source
		}
	}
	for note, values := range notes {
		if merged.Notes == nil {
			merged.Notes = map[string]string{}
		}
		merged.Notes[note] = strings.Join(values, "; ")
	}
	merged.BlockTokens = max(merged.BlockTokens, 1)
	return merged, nil
}

// findOrder finds the order if no flag states it. Either every source states it, or scores rank the
// lists. The statement of one source does not apply to the lists of another.
func (c *collector) findOrder(m *trace.Meta) error {
	flag := c.opts.Meta.Order != ""
	switch {
	case c.scored != "" && m.Order == trace.OrderIndex && flag:
		return fmt.Errorf("%s: has scores, which rank the list, but order=index is stated: remove --order, or the scores", c.scored)
	case c.scored != "" && m.Order == trace.OrderIndex:
		return fmt.Errorf("%s: has scores, which rank the list, but another source states order=index (no ranks): make a trace of each", c.scored)
	case flag:
		return nil
	case c.scored != "" && c.unscored != "":
		return fmt.Errorf("%s: has scores and %s has none: expected scores in all records or in none", c.scored, c.unscored)
	case c.unscored != "":
		return fmt.Errorf("%s: does not state the order of its lists: add --order rank (best first) or --order index (no order)", c.unscored)
	case c.scored != "":
		m.Order = trace.OrderRank
	}
	return nil
}

// findTopK finds K: the length of the longest list, unless K is stated. A stated K may be larger if
// no context holds K blocks. If only a flag states it, the longest list must also hold its whole
// context.
func (c *collector) findTopK(m *trace.Meta) error {
	small := m.Blocks(int(c.maxSeqLen)) < m.TopK
	if c.opts.Meta.TopK > 0 && !slices.ContainsFunc(c.statements, func(s statement) bool { return s.meta.TopK > 0 }) {
		sink, local, _ := m.Pins()
		small = small && c.longest*m.BlockTokens+sink+local >= int(c.longestOf)
	}
	switch {
	case m.TopK == 0:
		m.TopK = c.longest
	case m.TopK > c.longest && !small && m.Candidates < m.TopK:
		return fmt.Errorf("topk K = %d exceeds the longest list, %d indices of a context of %d blocks (%s). Lower K", m.TopK, c.longest, m.Blocks(int(c.longestOf)), c.longestAt)
	case m.Order == trace.OrderIndex && m.TopK < c.longest:
		return fmt.Errorf("topk K = %d, but with order=index K is the length of the longest list, %d (%s): remove --topk", m.TopK, c.longest, c.longestAt)
	}
	return nil
}

func (c *collector) findPrompts() error {
	given := int32(c.opts.PromptLen)
	for _, id := range slices.Sorted(maps.Keys(c.requests)) {
		q := c.requests[id]
		switch {
		case !q.implied:
		case q.varies && given == 0:
			return fmt.Errorf("request %q: context − step − 1, the prompt length, is %d (%s) and %d (%s), expected one. State --prompt-len",
				id, q.prompt, c.where(q.at), q.prompt2, c.where(q.at2))
		case q.varies:
			q.resolved = given
			c.warn("request %q: step numbers contradict the contexts, so steps are counted from --prompt-len %d", id, given)
		case given != 0 && given != q.prompt:
			return fmt.Errorf("%s: request %q implies a prompt of %d tokens (context − step − 1), but --prompt-len is %d", c.where(q.at), id, q.prompt, given)
		default:
			q.resolved = q.prompt
		}
	}
	return nil
}

// warnUnsaid warns about facts that are not stated and that the replay will assume.
func (c *collector) warnUnsaid(m *trace.Meta) {
	if _, _, known := m.Pins(); !known {
		c.warn("sink and local sizes are not both stated (--sink, --local): replay assumes 0 and 1")
	}
	if m.EntryBytes == 0 {
		c.warn("entry_bytes is not stated (--entry-bytes): replay cannot count bytes")
	}
	if !c.ownSeen && m.BlockTokens == 1 && m.Local == nil {
		c.warn("no list has the token being decoded: state --local if the selector omits the local window, else check the positions")
	}
}

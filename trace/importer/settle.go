package importer

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/kvreplay/kvreplay/trace"
)

// flagNames are the flags that state a field of the metadata, by its JSON key.
var flagNames = map[string]string{
	"order": "--order", "topk": "--topk", "block_tokens": "--block-tokens", "sink": "--sink", "local": "--local",
	"entry_bytes": "--entry-bytes", "selector": "--selector", "reducer": "--reducer", "score_kind": "--score-kind",
	"score_mantissa_bits": "--score-bits", "model": "--model", "generator": "--generator", "decoding": "--decoding",
	"licence": "--licence", "notes": "--note",
}

// settle joins what options and sources state into the metadata of the trace.
func (c *collector) settle() (trace.Meta, error) {
	flags := c.opts.Stated
	flags.Candidates = 0
	meta, err := combine(append([]stated{{name: "", meta: flags}}, c.stated...))
	if err != nil {
		return meta, err
	}
	if err := c.settleOrder(&meta); err != nil {
		return meta, err
	}
	if err := c.settleTopK(&meta); err != nil {
		return meta, err
	}
	if meta.Candidates > 0 && meta.Order == trace.OrderRank { // stated by a source, for its own lists
		meta.Candidates = max(meta.Candidates, c.longest)
	}
	if err := c.settlePrompts(); err != nil {
		return meta, err
	}
	c.warnUnsaid(&meta)
	return meta, meta.Validate()
}

// combine merges statements field by field; two that differ are an error, but for
// notes: what sources note differently is kept side by side, and a flag's note stands
// for theirs.
func combine(all []stated) (trace.Meta, error) {
	merged, from, notes := map[string]any{}, map[string]string{}, notes{}
	candidates := 0
	for _, s := range all {
		candidates = max(candidates, s.meta.Candidates)
		fields, err := statedFields(s.meta)
		if err != nil {
			return trace.Meta{}, err
		}
		for _, key := range slices.Sorted(maps.Keys(fields)) {
			v := fields[key]
			if strings.HasPrefix(key, notePrefix) {
				notes.add(key, v.(string), s.name == "")
				continue
			}
			if old, ok := merged[key]; ok && !reflect.DeepEqual(old, v) {
				return trace.Meta{}, fmt.Errorf("%s: says %s %v, but %s says %v: sources and flags must agree", s.name, key, v, speaker(from[key], key), old)
			}
			merged[key], from[key] = v, s.name
		}
	}
	for key, n := range notes {
		merged[key] = strings.Join(n.values, "; ")
	}
	text, err := json.Marshal(unflatten(merged))
	if err != nil {
		return trace.Meta{}, err
	}
	var meta trace.Meta
	err = json.Unmarshal(text, &meta)
	meta.Version, meta.Candidates = trace.Version, candidates
	meta.BlockTokens = max(meta.BlockTokens, 1)
	return meta, err
}

// notes are what sources and flags note, by field.
type notes map[string]*noted

type noted struct {
	values []string
	flag   bool // said by a flag
}

// add keeps a value beside those of other sources, each once; a flag's stands alone.
func (n notes) add(key, value string, flag bool) {
	old := n[key]
	switch {
	case old == nil || flag:
		n[key] = &noted{[]string{value}, flag}
	case !old.flag && !slices.Contains(old.values, value):
		old.values = append(old.values, value)
	}
}

// speaker names who stated key: a source, or the flag.
func speaker(name, key string) string {
	if name != "" {
		return name
	}
	if flag, ok := flagNames[key]; ok {
		return flag
	}
	return "--note"
}

// notePrefix marks a note among the fields.
const notePrefix = "note "

// statedFields are the fields that m states, by JSON key; notes one by one.
func statedFields(m trace.Meta) (map[string]any, error) {
	text, err := m.Canonical()
	if err != nil {
		return nil, err
	}
	fields := map[string]any{}
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	if err := dec.Decode(&fields); err != nil {
		return nil, err
	}
	delete(fields, "version")
	delete(fields, "candidates")
	delete(fields, "notes")
	for _, key := range []string{"order", "topk", "block_tokens"} { // written even when unsaid
		if v := fields[key]; v == "" || v == json.Number("0") {
			delete(fields, key)
		}
	}
	for key, v := range m.Notes {
		fields[notePrefix+key] = v
	}
	return fields, nil
}

// unflatten puts the notes back into one object.
func unflatten(fields map[string]any) map[string]any {
	out, notes := map[string]any{}, map[string]any{}
	for key, v := range fields {
		if len(key) > len(notePrefix) && key[:len(notePrefix)] == notePrefix {
			notes[key[len(notePrefix):]] = v
			continue
		}
		out[key] = v
	}
	if len(notes) > 0 {
		out["notes"] = notes
	}
	return out
}

// settleOrder finds the order where no flag states it: every source does, or scores rank the
// lists. What one source says of its lists does not hold for another's.
func (c *collector) settleOrder(m *trace.Meta) error {
	said := c.opts.Stated.Order != ""
	switch {
	case c.scored != "" && m.Order == trace.OrderIndex && said:
		return fmt.Errorf("%s: has scores, which rank the list, but order=index is stated: leave out --order, or import the source without scores", c.scored)
	case c.scored != "" && m.Order == trace.OrderIndex:
		return fmt.Errorf("%s: has scores, which rank the list, but another source says that its lists have no ranks (order=index): make a trace of each", c.scored)
	case said:
		return nil
	case c.scored != "" && c.unscored != "":
		return fmt.Errorf("%s: has scores and %s has none: expected scores in all records or in none", c.scored, c.unscored)
	case c.unscored != "":
		return fmt.Errorf("%s: does not say what the order of its lists means: state --order rank (best first) or --order index (no meaning; lists get sorted)", c.unscored)
	case c.scored != "":
		m.Order = trace.OrderRank
	}
	return nil
}

// settleTopK finds K: the longest list where nobody stated it. More than that is believed
// where no context holds K blocks, of a flag only if the longest list holds all of its context.
func (c *collector) settleTopK(m *trace.Meta) error {
	small := m.Blocks(int(c.maxSeqLen)) < m.TopK
	if c.opts.Stated.TopK > 0 && !slices.ContainsFunc(c.stated, func(s stated) bool { return s.meta.TopK > 0 }) {
		sink, local, _ := m.Pins()
		small = small && c.longest*m.BlockTokens+sink+local >= int(c.longestOf)
	}
	switch {
	case m.TopK == 0:
		m.TopK = c.longest
	case m.TopK > c.longest && !small && m.Candidates < m.TopK:
		return fmt.Errorf("topk K = %d is stated, but the longest list has %d indices of a context of %d blocks (%s): expected K of at most that", m.TopK, c.longest, m.Blocks(int(c.longestOf)), c.longestAt)
	case m.Order == trace.OrderIndex && m.TopK < c.longest:
		return fmt.Errorf("topk K = %d is stated, but with order=index the whole list is the demand and the longest has %d indices (%s): leave out --topk", m.TopK, c.longest, c.longestAt)
	}
	return nil
}

// settlePrompts finds every request's prompt length.
func (c *collector) settlePrompts() error {
	given := int32(c.opts.PromptLen)
	for _, id := range slices.Sorted(maps.Keys(c.requests)) {
		q := c.requests[id]
		switch {
		case !q.implied:
		case q.varies && given == 0:
			return fmt.Errorf("request %q: context − step − 1 should be the prompt's length, one for all records, but is %d (%s) and %d (%s): state --prompt-len",
				id, q.prompt, c.where(q.at), q.prompt2, c.where(q.at2))
		case q.varies:
			q.resolved = given
			c.warn("request %q: its step numbers do not follow its contexts; steps were counted from --prompt-len %d", id, given)
		case given != 0 && given != q.prompt:
			return fmt.Errorf("%s: request %q implies a prompt of %d tokens (context − step − 1), but --prompt-len says %d", c.where(q.at), id, q.prompt, given)
		default:
			q.resolved = q.prompt
		}
	}
	return nil
}

// warnUnsaid tells what nobody stated and the replay will assume.
func (c *collector) warnUnsaid(m *trace.Meta) {
	if _, _, said := m.Pins(); !said {
		c.warn("sink and local sizes are not both stated (--sink, --local): replay takes 0 and 1 for what is unsaid")
	}
	if m.EntryBytes == 0 {
		c.warn("entry_bytes is not stated (--entry-bytes): replay cannot turn misses into bytes without being told")
	}
	if !c.ownSeen && m.BlockTokens == 1 && m.Local == nil {
		c.warn("no list holds the token being decoded: either the selector leaves the local window out (then state --local), or positions are off by one")
	}
}

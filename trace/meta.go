package trace

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"

	"github.com/kvreplay/kvreplay/internal/names"
)

// Version is the format version that this package reads and writes.
const Version = 1

// Orders of a list.
const (
	OrderRank  = "rank"  // best first: any K is a prefix
	OrderIndex = "index" // ascending: the source gives no ranks, K is fixed
)

// Reducers: how the query heads of a KV head, or the heads of a layer, became one list.
const (
	ReducerMax   = "max"
	ReducerSum   = "sum"
	ReducerMean  = "mean"
	ReducerUnion = "union"
	ReducerNone  = "none"
)

// Meta is what a trace says of itself. Fields that a source does not state stay
// absent: nil or empty, never a guess.
type Meta struct {
	// Version is the format version, 1.
	Version int `json:"version"`
	// Order is OrderRank or OrderIndex.
	Order string `json:"order"`
	// TopK is K, the selection budget that the source worked with, in blocks.
	TopK int `json:"topk"`
	// Candidates is M, in blocks: no list is longer, and M ≥ K. Where it is 0 a Writer takes
	// the longest list's length, or K where none has as many.
	Candidates int `json:"candidates"`
	// BlockTokens is the number of consecutive tokens that one index stands for.
	BlockTokens int `json:"block_tokens"`
	// Sink is the number of first tokens that are always resident; nil where the source does not say.
	Sink *int `json:"sink,omitempty"`
	// Local is the number of last tokens, the current one included, that are always
	// resident; nil where the source does not say.
	Local *int `json:"local,omitempty"`
	// EntryBytes is the size of one token's KV entry in one stream, in bytes; 0 where the source does not say.
	EntryBytes int `json:"entry_bytes,omitempty"`
	// Selector names what chose the entries: exact, dsa, quest, …
	Selector string `json:"selector,omitempty"`
	// Reducer is one of the Reducer constants; empty where the source does not say.
	Reducer string `json:"reducer,omitempty"`
	// ScoreKind says what a score is: softmax, logit, bound, …
	ScoreKind string `json:"score_kind,omitempty"`
	// ScoreMantissaBits is the number of mantissa bits that scores were rounded to, 23 = exact; nil without scores.
	ScoreMantissaBits *int `json:"score_mantissa_bits,omitempty"`
	// Model is the model whose decoding was recorded.
	Model string `json:"model,omitempty"`
	// Generator is the program and the command that made the trace.
	Generator string `json:"generator,omitempty"`
	// Decoding is greedy, sampled (with seed) or forced.
	Decoding string `json:"decoding,omitempty"`
	// Licence is the licence of the trace, as an SPDX expression where one exists.
	Licence string `json:"licence,omitempty"`
	// Notes are further facts: workload, prompt digests, what was derived from what.
	Notes map[string]string `json:"notes,omitempty"`
}

// What a trace states that was drawn from a random process: its model or its generator.
const (
	SyntheticModel     = "synthetic"
	SyntheticGenerator = "kvreplay datasets make synthetic"
)

// Synthetic reports whether the lists were drawn from a random process. Deriving and
// importing keep both fields that say so.
func (m *Meta) Synthetic() bool {
	return m.Model == SyntheticModel || strings.HasPrefix(m.Generator, SyntheticGenerator)
}

// maxBlocks bounds list lengths, so that their products do not overflow.
const maxBlocks = 1 << 30

// Validate reports the first field that breaks a rule of the format.
func (m *Meta) Validate() error {
	switch {
	case m.Version != Version:
		return fmt.Errorf("metadata: format version %d, this program reads version %d", m.Version, Version)
	case m.Order != OrderRank && m.Order != OrderIndex:
		return fmt.Errorf("metadata: order %q, expected %q or %q", m.Order, OrderRank, OrderIndex)
	case m.TopK < 1:
		return fmt.Errorf("metadata: topk %d, expected at least 1", m.TopK)
	case m.BlockTokens < 1:
		return fmt.Errorf("metadata: block_tokens %d, expected at least 1", m.BlockTokens)
	case max(m.TopK, m.Candidates, m.BlockTokens, m.EntryBytes) > maxBlocks:
		return fmt.Errorf("metadata: topk %d, candidates %d, block_tokens %d, entry_bytes %d, expected at most 2³⁰", m.TopK, m.Candidates, m.BlockTokens, m.EntryBytes)
	case m.EntryBytes < 0:
		return fmt.Errorf("metadata: entry_bytes %d is negative", m.EntryBytes)
	case m.Sink != nil && *m.Sink < 0:
		return fmt.Errorf("metadata: sink %d is negative", *m.Sink)
	case m.Local != nil && *m.Local < 1:
		return fmt.Errorf("metadata: local %d, expected at least 1 (the token being generated)", *m.Local)
	case m.ScoreMantissaBits != nil && (*m.ScoreMantissaBits < 1 || *m.ScoreMantissaBits > 23):
		return fmt.Errorf("metadata: score_mantissa_bits %d, expected 1 to 23", *m.ScoreMantissaBits)
	}
	switch m.Reducer {
	case "", ReducerMax, ReducerSum, ReducerMean, ReducerUnion, ReducerNone:
		return nil
	}
	return fmt.Errorf("metadata: reducer %q, expected max, sum, mean, union or none", m.Reducer)
}

// validateLists reports K > M, and an order=index trace whose lists are not all demand.
func (m *Meta) validateLists() error {
	if m.TopK > m.Candidates {
		return fmt.Errorf("metadata: topk K = %d exceeds candidates M = %d, lists hold the demand and more", m.TopK, m.Candidates)
	}
	if m.Order == OrderIndex && m.TopK != m.Candidates {
		return fmt.Errorf("metadata: order=index with topk K = %d and candidates M = %d, expected K = M: without ranks the whole list is the demand", m.TopK, m.Candidates)
	}
	return nil
}

// Canonical returns the JSON text that is stored and digested: keys ascending by code
// point, no white space, UTF-8, only what JSON must escape is escaped, integers in
// decimal (RFC 8785 as far as strings and integers need it; Python's
// json.dumps(m, sort_keys=True, separators=(",", ":"), ensure_ascii=False) is the same).
func (m *Meta) Canonical() ([]byte, error) {
	raw, err := json.Marshal(m)
	if err != nil {
		return nil, err
	}
	var fields map[string]any
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	if err := dec.Decode(&fields); err != nil {
		return nil, err
	}
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(fields); err != nil { // maps are written with ascending keys
		return nil, err
	}
	return rawSeparators(bytes.TrimRight(out.Bytes(), "\n")), nil
}

// rawSeparators undoes the one escape that encoding/json makes and others do not:
// U+2028 and U+2029 stand for themselves.
func rawSeparators(text []byte) []byte {
	out := text[:0:0]
	for i := 0; i < len(text); i++ {
		switch rest := text[i:]; {
		case bytes.HasPrefix(rest, []byte(`\u2028`)), bytes.HasPrefix(rest, []byte(`\u2029`)):
			out = append(out, 0xe2, 0x80, 0xa8+rest[5]-'8')
			i += 5
		case rest[0] == '\\' && len(rest) > 1:
			out = append(out, rest[:2]...)
			i++
		default:
			out = append(out, rest[0])
		}
	}
	return out
}

// ParseMeta reads the stored JSON text. An unknown field is an error: a newer
// writer may mean by it something that changes counts.
func ParseMeta(text []byte) (Meta, error) {
	m, err := ParseOpenMeta(text)
	if err != nil {
		return m, err
	}
	return m, m.validateLists()
}

// ParseOpenMeta is ParseMeta for text whose candidates may be missing or 0. A program that
// writes a table row by row does not know them yet.
func ParseOpenMeta(text []byte) (Meta, error) {
	var m Meta
	if err := checkFields(text); err != nil {
		return m, fmt.Errorf("metadata: %w", err)
	}
	if err := json.Unmarshal(text, &m); err != nil {
		return m, fmt.Errorf("metadata: %w", err)
	}
	return m, m.Validate()
}

// Pins returns the pinned sink and local sizes in tokens, with the defaults of
// SEMANTICS S2 (0 and 1) where the trace says nothing, and whether it said both.
func (m *Meta) Pins() (sink, local int, known bool) {
	local = 1
	if m.Sink != nil {
		sink = *m.Sink
	}
	if m.Local != nil {
		local = *m.Local
	}
	return sink, local, m.Sink != nil && m.Local != nil
}

// metaFields are the names of Meta's fields in JSON.
var metaFields = func() (list []string) {
	for _, f := range reflect.VisibleFields(reflect.TypeFor[Meta]()) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		list = append(list, name)
	}
	return list
}()

// checkFields reports what encoding/json lets pass: a field that is not spelled as in
// FORMAT.md, one that stands twice, text after the object.
func checkFields(text []byte) error {
	dec := json.NewDecoder(bytes.NewReader(text))
	if err := checkValue(dec, metaFields, metaDepth); err == io.EOF {
		return io.ErrUnexpectedEOF
	} else if err != nil {
		return err
	}
	if _, err := dec.Token(); err != io.EOF {
		return errors.New("text after the JSON object")
	}
	return nil
}

// metaDepth is how deep metadata may nest: notes are an object in an object.
const metaDepth = 16

// checkValue consumes the next value, which nests no deeper than depth. In every object of it
// a field stands once; known are those of the outermost, nil for any.
func checkValue(dec *json.Decoder, known []string, depth int) error {
	t, err := dec.Token()
	if err != nil {
		return err
	}
	object := t == json.Delim('{')
	if !object && t != json.Delim('[') {
		return nil
	}
	if depth == 0 {
		return fmt.Errorf("nested more than %d deep", metaDepth)
	}
	seen := map[string]bool{}
	for dec.More() {
		if object {
			if err := checkField(dec, known, seen); err != nil {
				return err
			}
		}
		if err := checkValue(dec, nil, depth-1); err != nil {
			return err
		}
	}
	_, err = dec.Token()
	return err
}

// checkField consumes the name of a field.
func checkField(dec *json.Decoder, known []string, seen map[string]bool) error {
	t, err := dec.Token()
	if err != nil {
		return err
	}
	name, _ := t.(string)
	switch {
	case known != nil && !slices.Contains(known, name):
		return fmt.Errorf("unknown field %.60q%s; format v1 has %s", name, names.Nearest(name, known), strings.Join(known, ", "))
	case seen[name]:
		return fmt.Errorf("field %q stands twice", name)
	}
	seen[name] = true
	return nil
}

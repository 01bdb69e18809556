package trace

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/kvreplay/kvreplay/internal/jsonobject"
	"github.com/kvreplay/kvreplay/internal/names"
)

// Version is the format version that this package reads and writes.
const Version = 1

// Orders of the indices in a list.
const (
	OrderRank  = "rank"  // best first: any K is a prefix
	OrderIndex = "index" // ascending: the source gives no ranks, K is fixed
)

// Reducers combine the lists of several query heads into the list of a KV head or a layer.
const (
	ReducerMax   = "max"
	ReducerSum   = "sum"
	ReducerMean  = "mean"
	ReducerUnion = "union"
	ReducerNone  = "none"
)

// Meta is the metadata of a trace. Fields that a source does not state are nil or empty, never a
// guess.
type Meta struct {
	// Version is the format version, 1.
	Version int `json:"version"`
	// Order is OrderRank or OrderIndex.
	Order string `json:"order"`
	// TopK is K, the selection budget of the source, in blocks.
	TopK int `json:"topk"`
	// Candidates is M, in blocks: the longest permitted list, with M ≥ K. If it is 0, a Writer
	// stores the length of the longest list, at least K.
	Candidates int `json:"candidates"`
	// BlockTokens is the number of consecutive tokens per index.
	BlockTokens int `json:"block_tokens"`
	// Sink is the number of first tokens that are always resident. It is nil if the source does not
	// state it.
	Sink *int `json:"sink,omitempty"`
	// Local is the number of last tokens, including the current one, that are always resident. It
	// is nil if the source does not state it.
	Local *int `json:"local,omitempty"`
	// EntryBytes is the size of one token's KV entry in one stream, in bytes. It is 0 if the source
	// does not state it.
	EntryBytes int `json:"entry_bytes,omitempty"`
	// Selector names the method that chose the entries: exact, dsa, quest, …
	Selector string `json:"selector,omitempty"`
	// Reducer is one of the Reducer constants, or empty if the source does not state it.
	Reducer string `json:"reducer,omitempty"`
	// ScoreKind names the kind of score: softmax, logit, bound, …
	ScoreKind string `json:"score_kind,omitempty"`
	// ScoreMantissaBits is the number of mantissa bits that scores were rounded to. 23 is exact. It
	// is nil without scores.
	ScoreMantissaBits *int `json:"score_mantissa_bits,omitempty"`
	// Model is the model whose decoding was recorded.
	Model string `json:"model,omitempty"`
	// Generator is the program and the command that made the trace.
	Generator string `json:"generator,omitempty"`
	// Decoding is greedy, sampled (with seed) or forced.
	Decoding string `json:"decoding,omitempty"`
	// Licence is the licence of the trace, as an SPDX expression if one exists.
	Licence string `json:"licence,omitempty"`
	// Notes are further facts: workload, prompt digests, how the trace was derived.
	Notes map[string]string `json:"notes,omitempty"`
}

// Model and generator of a trace that was drawn from a random process.
const (
	SyntheticModel     = "synthetic"
	SyntheticGenerator = "kvreplay datasets make synthetic"
)

// Synthetic reports whether the lists were drawn from a random process. Deriving and importing keep
// both fields that it tests.
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
		return fmt.Errorf("metadata: local %d, expected at least 1 (the token being decoded)", *m.Local)
	case m.ScoreMantissaBits != nil && (*m.ScoreMantissaBits < 1 || *m.ScoreMantissaBits > 23):
		return fmt.Errorf("metadata: score_mantissa_bits %d, expected 1 to 23", *m.ScoreMantissaBits)
	}
	switch m.Reducer {
	case "", ReducerMax, ReducerSum, ReducerMean, ReducerUnion, ReducerNone:
		return nil
	}
	return fmt.Errorf("metadata: reducer %q, expected max, sum, mean, union or none", m.Reducer)
}

// validateLists reports K > M. It also reports an order=index trace with candidates.
func (m *Meta) validateLists() error {
	if m.TopK > m.Candidates {
		return fmt.Errorf("metadata: topk K = %d exceeds candidates M = %d, expected at most M", m.TopK, m.Candidates)
	}
	if m.Order == OrderIndex && m.TopK != m.Candidates {
		return fmt.Errorf("metadata: order=index with topk K = %d and candidates M = %d, expected K = M (without ranks the whole list is the demand)", m.TopK, m.Candidates)
	}
	return nil
}

// Canonical returns the JSON text that is stored and digested. Keys ascend by code point, and there
// is no white space. The text is UTF-8 with only the escapes that JSON requires. Integers are
// decimal. It follows RFC 8785 as far as strings and integers need it. Python's json.dumps(m,
// sort_keys=True, separators=(",", ":"), ensure_ascii=False) gives the same text.
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
	if err := enc.Encode(fields); err != nil { // Encode writes the keys of a map in ascending order
		return nil, err
	}
	return rawSeparators(bytes.TrimRight(out.Bytes(), "\n")), nil
}

// rawSeparators undoes the escapes of U+2028 and U+2029. Only encoding/json makes them.
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

// ParseMeta parses the stored JSON text. An unknown field is an error, because a newer writer may
// use it for something that changes counts.
func ParseMeta(text []byte) (Meta, error) {
	m, err := ParseOpenMeta(text)
	if err != nil {
		return m, err
	}
	return m, m.validateLists()
}

// ParseOpenMeta is ParseMeta for text without candidates, or with 0. A program that writes a table
// row by row does not know them yet.
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

// Pins returns the numbers of pinned sink and local tokens. If the trace does not state them, Pins
// uses the defaults of SEMANTICS S2 (0 and 1). known reports whether the trace states both.
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

// checkFields reports faults that encoding/json accepts: a field in another spelling than in
// FORMAT.md, a repeated field or note, or text after the object.
func checkFields(text []byte) error {
	members, err := jsonobject.Parse(text)
	if err != nil {
		return err
	}
	for _, m := range members {
		if !slices.Contains(metaFields, m.Name) {
			return fmt.Errorf("unknown field %.60q%s (format v1 has %s)", m.Name, names.Nearest(m.Name, metaFields), strings.Join(metaFields, ", "))
		}
		if m.Name != "notes" {
			continue
		}
		if _, err := jsonobject.Parse(m.Value); err != nil && !m.Null() {
			return fmt.Errorf("notes: %w", err)
		}
	}
	return nil
}

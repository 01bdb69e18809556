package result

import (
	"fmt"
	"reflect"
	"slices"
)

// Setting is the way a trace was replayed: everything that changes counts except the policy and its
// capacity. Rows, cell keys, profiles and the traces of a board embed it.
//
// A new mechanism is a new field here. The field is then in the files of rows, identifies cells,
// and must be equal over all rows of a trace on a board. The tag "setting" states exceptions:
//
//	about    describes the trace or its lists: equal over a trace, does not identify a cell
//	place    equal over the rows of a trace at one capacity
//	run      equal over all rows of a board
//	version  as run, and does not identify a cell: rows of a new version replace others
//
// The tag "words" is the text on boards of a setting that is neither empty nor 1. The tag "unbound"
// marks settings under which OPT is no bound. Its text is the verb in messages: rows that *prefetch*.
type Setting struct {
	// Trace is the trace's file name without its folder.
	Trace string `json:"trace"`
	// TraceDigest is the digest of the trace's content and metadata.
	TraceDigest string `json:"trace_digest"`
	// Model is the model whose decoding the trace recorded, empty if the trace does not say.
	Model string `json:"model" setting:"about"`
	// Selector chose the trace's lists, empty if the trace does not say. SelectorRecall belongs to a
	// selector that approximates. It is the share of the exact Top-K among its first K, as measured
	// during the recording. It is null for an exact one, and if not measured.
	Selector       string   `json:"selector" setting:"about"`
	SelectorRecall *float64 `json:"selector_recall" setting:"about"`
	// TopK is K, the demand's budget in the unit of the trace's lists (replay's --topk).
	TopK int `json:"topk"`
	// Candidates is M, the list length that policies may see, in that unit.
	Candidates int `json:"candidates"`
	// Warmup is the warm-up that ran: "lru:32", "cold", "importance:32", "staging".
	Warmup string `json:"warmup"`
	// Sink and Local are the numbers of pinned tokens. BlockTokens is the unit. EntryBytes is the
	// bytes of an entry, null if neither trace nor user states it.
	Sink        int  `json:"sink"`
	Local       int  `json:"local"`
	BlockTokens int  `json:"block_tokens"`
	EntryBytes  *int `json:"entry_bytes"`
	// StepTokens is the number of consecutive positions that make a step. SharedHeads is the number of
	// heads that share a cache, whose entries a block contains. Both are 1 for steps and heads as
	// recorded.
	StepTokens  int `json:"step_tokens" words:"%v positions a step"`
	SharedHeads int `json:"shared_heads" words:"%v heads share a cache"`
	// Pool names the streams that share one cache of the sum of their capacities: "request", "layer".
	// It is empty if each has its own.
	Pool string `json:"pool" words:"one cache a %v"`
	// Prefetch is the prefetcher and its staging buffer, "predicted:0.5x". With ",swap" the size is
	// the most that a step swaps into the cache. It is empty for none.
	Prefetch string `json:"prefetch" words:"prefetch %v" unbound:"prefetch"`
	// Outliers are the blocks of a stream that stay for good in addition to the capacity,
	// "windows:48", empty for none. Clusters names the units of unequal sizes, "lists" or the digest
	// of a file. It is empty if units are blocks.
	Outliers string `json:"outliers" words:"outliers %v"`
	Clusters string `json:"clusters" words:"clusters %v" unbound:"have clusters of unequal sizes"`
	// Tiers are the caches below the GPU's, as in "dram=lru@8x cxl=lru@16x". "inclusive" at the end
	// means that they keep the blocks that pass through. It is empty for none.
	Tiers string `json:"tiers" words:"tiers %v"`
	// Layers and Requests are the selections that were replayed, empty for all.
	Layers   string `json:"layers" words:"layers %v"`
	Requests string `json:"requests" words:"requests %v"`
	// Allocation is the digest of the plan that gave each layer and head its capacity or window, empty
	// for none.
	Allocation string `json:"allocation" setting:"place"`
	// Reallocation is the number of decode steps after which the plan's memory is divided again, and
	// the method: "64:2d-greedy". It is empty if it is not.
	Reallocation string `json:"reallocation" setting:"place"`
	// Engine is the version of the replay semantics.
	Engine string `json:"engine" setting:"version"`
	// Seed is the seed of the run.
	Seed uint64 `json:"seed" setting:"run"`
}

// Key returns a text that equal settings share, and no others have.
func (s *Setting) Key() string {
	r := Row{Setting: *s}
	return r.texts(settingFields)
}

// equal reports whether all settings are equal.
func (s *Setting) equal(o *Setting) bool {
	if *s == *o {
		return true
	}
	a, b := *s, *o
	a.EntryBytes, b.EntryBytes, a.SelectorRecall, b.SelectorRecall = nil, nil, nil, nil
	return a == b && sameValue(s.EntryBytes, o.EntryBytes) && sameValue(s.SelectorRecall, o.SelectorRecall)
}

func sameValue[T comparable](a, b *T) bool { return a == b || a != nil && b != nil && *a == *b }

// unboundFields are the settings under which OPT does not bound the misses. Their indices are those
// in Setting.
var unboundFields = slices.DeleteFunc(fieldsOf(reflect.TypeFor[Setting]()), func(f field) bool { return f.unbound == "" })

// Unbound is the reason that OPT does not bound the misses of rows, as a verb: "prefetch". It is
// empty if OPT bounds them. A policy can have other reasons.
func (s *Setting) Unbound() string {
	for _, f := range unboundFields {
		if !f.in(reflect.ValueOf(s).Elem()).IsZero() {
			return f.unbound
		}
	}
	return ""
}

// wordFields are the settings that boards name, in the order of boards.
var wordFields = fieldsOf(reflect.TypeFor[struct {
	Setting `moves:"layers<step_tokens requests<step_tokens shared_heads<step_tokens pool<step_tokens"`
}]())

// Words name the mechanisms and selections of a setting, "prefetch candidates:64". It is empty for
// a whole trace as recorded.
func (s *Setting) Words() (words []string) {
	r := Row{Setting: *s}
	for _, f := range wordFields {
		if text := rowFields[fieldIndex[f.name]].text(&r); f.words != "" && text != "" && text != "1" {
			words = append(words, fmt.Sprintf(f.words, text))
		}
	}
	return words
}

package pipeline

import (
	"fmt"
	"strings"

	"github.com/kvreplay/kvreplay/internal/names"
	"github.com/kvreplay/kvreplay/policies"
	"github.com/kvreplay/kvreplay/replay/hardware"
)

// Selection is the method by which a model without its own indexer finds its Top-K. The GPU keeps
// vectors that stand for groups of tokens, one set per KV head, and each query head scores them.
// The zero value selects nothing and keeps no index.
type Selection struct {
	Method string
	Tokens int // tokens in a group
}

// selections are the methods, with the number of vectors that each keeps per group.
var selections = []struct {
	name    string
	vectors float64
	tokens  int // default tokens in a group
}{
	{"indexer", 0, 1},    // the model's own indexer (DSA)
	{"minmax", 2, 16},    // channel-wise minimum and maximum of keys (Quest, page 16)
	{"mean", 1, 8},       // mean key of a chunk (ShadowKV, chunk 8)
	{"centroids", 1, 16}, // clusters with this mean number of tokens (KVDrive, RetroInfer)
	{"keys", 1, 1},       // all keys: exact
}

// ParseSelection reads a text such as "minmax" or "mean:tokens=8". "auto" is the model's indexer,
// or minmax if it has none.
func ParseSelection(text string, m *hardware.Model) (s Selection, err error) {
	if strings.EqualFold(text, "auto") {
		if text = "minmax"; m.Indexer != nil {
			text = "indexer"
		}
	}
	name, options, _ := strings.Cut(text, ":")
	if name, err = names.Find("selection", name, selectionNames()); err != nil {
		return s, err
	}
	for _, k := range selections {
		if k.name != name {
			continue
		}
		s = Selection{Method: name, Tokens: k.tokens}
		if name == "indexer" && m.Indexer == nil {
			return s, fmt.Errorf("selection indexer: model %s has no indexer: choose minmax, mean, centroids or keys", m.Name)
		}
		switch name {
		case "indexer", "keys":
			_, err = policies.ParseOptions(options)
		default:
			_, err = policies.ParseOptions(options, policies.Int("tokens", &s.Tokens, 1, 1<<20))
		}
		if err != nil {
			err = fmt.Errorf("selection %s: %w", text, err)
		}
		return s, err
	}
	return s, fmt.Errorf("selection %q: auto takes no options", text)
}

func selectionNames() []names.Name {
	list := names.Of("auto")
	for _, k := range selections {
		list = append(list, names.Name{Name: k.name})
	}
	return list
}

// CheckSelection returns the error of a text that ParseSelection rejects for every model.
func CheckSelection(text string) error {
	_, err := ParseSelection(text, &hardware.Model{Indexer: new(hardware.Indexer)})
	return err
}

func (s Selection) String() string {
	if s.Method == "indexer" || s.Method == "keys" {
		return s.Method
	}
	return fmt.Sprintf("%s:tokens=%d", s.Method, s.Tokens)
}

// vectors returns the number of kept vectors per token, a fraction.
func (s Selection) vectors() float64 {
	for _, k := range selections {
		if k.name == s.Method {
			return k.vectors / float64(s.Tokens)
		}
	}
	return 0
}

// IndexBytes returns the bytes of a token in a layer's index on the GPU, all heads. They are the
// indexer's key, or the token's share of the vectors at 2 B per number.
func (s Selection) IndexBytes(m *hardware.Model) float64 {
	if s.Method == "indexer" {
		return float64(m.Indexer.Entry.Value)
	}
	return s.vectors() * keyHeads(m) * keyDim(m) * 2
}

// scoreFLOP returns the FLOP to score one token of context for one query.
func (s Selection) scoreFLOP(m *hardware.Model) float64 {
	if s.Method == "indexer" {
		return 2 * float64(m.Indexer.Heads.Value) * float64(m.Indexer.HeadDim.Value)
	}
	return 2 * s.vectors() * float64(m.QueryHeads.Value) * keyDim(m)
}

// scores returns the number of scores that a token of context has for one query: one for each head
// that selects.
func (s Selection) scores(m *hardware.Model) float64 {
	switch s.Method {
	case "":
		return 0
	case "indexer":
		return 1
	}
	return keyHeads(m) / float64(s.Tokens)
}

// keyHeads returns the number of key heads, 1 if all heads share a latent vector.
func keyHeads(m *hardware.Model) float64 {
	if m.Latent != nil {
		return 1
	}
	return float64(m.KVHeads.Value)
}

// keyDim returns the width of a key.
func keyDim(m *hardware.Model) float64 {
	if m.Latent != nil {
		return float64(m.Latent.KVRank.Value + m.Latent.Rope.Value)
	}
	return float64(m.HeadDim.Value)
}

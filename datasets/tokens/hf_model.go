package tokens

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
)

// cutMerge splits "a b" at its one space.
func cutMerge(joined string) []string { return strings.Split(joined, " ") }

// merge is what two tokens become, and when: the lowest rank first.
type merge struct{ rank, id int32 }

// bpe is a tokenizer of byte-pair encoding read from a file.
type bpe struct {
	name      string
	byteLevel bool           // the vocabulary is in bytes, not in characters
	ids       map[string]int // of tokens, in bytes where byteLevel
	texts     map[int]string // of ids
	merges    map[[2]int32]merge

	unknown      int // −1: what is not in the vocabulary is dropped
	fuseUnknown  bool
	fallback     bool // what is not in the vocabulary becomes its bytes, <0x00> …
	ignoreMerges bool // a piece that is a token needs no merges

	added      addedTokens
	normalizer func(string) string
	splitters  []splitter
	decoders   []decoder
	cache      pieceCache
}

// readModel reads vocabulary and merges.
func (t *bpe) readModel(file *hfFile) error {
	m := file.Model
	if m.Type != "BPE" && m.Type != "" || len(m.Vocab) == 0 || m.Vocab[0] != '{' {
		return fmt.Errorf("model of type %q, expected BPE; others are not read", m.Type)
	}
	if m.Prefix != "" || m.Suffix != "" {
		return fmt.Errorf("continuing_subword_prefix %q, end_of_word_suffix %q: not read, expected none", m.Prefix, m.Suffix)
	}
	var vocab map[string]int
	if err := json.Unmarshal(m.Vocab, &vocab); err != nil {
		return fmt.Errorf("vocab: %w", err)
	}
	if len(vocab) == 0 {
		return errors.New("vocab is empty")
	}
	t.byteLevel = file.PreTokenizer.has("ByteLevel")
	t.fuseUnknown, t.fallback, t.ignoreMerges = m.FuseUnknown, m.ByteFallback, m.IgnoreMerges
	t.ids, t.texts = make(map[string]int, len(vocab)), make(map[int]string, len(vocab))
	for token, id := range vocab {
		if err := t.put(t.raw(token), id); err != nil {
			return err
		}
	}
	t.unknown = -1
	if id, ok := t.ids[t.raw(m.Unknown)]; ok && m.Unknown != "" {
		t.unknown = id
	}
	return t.readMerges(m.Merges)
}

// put enters a token.
func (t *bpe) put(text string, id int) error {
	if err := validID(text, id); err != nil {
		return err
	}
	if other, ok := t.texts[id]; ok && other != text {
		return fmt.Errorf("id %d is that of %q and of %q", id, min(other, text), max(other, text))
	}
	t.ids[text], t.texts[id] = id, text
	return nil
}

func validID(token string, id int) error {
	if id < 0 || id > math.MaxInt32 {
		return fmt.Errorf("token %q has id %d, expected 0 … %d", token, id, math.MaxInt32)
	}
	return nil
}

func (t *bpe) readMerges(list []hfMerge) error {
	t.merges = make(map[[2]int32]merge, len(list))
	for rank, m := range list {
		a, b := t.raw(m[0]), t.raw(m[1])
		left, ok1 := t.ids[a]
		right, ok2 := t.ids[b]
		both, ok3 := t.ids[a+b]
		if !ok1 || !ok2 || !ok3 {
			return fmt.Errorf("merge %d of %q and %q: one of them or the two together are not in the vocabulary", rank, m[0], m[1])
		}
		t.merges[[2]int32{int32(left), int32(right)}] = merge{int32(rank), int32(both)}
	}
	return nil
}

// readAdded enters the tokens that are looked for in the text.
func (t *bpe) readAdded(file *hfFile) error {
	for _, a := range file.Added {
		switch {
		case a.Content == "":
			continue
		case a.SingleWord:
			return fmt.Errorf("added token %q is for single words only: not read", a.Content)
		}
		if err := validID(a.Content, a.ID); err != nil {
			return err
		}
		t.texts[a.ID] = a.Content
	}
	t.added = newAddedTokens(file.Added)
	return nil
}

// raw is a token of the vocabulary in bytes: byte-level vocabularies write each byte as a
// printable character (Radford et al. 2019, GPT-2's bytes_to_unicode). What has other
// characters is taken as it is.
func (t *bpe) raw(token string) string {
	if !t.byteLevel {
		return token
	}
	var bytes []byte
	for _, r := range token {
		b, ok := byteOf[r]
		if !ok {
			return token
		}
		bytes = append(bytes, b)
	}
	return string(bytes)
}

// byteOf are the bytes of the characters that stand for them: printable ones of Latin-1
// for themselves, the others, in order, for 256, 257 and so on.
var byteOf = func() map[rune]byte {
	table := make(map[rune]byte, 256)
	next := rune(256)
	for b := range 256 {
		r := rune(b)
		if b <= ' ' || b >= 0x7f && b <= 0xa0 || b == 0xad {
			r = next
			next++
		}
		table[r] = byte(b)
	}
	return table
}()

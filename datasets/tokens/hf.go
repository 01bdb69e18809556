package tokens

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/dlclark/regexp2/v2"
	"golang.org/x/text/unicode/norm"

	"github.com/kvreplay/kvreplay/internal/files"
	"github.com/kvreplay/kvreplay/internal/slice"
)

// hfFile is a tokenizer.json, written by the tokenizers library of Hugging Face. This package reads
// the parts of byte-pair encoding that GPT-2, Llama, Qwen, DeepSeek, Mistral, Gemma and SmolLM use.
// It rejects other parts by name.
type hfFile struct {
	Added        []hfAdded `json:"added_tokens"`
	Normalizer   *hfPart   `json:"normalizer"`
	PreTokenizer *hfPart   `json:"pre_tokenizer"`
	Model        *hfModel  `json:"model"`
	Decoder      *hfPart   `json:"decoder"`
}

// hfAdded is a token that is searched in the text before anything else.
type hfAdded struct {
	ID         int    `json:"id"`
	Content    string `json:"content"`
	SingleWord bool   `json:"single_word"`
	LeftStrip  bool   `json:"lstrip"`
	RightStrip bool   `json:"rstrip"`
}

// hfPart is a normalizer, pre-tokenizer or decoder: the fields of all that are read.
type hfPart struct {
	Type string `json:"type"`

	Normalizers   []hfPart `json:"normalizers"`
	PreTokenizers []hfPart `json:"pretokenizers"`
	Decoders      []hfPart `json:"decoders"`

	Pattern    hfPattern `json:"pattern"`
	Content    string    `json:"content"`  // Replace, Strip
	Prepend    string    `json:"prepend"`  // Prepend
	Behavior   string    `json:"behavior"` // Split
	Invert     bool      `json:"invert"`
	Individual bool      `json:"individual_digits"` // Digits

	AddPrefixSpace *bool  `json:"add_prefix_space"` // ByteLevel, and Metaspace of old files
	UseRegex       *bool  `json:"use_regex"`        // ByteLevel
	Replacement    string `json:"replacement"`      // Metaspace
	PrependScheme  string `json:"prepend_scheme"`
	Split          *bool  `json:"split"`
	Start          int    `json:"start"` // Strip
	Stop           int    `json:"stop"`
}

// hfPattern is text or an expression.
type hfPattern struct {
	String *string
	Regex  *string
}

// hfModel is the vocabulary with its merges.
type hfModel struct {
	Type         string          `json:"type"`
	Vocab        json.RawMessage `json:"vocab"` // an object. For Unigram a list
	Merges       []hfMerge       `json:"merges"`
	Unknown      string          `json:"unk_token"`
	FuseUnknown  bool            `json:"fuse_unk"`
	ByteFallback bool            `json:"byte_fallback"`
	IgnoreMerges bool            `json:"ignore_merges"`
	Prefix       string          `json:"continuing_subword_prefix"`
	Suffix       string          `json:"end_of_word_suffix"`
}

// hfMerge is written ["a", "b"] or, in older files, "a b".
type hfMerge [2]string

// UnmarshalJSON implements json.Unmarshaler.
func (m *hfMerge) UnmarshalJSON(text []byte) error {
	var pair []string
	if text[0] == '"' {
		var joined string
		if err := json.Unmarshal(text, &joined); err != nil {
			return err
		}
		pair = strings.Split(joined, " ")
	} else if err := json.Unmarshal(text, &pair); err != nil {
		return err
	}
	if len(pair) != 2 {
		return fmt.Errorf("merge %s has %d parts, expected 2", text, len(pair))
	}
	*m = hfMerge(pair)
	return nil
}

// openFile reads a tokenizer.json, or the one in a folder.
func openFile(path string) (Tokenizer, error) {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		path = filepath.Join(path, "tokenizer.json")
	}
	text, err := files.Read(context.Background(), path)
	if err != nil {
		return nil, fmt.Errorf("open tokenizer: %w", err)
	}
	t, err := parseFile(text)
	if err != nil {
		return nil, fmt.Errorf("open tokenizer %s: %w", path, err)
	}
	return t, nil
}

// parseFile makes a tokenizer from a tokenizer.json. Its name is the file's digest.
func parseFile(text []byte) (Tokenizer, error) {
	var file hfFile
	if err := json.Unmarshal(text, &file); err != nil {
		return nil, fmt.Errorf("expected a tokenizer.json: %w", err)
	}
	if file.Model == nil {
		return nil, errors.New("no key \"model\", expected a tokenizer.json")
	}
	sum := sha256.Sum256(text)
	t := &bpe{name: "tokenizer.json:sha256:" + hex.EncodeToString(sum[:8]), byteLevel: file.PreTokenizer.has("ByteLevel")}
	err := t.readModel(file.Model)
	if err == nil {
		err = t.readAdded(file.Added)
	}
	if err == nil {
		t.normalizer, err = steps(file.Normalizer, normalizer)
	}
	if err == nil {
		t.splitters, err = steps(file.PreTokenizer, splitters)
	}
	if err == nil && !t.byteLevel { // byte-level tokens are joined
		t.decoders, err = steps(file.Decoder, decoders)
	}
	if err != nil {
		return nil, err
	}
	return t, nil
}

func (t *bpe) readModel(m *hfModel) error {
	if m.Type != "BPE" && m.Type != "" || len(m.Vocab) == 0 || m.Vocab[0] != '{' {
		return fmt.Errorf("model of type %q, expected BPE", m.Type)
	}
	if m.Prefix != "" || m.Suffix != "" {
		return fmt.Errorf("continuing_subword_prefix %q, end_of_word_suffix %q, expected none", m.Prefix, m.Suffix)
	}
	var vocab map[string]int
	if err := json.Unmarshal(m.Vocab, &vocab); err != nil {
		return fmt.Errorf("vocab: %w", err)
	}
	if len(vocab) == 0 {
		return errors.New("vocab is empty")
	}
	t.fuseUnknown, t.fallback, t.ignoreMerges = m.FuseUnknown, m.ByteFallback, m.IgnoreMerges
	t.ids, t.texts = make(map[string]int, len(vocab)), make(map[int]string, len(vocab))
	for token, id := range vocab {
		text := t.raw(token)
		if err := validID(text, id); err != nil {
			return err
		}
		if other, ok := t.texts[id]; ok && other != text {
			return fmt.Errorf("id %d is shared by %q and %q", id, min(other, text), max(other, text))
		}
		t.ids[text], t.texts[id] = id, text
	}
	t.unknown = -1
	if id, ok := t.ids[t.raw(m.Unknown)]; ok && m.Unknown != "" {
		t.unknown = id
	}
	t.merges = make(map[[2]int32]merge, len(m.Merges))
	for rank, m := range m.Merges {
		a, b := t.raw(m[0]), t.raw(m[1])
		left, ok1 := t.ids[a]
		right, ok2 := t.ids[b]
		both, ok3 := t.ids[a+b]
		if !ok1 || !ok2 || !ok3 {
			return fmt.Errorf("merge %d of %q and %q: a part or the merged token is not in the vocabulary", rank, m[0], m[1])
		}
		t.merges[[2]int32{int32(left), int32(right)}] = merge{int32(rank), int32(both)}
	}
	return nil
}

func validID(token string, id int) error {
	if id < 0 || id > math.MaxInt32 {
		return fmt.Errorf("token %q has id %d, expected 0 … %d", token, id, math.MaxInt32)
	}
	return nil
}

// raw is a token of the vocabulary in bytes: byte-level vocabularies write each byte as a
// printable character (Radford et al. 2019, GPT-2's bytes_to_unicode). Tokens with other
// characters stay as they are.
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

// byteOf maps characters to the bytes that they encode. Printable characters of Latin-1 encode
// themselves. 256, 257 and so on encode the other bytes, in order.
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

// addedTokens finds added tokens in text: the leftmost first, and of several the longest.
type addedTokens struct {
	find   *regexp.Regexp // nil if there are no added tokens
	tokens map[string]hfAdded
}

// readAdded enters the tokens that are searched in the text.
func (t *bpe) readAdded(list []hfAdded) error {
	t.added.tokens = make(map[string]hfAdded)
	var quoted []string
	for _, a := range list {
		switch {
		case a.Content == "":
			continue
		case a.SingleWord:
			return fmt.Errorf("added token %q is for single words only, expected one for any text", a.Content)
		}
		if err := validID(a.Content, a.ID); err != nil {
			return err
		}
		t.texts[a.ID], t.added.tokens[a.Content] = a.Content, a
		quoted = append(quoted, regexp.QuoteMeta(a.Content))
	}
	if len(quoted) > 0 {
		t.added.find = regexp.MustCompile(strings.Join(quoted, "|"))
		t.added.find.Longest()
	}
	return nil
}

// cut yields the parts of text in order: added tokens with their id, the texts between them with
// −1. Tokens that strip take the adjacent white space.
func (a addedTokens) cut(text string, yield func(part string, id int)) {
	between := func(part string) {
		if part != "" {
			yield(part, -1)
		}
	}
	for a.find != nil {
		at := a.find.FindStringIndex(text)
		if at == nil {
			break
		}
		token := a.tokens[text[at[0]:at[1]]]
		before, after := text[:at[0]], text[at[1]:]
		if token.LeftStrip {
			before = strings.TrimRightFunc(before, unicode.IsSpace)
		}
		if token.RightStrip {
			after = strings.TrimLeftFunc(after, unicode.IsSpace)
		}
		between(before)
		yield(token.Content, token.ID)
		text = after
	}
	between(text)
}

// has reports whether a part or one inside it is of a type.
func (p *hfPart) has(kind string) bool {
	return p != nil && (p.Type == kind || slices.ContainsFunc(p.parts(), func(q hfPart) bool { return q.has(kind) }))
}

func (p *hfPart) parts() []hfPart { return slices.Concat(p.Normalizers, p.PreTokenizers, p.Decoders) }

// steps reads a part, or those of a Sequence in order.
func steps[T any](p *hfPart, read func(*hfPart) ([]T, error)) (list []T, err error) {
	switch {
	case p == nil:
		return nil, nil
	case p.Type != "Sequence":
		return read(p)
	}
	for _, q := range p.parts() {
		more, err := steps(&q, read)
		if err != nil {
			return nil, err
		}
		list = append(list, more...)
	}
	return list, nil
}

// isSet returns a flag that is true unless the file says otherwise.
func isSet(flag *bool) bool { return flag == nil || *flag }

// normalizer reads a change of the text before it is split.
func normalizer(p *hfPart) ([]func(string) string, error) {
	if form, ok := map[string]norm.Form{"NFC": norm.NFC, "NFD": norm.NFD, "NFKC": norm.NFKC, "NFKD": norm.NFKD}[p.Type]; ok {
		return []func(string) string{form.String}, nil
	}
	switch p.Type {
	case "Prepend":
		return []func(string) string{func(s string) string {
			if s == "" {
				return s
			}
			return p.Prepend + s
		}}, nil
	case "Replace":
		replace, err := replacer(p)
		return []func(string) string{replace}, err
	}
	return nil, fmt.Errorf("normalizer %q, expected NFC, NFD, NFKC, NFKD, Prepend, Replace or Sequence", p.Type)
}

// replacer replaces a pattern by content.
func replacer(p *hfPart) (func(string) string, error) {
	if p.Pattern.String == nil {
		return nil, fmt.Errorf("%s with a regular expression, expected a string", p.Type)
	}
	return func(s string) string { return strings.ReplaceAll(s, *p.Pattern.String, p.Content) }, nil
}

// byteLevelExpression is GPT-2's (Radford et al. 2019, encoder.py).
const byteLevelExpression = `'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`

// splitters reads a cut of the text into pieces that no token crosses.
func splitters(p *hfPart) ([]splitter, error) {
	switch p.Type {
	case "ByteLevel":
		var list []splitter
		if isSet(p.AddPrefixSpace) {
			list = append(list, prefixed(" ", func(bool) bool { return true }))
		}
		if !isSet(p.UseRegex) {
			return list, nil
		}
		expression := byteLevelExpression
		return splitOn(list, hfPattern{Regex: &expression}, "Isolated", false)
	case "Split":
		return splitOn(nil, p.Pattern, p.Behavior, p.Invert)
	case "Digits":
		digits, behavior := `\p{N}`, "Contiguous"
		if p.Individual {
			behavior = "Isolated"
		}
		return splitOn(nil, hfPattern{Regex: &digits}, behavior, false)
	case "Metaspace":
		return metaspace(p)
	}
	return nil, fmt.Errorf("pre_tokenizer %q, expected ByteLevel, Split, Digits, Metaspace or Sequence", p.Type)
}

// metaspace writes spaces as another character, puts one in front and cuts before each.
func metaspace(p *hfPart) ([]splitter, error) {
	scheme := p.PrependScheme
	if scheme == "" {
		scheme = "always"
		if !isSet(p.AddPrefixSpace) {
			scheme = "never"
		}
	}
	if p.Replacement == "" || !slices.Contains([]string{"always", "first", "never"}, scheme) {
		return nil, fmt.Errorf("pre_tokenizer Metaspace with replacement %q and prepend_scheme %q, expected a character, and always, first or never", p.Replacement, scheme)
	}
	list := []splitter{
		func(pieces []string, _ bool) []string {
			return slice.Map(pieces, func(s string) string { return strings.ReplaceAll(s, " ", p.Replacement) })
		},
		prefixed(p.Replacement, func(first bool) bool { return scheme == "always" || scheme == "first" && first }),
	}
	if !isSet(p.Split) {
		return list, nil
	}
	return splitOn(list, hfPattern{String: &p.Replacement}, "MergedWithNext", false)
}

// prefixed puts a text in front of the pieces that lack it. wanted selects the pieces: those that
// begin the whole text, or the others.
func prefixed(text string, wanted func(first bool) bool) splitter {
	return func(pieces []string, first bool) []string {
		out := slices.Clone(pieces)
		for i, s := range out {
			if wanted(first && i == 0) && !strings.HasPrefix(s, text) {
				out[i] = text + s
			}
		}
		return out
	}
}

// span is a part of a piece that matches or lies between matches.
type span struct {
	text  string
	match bool
}

// splitOn appends a cut at a pattern to list. behavior decides the fate of the matches. With
// invert, matches and the texts between them change roles.
func splitOn(list []splitter, pattern hfPattern, behavior string, invert bool) ([]splitter, error) {
	joins, ok := behaviors[behavior]
	if !ok {
		return nil, fmt.Errorf("pre_tokenizer Split with behavior %q, expected Removed, Isolated, Contiguous, MergedWithPrevious or MergedWithNext", behavior)
	}
	find, err := finder(pattern)
	if err != nil {
		return nil, err
	}
	return append(list, func(pieces []string, _ bool) (out []string) {
		for _, s := range pieces {
			list := spans(s, find(s), invert)
			for i, x := range list {
				switch {
				case behavior == "Removed" && x.match:
				case i > 0 && joins(list[i-1].match, x.match):
					out[len(out)-1] += x.text
				default:
					out = append(out, x.text)
				}
			}
		}
		return out
	}), nil
}

// behaviors tell whether a span joins the piece of the span before it (tokenizers,
// SplitDelimiterBehavior).
var behaviors = map[string]func(before, match bool) bool{
	"Removed":            func(_, _ bool) bool { return false },
	"Isolated":           func(_, _ bool) bool { return false },
	"Contiguous":         func(before, match bool) bool { return before == match },
	"MergedWithPrevious": func(before, match bool) bool { return match && !before },
	"MergedWithNext":     func(before, match bool) bool { return before && !match },
}

// finder returns the places of a pattern in a text, in bytes.
func finder(pattern hfPattern) (func(string) [][]int, error) {
	if pattern.Regex != nil {
		expression, err := regexp2.Compile(*pattern.Regex, regexp2.None)
		if err != nil {
			return nil, fmt.Errorf("expression %q: %w", *pattern.Regex, err)
		}
		return func(s string) [][]int {
			list, err := expression.FindAllStringIndex(s, -1)
			must(err) // it fails only with a time limit
			return list
		}, nil
	}
	if pattern.String == nil || *pattern.String == "" {
		return nil, errors.New("pre_tokenizer Split without a pattern")
	}
	find := regexp.MustCompile(regexp.QuoteMeta(*pattern.String))
	return func(s string) [][]int { return find.FindAllStringIndex(s, -1) }, nil
}

func spans(s string, places [][]int, invert bool) (list []span) {
	put := func(from, to int, match bool) {
		if from < to {
			list = append(list, span{s[from:to], match != invert})
		}
	}
	done := 0
	for _, p := range places {
		put(done, p[0], false)
		put(p[0], p[1], true)
		done = p[1]
	}
	put(done, len(s), false)
	return list
}

// decoders reads a change of the texts of tokens.
func decoders(p *hfPart) ([]decoder, error) {
	each := func(f func(string) string) []decoder {
		return []decoder{func(list []string) []string { return slice.Map(list, f) }}
	}
	switch p.Type {
	case "Fuse":
		return []decoder{func(list []string) []string { return []string{strings.Join(list, "")} }}, nil
	case "ByteFallback":
		return each(fallbackByte), nil
	case "Replace":
		replace, err := replacer(p)
		return each(replace), err
	case "Strip":
		return each(func(s string) string {
			for range p.Start {
				s = strings.TrimPrefix(s, p.Content)
			}
			for range p.Stop {
				s = strings.TrimSuffix(s, p.Content)
			}
			return s
		}), nil
	case "Metaspace": // spaces again, except the one that was put in front
		return []decoder{func(list []string) []string {
			out := slice.Map(list, func(s string) string { return strings.ReplaceAll(s, p.Replacement, " ") })
			if never := p.PrependScheme == "never" || p.PrependScheme == "" && !isSet(p.AddPrefixSpace); len(out) > 0 && !never {
				out[0] = strings.TrimPrefix(out[0], " ")
			}
			return out
		}}, nil
	}
	return nil, fmt.Errorf("decoder %q, expected ByteLevel, ByteFallback, Fuse, Replace, Strip, Metaspace or Sequence", p.Type)
}

// fallbackByte returns the byte that a token such as <0x0A> stands for. Other tokens stay.
func fallbackByte(token string) string {
	if len(token) == 6 && strings.HasPrefix(token, "<0x") && token[5] == '>' {
		if b, err := strconv.ParseUint(token[3:5], 16, 8); err == nil {
			return string([]byte{byte(b)})
		}
	}
	return token
}

package tokens

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/kvreplay/kvreplay/internal/files"
)

// A tokenizer.json is what the tokenizers library of Hugging Face writes. Of its parts,
// this package reads those of byte-pair encoding (Sennrich et al. 2016) as GPT-2, Llama,
// Qwen, DeepSeek, Mistral, Gemma and SmolLM have them, and refuses the rest by name.
type hfFile struct {
	Added        []hfAdded `json:"added_tokens"`
	Normalizer   *hfPart   `json:"normalizer"`
	PreTokenizer *hfPart   `json:"pre_tokenizer"`
	Model        *hfModel  `json:"model"`
	Decoder      *hfPart   `json:"decoder"`
}

// hfAdded is a token that is looked for in the text before anything else.
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
	Vocab        json.RawMessage `json:"vocab"` // an object; of Unigram a list
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
		pair = cutMerge(joined)
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
	if err := files.CheckStream(path); err != nil {
		return nil, fmt.Errorf("open tokenizer: %w", err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("open tokenizer: %w", err)
	}
	t, err := parseFile(text)
	if err != nil {
		return nil, fmt.Errorf("open tokenizer %s: %w", path, err)
	}
	return t, nil
}

// parseFile makes a tokenizer of a tokenizer.json. Its name is the file's digest.
func parseFile(text []byte) (Tokenizer, error) {
	var file hfFile
	if err := json.Unmarshal(text, &file); err != nil {
		return nil, fmt.Errorf("expected a tokenizer.json: %w", err)
	}
	if file.Model == nil {
		return nil, errors.New("no key \"model\", expected a tokenizer.json")
	}
	sum := sha256.Sum256(text)
	t := &bpe{name: "tokenizer.json:sha256:" + hex.EncodeToString(sum[:8])}
	for _, step := range []func(*hfFile) error{t.readModel, t.readAdded, t.readNormalizer, t.readPreTokenizer, t.readDecoder} {
		if err := step(&file); err != nil {
			return nil, err
		}
	}
	return t, nil
}

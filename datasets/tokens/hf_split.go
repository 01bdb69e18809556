package tokens

import (
	"fmt"
	"slices"
	"strings"

	"github.com/dlclark/regexp2/v2"
	"golang.org/x/text/unicode/norm"
)

// has says whether a part or one inside it is of a type.
func (p *hfPart) has(kind string) bool {
	if p == nil {
		return false
	}
	inside := func(list []hfPart) bool {
		return slices.ContainsFunc(list, func(q hfPart) bool { return q.has(kind) })
	}
	return p.Type == kind || inside(p.PreTokenizers) || inside(p.Normalizers) || inside(p.Decoders)
}

// isSet returns a flag that is true unless the file says otherwise.
func isSet(flag *bool) bool { return flag == nil || *flag }

// readNormalizer reads what changes the text before it is split.
func (t *bpe) readNormalizer(file *hfFile) (err error) {
	if file.Normalizer != nil {
		t.normalizer, err = normalizer(file.Normalizer)
	}
	return err
}

func normalizer(p *hfPart) (func(string) string, error) {
	switch p.Type {
	case "Sequence":
		var steps []func(string) string
		for i := range p.Normalizers {
			step, err := normalizer(&p.Normalizers[i])
			if err != nil {
				return nil, err
			}
			steps = append(steps, step)
		}
		return func(s string) string {
			for _, step := range steps {
				s = step(s)
			}
			return s
		}, nil
	case "NFC":
		return norm.NFC.String, nil
	case "NFD":
		return norm.NFD.String, nil
	case "NFKC":
		return norm.NFKC.String, nil
	case "NFKD":
		return norm.NFKD.String, nil
	case "Prepend":
		return func(s string) string {
			if s == "" {
				return s
			}
			return p.Prepend + s
		}, nil
	case "Replace":
		return replacer(p)
	}
	return nil, fmt.Errorf("normalizer %q is not read; NFC, NFD, NFKC, NFKD, Prepend, Replace and Sequence are", p.Type)
}

// replacer replaces a pattern by content.
func replacer(p *hfPart) (func(string) string, error) {
	if p.Pattern.String == nil {
		return nil, fmt.Errorf("%s by an expression is not read, expected a string", p.Type)
	}
	return func(s string) string { return strings.ReplaceAll(s, *p.Pattern.String, p.Content) }, nil
}

// splitter cuts pieces of a text further; first says that they begin it.
type splitter func(pieces []string, first bool) []string

// readPreTokenizer reads what cuts the text in pieces that no token crosses.
func (t *bpe) readPreTokenizer(file *hfFile) (err error) {
	if file.PreTokenizer != nil {
		t.splitters, err = splitters(file.PreTokenizer)
	}
	return err
}

// byteLevelExpression is GPT-2's (Radford et al. 2019, encoder.py).
const byteLevelExpression = `'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`

func splitters(p *hfPart) ([]splitter, error) {
	switch p.Type {
	case "Sequence":
		var list []splitter
		for i := range p.PreTokenizers {
			steps, err := splitters(&p.PreTokenizers[i])
			if err != nil {
				return nil, err
			}
			list = append(list, steps...)
		}
		return list, nil
	case "ByteLevel":
		return byteLevelSplitters(p)
	case "Split":
		return splitOn(p.Pattern, p.Behavior, p.Invert)
	case "Digits":
		digits, behavior := `\p{N}`, "Contiguous"
		if p.Individual {
			behavior = "Isolated"
		}
		return splitOn(hfPattern{Regex: &digits}, behavior, false)
	case "Metaspace":
		return metaspace(p)
	}
	return nil, fmt.Errorf("pre_tokenizer %q is not read; ByteLevel, Split, Digits, Metaspace and Sequence are", p.Type)
}

func byteLevelSplitters(p *hfPart) (list []splitter, err error) {
	if isSet(p.AddPrefixSpace) {
		list = append(list, func(pieces []string, _ bool) []string {
			out := make([]string, len(pieces))
			for i, s := range pieces {
				if !strings.HasPrefix(s, " ") {
					s = " " + s
				}
				out[i] = s
			}
			return out
		})
	}
	if !isSet(p.UseRegex) {
		return list, nil
	}
	expression := byteLevelExpression
	split, err := splitOn(hfPattern{Regex: &expression}, "Isolated", false)
	return append(list, split...), err
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
	list := []splitter{func(pieces []string, first bool) []string {
		out := make([]string, len(pieces))
		for i, s := range pieces {
			s = strings.ReplaceAll(s, " ", p.Replacement)
			if (scheme == "always" || scheme == "first" && first && i == 0) && !strings.HasPrefix(s, p.Replacement) {
				s = p.Replacement + s
			}
			out[i] = s
		}
		return out
	}}
	if !isSet(p.Split) {
		return list, nil
	}
	split, err := splitOn(hfPattern{String: &p.Replacement}, "MergedWithNext", false)
	return append(list, split...), err
}

// span is a part of a piece that matches or lies between matches.
type span struct {
	text  string
	match bool
}

// splitOn cuts at a pattern; behavior says what becomes of the matches, and invert that
// matches and what is between change roles.
func splitOn(pattern hfPattern, behavior string, invert bool) ([]splitter, error) {
	join, ok := behaviors[behavior]
	if !ok {
		return nil, fmt.Errorf("pre_tokenizer Split with behavior %q, expected Removed, Isolated, Contiguous, MergedWithPrevious or MergedWithNext", behavior)
	}
	find, err := finder(pattern)
	if err != nil {
		return nil, err
	}
	return []splitter{func(pieces []string, _ bool) []string {
		var out []string
		for _, s := range pieces {
			out = append(out, join(spans(s, find(s), invert))...)
		}
		return out
	}}, nil
}

// finder returns the places of a pattern in a text, in bytes.
func finder(pattern hfPattern) (func(string) [][]int, error) {
	switch {
	case pattern.Regex != nil:
		expression, err := regexp2.Compile(*pattern.Regex, regexp2.None)
		if err != nil {
			return nil, fmt.Errorf("expression %q: %w", *pattern.Regex, err)
		}
		return func(s string) [][]int {
			list, err := expression.FindAllStringIndex(s, -1)
			must(err)
			return list
		}, nil
	case pattern.String != nil && *pattern.String != "":
		return func(s string) (list [][]int) {
			for from := 0; ; {
				i := strings.Index(s[from:], *pattern.String)
				if i < 0 {
					return list
				}
				list = append(list, []int{from + i, from + i + len(*pattern.String)})
				from += i + len(*pattern.String)
			}
		}, nil
	}
	return nil, fmt.Errorf("pre_tokenizer Split without a pattern")
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

// behaviors are how spans become pieces (tokenizers, SplitDelimiterBehavior).
var behaviors = map[string]func([]span) []string{
	"Removed": func(list []span) (out []string) {
		for _, s := range list {
			if !s.match {
				out = append(out, s.text)
			}
		}
		return out
	},
	"Isolated": func(list []span) (out []string) {
		for _, s := range list {
			out = append(out, s.text)
		}
		return out
	},
	"Contiguous": func(list []span) (out []string) {
		for i, s := range list {
			if i > 0 && s.match == list[i-1].match {
				out[len(out)-1] += s.text
			} else {
				out = append(out, s.text)
			}
		}
		return out
	},
	"MergedWithPrevious": func(list []span) (out []string) {
		for i, s := range list {
			if i > 0 && s.match && !list[i-1].match {
				out[len(out)-1] += s.text
			} else {
				out = append(out, s.text)
			}
		}
		return out
	},
	"MergedWithNext": func(list []span) (out []string) {
		for i := len(list) - 1; i >= 0; i-- {
			if i+1 < len(list) && list[i].match && !list[i+1].match {
				out[len(out)-1] = list[i].text + out[len(out)-1]
			} else {
				out = append(out, list[i].text)
			}
		}
		slices.Reverse(out)
		return out
	},
}

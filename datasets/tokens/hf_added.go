package tokens

import (
	"regexp"
	"strings"
	"unicode"
)

// addedTokens finds added tokens in text: the leftmost first, of several the longest.
type addedTokens struct {
	find   *regexp.Regexp // nil: there are none
	tokens map[string]hfAdded
}

func newAddedTokens(list []hfAdded) addedTokens {
	a := addedTokens{tokens: make(map[string]hfAdded)}
	var quoted []string
	for _, t := range list {
		if t.Content != "" {
			a.tokens[t.Content] = t
			quoted = append(quoted, regexp.QuoteMeta(t.Content))
		}
	}
	if len(quoted) > 0 {
		a.find = regexp.MustCompile(strings.Join(quoted, "|"))
		a.find.Longest()
	}
	return a
}

// cut yields the parts of text in order: added tokens with their id, what is between them
// with −1. Tokens that strip take the white space beside them.
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

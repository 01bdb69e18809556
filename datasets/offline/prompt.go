package offline

import (
	"fmt"
	"strings"

	"github.com/kvreplay/kvreplay/datasets/longbench"
)

// published fills the prompt of a set of LongBench. Where its words name another kind
// of source, pairs of old and new words adapt the prompt before it is filled.
func published(set, context, input string, words ...string) string {
	s, ok := longbench.Lookup(set)
	if !ok {
		panic("offline: no set " + set)
	}
	const c, i = "\x00context\x00", "\x00input\x00" // so that the texts are not adapted
	prompt := s.Fill(c, i)
	for k := 0; k < len(words); k += 2 {
		if !strings.Contains(prompt, words[k]) {
			panic(fmt.Sprintf("offline: the prompt of %s has no %q", set, words[k]))
		}
		prompt = strings.ReplaceAll(prompt, words[k], words[k+1])
	}
	return strings.NewReplacer(c, context, i, input).Replace(prompt)
}

// numbered writes passages one after another, each with its number from 1.
func numbered(name, after string, passages []string) string {
	var b strings.Builder
	for i, p := range passages {
		if i > 0 {
			b.WriteString("\n\n")
		}
		fmt.Fprintf(&b, "%s %d:%s%s", name, i+1, after, p)
	}
	return b.String()
}

// placed returns the passages with another put among them, at a share of the way from
// the first place to the last, and its place from 0.
func placed(passages []string, other string, share float64) ([]string, int) {
	at := int(share * float64(len(passages)+1))
	out := make([]string, 0, len(passages)+2)
	out = append(out, passages[:at]...)
	out = append(out, other)
	return append(out, passages[at:]...), at
}

package ruler

import (
	"bytes"
	"compress/gzip"
	_ "embed"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
)

// The texts that are built in; data/README.md says where they are from.
var (
	//go:embed data/nounlist.txt.gz
	nounsFile []byte
	//go:embed data/adjectivelist.txt.gz
	adjectivesFile []byte
	//go:embed data/verblist.txt.gz
	verbsFile []byte
	//go:embed data/opticks.txt.gz
	opticksFile []byte
	//go:embed data/godoc.jsonl.gz
	godocFile []byte
)

// unpack returns a file that is built in; that it does not unpack cannot be.
func unpack(file []byte) []byte {
	z, err := gzip.NewReader(bytes.NewReader(file))
	if err != nil {
		panic("ruler: " + err.Error())
	}
	text, err := io.ReadAll(z)
	if err != nil {
		panic("ruler: " + err.Error())
	}
	return text
}

// wordLists are the words of the wonderwords package, as RULER uses them.
type wordLists struct {
	nouns, adjectives []string // as the files have them
	all               []string // with verbs, sorted, without spaces; two are there twice
}

func loadWords() (*wordLists, []byte) {
	nouns, adjectives, verbs := unpack(nounsFile), unpack(adjectivesFile), unpack(verbsFile)
	w := &wordLists{nouns: lines(nouns), adjectives: lines(adjectives)}
	w.all = slices.Concat(lines(nouns), lines(adjectives), lines(verbs))
	slices.Sort(w.all)
	w.all = trimmed(slices.Compact(w.all))
	return w, slices.Concat(nouns, adjectives, verbs)
}

func lines(text []byte) []string { return strings.Split(strings.TrimSpace(string(text)), "\n") }

// trimmed drops the space behind words, as wonderwords does: three adjectives have one.
func trimmed(words []string) []string {
	for i, word := range words {
		words[i] = strings.TrimRight(word, " ")
	}
	return words
}

// pair returns an adjective and a noun joined by a hyphen.
func (w *wordLists) pair(r *rand.Rand) string {
	return w.adjectives[r.IntN(len(w.adjectives))] + "-" + w.nouns[r.IntN(len(w.nouns))]
}

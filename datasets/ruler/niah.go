package ruler

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"github.com/kvreplay/kvreplay/datasets/prompts"
	"github.com/kvreplay/kvreplay/internal/slice"
)

// niah is a needle-in-a-haystack task (scripts/data/synthetic/niah.py). Its haystack has keys ×
// values needles, and it asks for queries of the keys.
type niah struct {
	name                  string
	haystack              haystack
	key, value            kind
	keys, values, queries int
}

// haystack is the text that needles are hidden in.
type haystack string

const (
	noise   haystack = "noise"   // one line of five short sentences, repeated
	essays  haystack = "essays"  // running text
	needles haystack = "needles" // further needles, without a question
)

// kind is the kind of keys and values, in the plural, as the prompt has it.
type kind string

const (
	words   kind = "words"   // adjective-noun
	numbers kind = "numbers" // 7 digits
	uuids   kind = "uuids"   // version 4
)

// depths is the number of points, evenly spread from 0 to 100 % of an essay's sentences. Each is
// rounded to a whole percent. Needles take some of them.
const depths = 40

func (n niah) task() task {
	t := task{name: n.name, newTokens: niahTokens, located: true, sample: n.sample}
	switch n.haystack {
	case noise:
		t.unit = "noise sentences"
	case essays:
		t.unit, t.texts = "words of the essays", []string{roleEssays}
	case needles:
		t.unit = "further needles"
	}
	if n.key == words {
		t.texts = append(t.texts, roleWords)
	}
	return t
}

// hunt is a sample of a niah task.
type hunt struct {
	niah
	essay   *essay
	words   *wordLists
	draws   draws
	needles []string
	query   string
	outputs []string
	seen    map[string]bool // keys and values in use
	hay     []string        // further needles, without a question, drawn so far
	hayRand *rand.Rand
}

func (n niah) sample(m *maker, _, _ int, d draws) (prompts.Sample, error) {
	h := &hunt{niah: n, essay: m.essay, words: m.words, draws: d, seen: make(map[string]bool), hayRand: d.stream("hay", 0)}
	r := d.stream("needles", 0)
	keys := make([]string, n.keys)
	values := make([][]string, n.keys)
	for i := range keys {
		keys[i] = h.draw(r, n.key)
		for range n.values {
			v := h.draw(r, n.value)
			values[i] = append(values[i], v)
			h.needles = append(h.needles, h.needle(keys[i], v))
		}
	}
	shuffle(r, h.needles)
	var queries []string
	for _, i := range distinct(r, n.keys, n.queries) {
		queries = append(queries, keys[i])
		h.outputs = append(h.outputs, values[i]...)
	}
	h.query = queries[0]
	if last := len(queries) - 1; last > 0 {
		h.query = strings.Join(queries[:last], ", ") + ", and " + queries[last]
	}
	least := len(h.needles)
	if h.haystack == essays {
		least = 1
	}
	return prompts.Sample{Least: least, Most: prompts.Unbounded, Prompt: h.prompt}, nil
}

// draw returns a key or value that the sample does not have yet.
func (h *hunt) draw(r *rand.Rand, k kind) string {
	return unused(h.seen, func() string {
		switch k {
		case words:
			return h.words.adjectives[r.IntN(len(h.words.adjectives))] + "-" + h.words.nouns[r.IntN(len(h.words.nouns))]
		case numbers:
			return strconv.Itoa(1_000_000 + r.IntN(9_000_000))
		}
		var id uuid.UUID // version 4 (RFC 9562, 5.4)
		binary.BigEndian.PutUint64(id[:8], r.Uint64())
		binary.BigEndian.PutUint64(id[8:], r.Uint64())
		id[6] = id[6]&0x0f | 0x40
		id[8] = id[8]&0x3f | 0x80
		return id.String()
	})
}

func (h *hunt) needle(key, value string) string {
	return fmt.Sprintf(niahNeedle, h.value, key, value)
}

func (h *hunt) prompt(n int) prompts.Draft {
	what, template := string(h.value), niahMany
	if len(h.outputs) == 1 {
		what, template = strings.TrimSuffix(what, "s"), niahOne
	}
	return prompts.Draft{
		Input:   fill(template.input, "type", what, "query", h.query, "context", h.context(n)),
		Prefix:  fill(template.prefix, "type", what, "query", h.query),
		Outputs: h.outputs,
	}
}

// context returns the haystack of n units with the needles in it.
func (h *hunt) context(n int) string {
	r := h.draws.stream("positions", n)
	switch h.haystack {
	case essays:
		sentences := h.essay.sentences(n)
		return strings.Join(insert(sentences, h.needles, essayPositions(r, len(sentences), len(h.needles))), " ")
	case needles:
		return strings.Join(insert(h.further(n), h.needles, distinct(r, n, len(h.needles))), "\n")
	}
	return strings.Join(insert(slices.Repeat([]string{noiseLine}, n), h.needles, distinct(r, n, len(h.needles))), "\n")
}

// essayPositions returns the sentences, of n, before which k needles are placed: k of the depths.
func essayPositions(r *rand.Rand, n, k int) []int {
	positions := distinct(r, depths, k)
	for i, d := range positions {
		percent := math.Round(float64(d) * 100 / (depths - 1))
		positions[i] = int(float64(n) * (percent / 100))
	}
	return positions
}

// further returns the first n needles without a question.
func (h *hunt) further(n int) []string {
	for len(h.hay) < n {
		key := h.draw(h.hayRand, h.key)
		h.hay = append(h.hay, h.needle(key, h.draw(h.hayRand, h.value)))
	}
	return h.hay[:n]
}

// insert returns lines with each needle before the line of its position. Needles are in order of
// position, and len(lines) is the end.
func insert(lines, needles []string, positions []int) []string {
	order := slice.Indices(len(needles))
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(positions[a], positions[b]) })
	out := make([]string, 0, len(lines)+len(needles))
	done := 0
	for _, i := range order {
		out = append(out, lines[done:positions[i]]...)
		out = append(out, needles[i])
		done = positions[i]
	}
	return append(out, lines[done:]...)
}

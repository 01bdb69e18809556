package derive

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Options say what to derive; the zero value copies.
type Options struct {
	// TopK is the new K, in blocks; 0 keeps the source's.
	TopK int
	// Candidates is the new M, the length lists are cut to, in blocks; 0 keeps the source's.
	Candidates int
	// BlockTokens is the new block size in tokens, a multiple of the source's; 0 keeps it.
	BlockTokens int
	// Requests, Layers and Heads select streams; nil selects all.
	Requests []string
	Layers   []int32
	Heads    []int32
	// Union makes one stream of the heads of a layer.
	Union bool
	// Steps selects rows; nil selects all.
	Steps *Steps
}

// Steps is the half-open range of steps From ≤ t < To.
type Steps struct{ From, To int32 }

// ParseSteps reads "-32:64", "0:" or ":64".
func ParseSteps(text string) (*Steps, error) {
	from, to, ok := strings.Cut(text, ":")
	s := Steps{math.MinInt32, math.MaxInt32}
	bad := !ok || from == "" && to == ""
	for _, end := range []struct {
		text string
		dst  *int32
	}{{from, &s.From}, {to, &s.To}} {
		if end.text == "" {
			continue
		}
		v, err := strconv.ParseInt(end.text, 10, 32)
		bad = bad || err != nil
		*end.dst = int32(v)
	}
	if bad || s.From >= s.To {
		return nil, fmt.Errorf("steps %q: expected FROM:TO with FROM < TO, where TO is left out, as in -32:64, 0: or :64", text)
	}
	return &s, nil
}

// String is the range as ParseSteps reads it.
func (s *Steps) String() string {
	from, to := "", ""
	if s.From != math.MinInt32 {
		from = strconv.Itoa(int(s.From))
	}
	if s.To != math.MaxInt32 {
		to = strconv.Itoa(int(s.To))
	}
	return from + ":" + to
}

func (s *Steps) has(t int32) bool { return s == nil || t >= s.From && t < s.To }

// String is the options as flags of `kvreplay derive`, in one order, lists sorted.
func (o *Options) String() string {
	var flags []string
	add := func(name, value string) { flags = append(flags, "--"+name+" "+value) }
	for _, n := range []struct {
		name  string
		value int
	}{{"topk", o.TopK}, {"candidates", o.Candidates}, {"block-tokens", o.BlockTokens}} {
		if n.value != 0 {
			add(n.name, strconv.Itoa(n.value))
		}
	}
	if o.Requests != nil {
		add("requests", strings.Join(slices.Compact(slices.Sorted(slices.Values(o.Requests))), ","))
	}
	if o.Layers != nil {
		add("layers", numbers(o.Layers))
	}
	if o.Heads != nil {
		add("heads", numbers(o.Heads))
	}
	if o.Union {
		add("heads", "union")
	}
	if o.Steps != nil {
		add("steps", o.Steps.String())
	}
	return strings.Join(flags, " ")
}

// numbers lists sorted numbers, each once.
func numbers(values []int32) string {
	var texts []string
	for _, v := range slices.Compact(slices.Sorted(slices.Values(values))) {
		texts = append(texts, strconv.Itoa(int(v)))
	}
	return strings.Join(texts, ",")
}

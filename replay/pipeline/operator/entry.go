package operator

import (
	"fmt"
	"slices"
	"strings"

	"github.com/kvreplay/kvreplay/internal/names"
	"github.com/kvreplay/kvreplay/internal/slice"
	"github.com/kvreplay/kvreplay/policies"
	"github.com/kvreplay/kvreplay/replay/hardware"
)

// Entry is the form in which the KV of a token lies below the GPU and moves to it. The GPU makes K
// and V in FP16 of it, which its cache keeps. The zero value is the model's own entry, K and V or a
// latent vector. Bytes moved, work, memory, labels and notes follow from it.
type Entry struct {
	kind *form // nil for the model's own
	rank int   // of K's factors
	bits int   // of a quantised number
	// group is the number of adjacent numbers that share a scale and a least value.
	group int
}

// form is a line of the table of entries.
type form struct {
	name, usage, summary string
	set                  Entry // defaults of the options
	options              func(e *Entry) []policies.Option
	// own forms are the model's entry.
	own bool
	// lossy forms give other K and V than the model's.
	lossy bool
	// bytes returns the bytes of a token that move, in one layer, all KV heads.
	bytes func(e Entry, m *hardware.Model) float64
	// held returns the bytes of a token and of a request that the GPU keeps in a layer outside its
	// cache, nil for none.
	held func(e Entry, m *hardware.Model) (token, request float64)
	// early returns the seconds of the work that needs no moved bytes, and late that of the rest.
	early, late func(e Entry, r *Roofline, a Arrivals) float64
	kernels     int // launches of the early work in the public code, 0 if they are not counted
}

// Arrivals are the entries that a layer fetches in a step, for some requests.
type Arrivals struct {
	Requests  float64
	Entries   float64 // moved entries, each of some heads
	Hits      float64 // demanded entries that the cache has
	Heads     float64 // entries of a token
	Generated float64 // new tokens, which are written back
}

// tokens returns the fetched tokens if every entry of a token moves.
func (a Arrivals) tokens() float64 { return a.Entries / a.Heads }

// forms is the table of entries. Every number that the GPU reads or writes is FP16.
var forms = []*form{
	{name: "kv", usage: "kv", summary: "K and V, of a model that caches them", own: true},
	{name: "latent", usage: "latent", summary: "the latent vector of multi-head latent attention", own: true},
	{
		name: "v", usage: "v[:rank=160]", summary: "V, and K is rebuilt from factors of a rank on the GPU (ShadowKV)",
		set: Entry{rank: 160}, options: func(e *Entry) []policies.Option {
			return []policies.Option{policies.Int("rank", &e.rank, 1, 1<<16)}
		},
		lossy: true, bytes: valueBytes, held: Entry.factors, early: Entry.rebuild, kernels: rebuildKernels,
	},
	{name: "hidden", usage: "hidden", summary: "the layer's input, which gives K and V again (HCache, KVPR)",
		bytes: hiddenBytes, late: Entry.project},
	quantised(2, 32, "K and V in 2 bits (KIVI)"),
	quantised(4, 64, "K and V in 4 bits (FlexGen)"),
	quantised(8, 64, "K and V in 8 bits"),
}

// quantised returns the form of K and V in a number of bits.
func quantised(bits, group int, summary string) *form {
	name := fmt.Sprintf("int%d", bits)
	return &form{
		name: name, usage: fmt.Sprintf("%s[:group=%d]", name, group), summary: summary,
		set: Entry{bits: bits, group: group}, options: func(e *Entry) []policies.Option {
			return []policies.Option{policies.Int("group", &e.group, 2, 1<<16)}
		},
		lossy: true, bytes: Entry.packed, early: Entry.quantise, late: Entry.dequantise,
	}
}

// EntryList describes the entries, one per line.
func EntryList() string {
	lines := slice.Map(forms, func(f *form) string { return listed(f.usage, f.summary) })
	return listed("auto", "the model's own, kv or latent") + "\n" + strings.Join(lines, "\n")
}

// ParseEntry reads a text such as "v:rank=160" or "int4". "auto" is the model's own entry.
func ParseEntry(text string, m *hardware.Model) (e Entry, err error) {
	name, options, _ := strings.Cut(text, ":")
	known := append(names.Of("auto"), slice.Map(forms, func(f *form) names.Name { return names.Name{Name: f.name} })...)
	if name, err = names.Find("entry", name, known); err != nil {
		return e, err
	}
	var list []policies.Option
	if i := slices.IndexFunc(forms, func(f *form) bool { return f.name == name }); i >= 0 && !forms[i].own {
		e = forms[i].set
		if e.kind = forms[i]; e.kind.options != nil {
			list = e.kind.options(&e)
		}
	}
	if _, err = policies.ParseOptions(options, list...); err != nil {
		return Entry{}, fmt.Errorf("entry %s: %w", text, err)
	}
	if err = fits(name, m); err == nil && float64(e.rank) > keyNumbers(m) {
		err = fmt.Errorf("entry %s: K has only %g numbers per token: lower the rank", text, keyNumbers(m))
	}
	if err != nil {
		return Entry{}, err
	}
	return e, nil
}

// fits returns an error if the model has no such entry.
func fits(name string, m *hardware.Model) error {
	switch {
	case name == "auto":
	case name == "latent" && m.Latent == nil:
		return fmt.Errorf("entry latent: %s has no latent attention: choose kv", m.Name)
	case name == "kv" && m.Latent != nil:
		return fmt.Errorf("entry kv: %s caches a latent vector instead of K and V: choose latent", m.Name)
	case name != "latent" && name != "kv" && !m.CachesKeysAndValues():
		return fmt.Errorf("entry %s: %s does not cache K and V in FP16: choose auto", name, m.Name)
	}
	return nil
}

// keyNumbers returns the numbers of a token's K in a layer, all KV heads.
func keyNumbers(m *hardware.Model) float64 { return float64(m.KVHeads.Value * m.HeadDim.Value) }

// Own reports whether it is the model's own entry.
func (e Entry) Own() bool { return e.kind == nil }

// AllHeads reports whether the entry of a token has all heads, so that none is fetched apart.
func (e Entry) AllHeads() bool { return e.kind != nil && e.kind.name == "hidden" }

// Lossy reports whether the GPU gets other K and V than the model's.
func (e Entry) Lossy() bool { return e.kind != nil && e.kind.lossy }

// String returns the text that ParseEntry reads.
func (e Entry) String() string {
	switch {
	case e.kind == nil:
		return "auto"
	case e.rank > 0:
		return fmt.Sprintf("%s:rank=%d", e.kind.name, e.rank)
	case e.group > 0:
		return fmt.Sprintf("%s:group=%d", e.kind.name, e.group)
	}
	return e.kind.name
}

// Bytes returns the bytes of a token that move, in one layer, all KV heads.
func (e Entry) Bytes(m *hardware.Model) float64 {
	if e.kind == nil {
		return float64(m.Entry.Value)
	}
	return e.kind.bytes(e, m)
}

// Held returns the bytes of a token and of a request that the GPU keeps in a layer outside its
// cache.
func (e Entry) Held(m *hardware.Model) (token, request float64) {
	if e.kind == nil || e.kind.held == nil {
		return 0, 0
	}
	return e.kind.held(e, m)
}

// restore returns the seconds of Set.Restore, without launches.
func (e Entry) restore(r *Roofline, a Arrivals) (early, late float64) {
	if e.kind == nil || a.Entries == 0 {
		return 0, 0
	}
	if e.kind.early != nil {
		early = e.kind.early(e, r, a)
	}
	if e.kind.late != nil {
		late = e.kind.late(e, r, a)
	}
	return early, late
}

// kernels returns the number of kernels of the early work whose launches count.
func (e Entry) kernels() float64 {
	if e.kind == nil {
		return 0
	}
	return float64(e.kind.kernels)
}

// Note states the bytes of the entry next to those of the model's own.
func (e Entry) Note(m *hardware.Model) string {
	return fmt.Sprintf("entry: %s moves %.4g B per token and layer, K and V are %s",
		e, e.Bytes(m), hardware.Bytes(m.Entry.Value))
}

func valueBytes(_ Entry, m *hardware.Model) float64 { return hardware.HalfBytes * keyNumbers(m) }

// factors returns the bytes of K's factors: rank numbers per token, and rank numbers per column of K
// and request. They are the singular value decomposition of the prompt's K, with all heads side by
// side, before the rotary embedding (ShadowKV, arXiv 2410.21465). Its public code calls them U and
// SV (models/kv_cache.py, class ShadowKVCache_CPU). Generated tokens have no factors there, but
// count here.
func (e Entry) factors(m *hardware.Model) (token, request float64) {
	rank := hardware.HalfBytes * float64(e.rank)
	return rank, rank * keyNumbers(m)
}

// rebuildKernels copy K of hits, convert the numbers of the demanded groups, multiply and rotate. V of
// hits and misses is the kernel of the fetch.
const rebuildKernels = 4

// rebuild returns the seconds of ShadowKV's kernels while V moves (public code, methods
// get_key_cache and get_value_cache). One multiplies the token's row with the columns of a head,
// 2 × rank × head_dim FLOP for each missed entry. It gathers the rows by entry. Another applies the
// rotary embedding: it reads K, and sines and cosines of as many numbers, and writes K. The cache
// keeps the demand in order, hits first, so K and V of all hits are read and written. V of misses
// arrives in a buffer, from which it is read and written.
func (e Entry) rebuild(r *Roofline, a Arrivals) float64 {
	keys, hits := a.tokens()*keyNumbers(r.Model), a.Hits/a.Heads*keyNumbers(r.Model)
	_, columns := e.factors(r.Model)
	rows := a.Entries * float64(e.rank) * hardware.HalfBytes
	product := r.at(2*keys*float64(e.rank), r.matrix, rows+a.Requests*columns+keys*hardware.HalfBytes)
	const buffered, copied = 3, 2 * 2 // passes over V of misses, over K and V of hits
	return product + r.rotary(keys) + r.at(0, 1, hardware.HalfBytes*(buffered*keys+copied*hits))
}

// rotary returns the seconds to apply the rotary embedding to some numbers.
func (r *Roofline) rotary(numbers float64) float64 { return r.at(0, 1, 3*hardware.HalfBytes*numbers) }

func hiddenBytes(_ Entry, m *hardware.Model) float64 {
	return hardware.HalfBytes * float64(m.Hidden.Value)
}

// project returns the seconds to compute K and V of fetched tokens from a layer's input: a product
// with W_K and W_V, then the rotary embedding (HCache, arXiv 2410.05004). KVPR has the same bytes and
// product (Eq. 5 and 7). Its FLOP are 4 × hidden² per token, because K and V are as wide as the input
// there (Eq. 8).
func (e Entry) project(r *Roofline, a Arrivals) float64 {
	m := r.Model
	n, moved := m.KeyValueParameters(), hiddenBytes(e, m)+float64(m.Entry.Value)
	product := r.at(2*n*a.tokens(), r.speed(hardware.Attention), n*m.WeightBytes(hardware.Attention)+a.tokens()*moved)
	return product + r.rotary(a.tokens()*keyNumbers(m))
}

// packed returns the bytes of quantised K and V. A group of numbers has a scale and a least value in
// FP16. FlexGen has groups of 64 (ICML 2023, section 5). KIVI has groups of 32 (arXiv 2402.02750,
// public code, quant/new_pack.py and example.py).
func (e Entry) packed(m *hardware.Model) float64 {
	return 2 * keyNumbers(m) * (float64(e.bits)/8 + 2*hardware.HalfBytes/float64(e.group))
}

// dequantise returns the seconds of a kernel that reads packed K and V and writes them in FP16.
func (e Entry) dequantise(r *Roofline, a Arrivals) float64 {
	return r.at(0, 1, a.tokens()*(e.packed(r.Model)+float64(r.Model.Entry.Value)))
}

// quantise returns the seconds of the reverse for new tokens.
func (e Entry) quantise(r *Roofline, a Arrivals) float64 {
	return r.at(0, 1, a.Generated*(e.packed(r.Model)+float64(r.Model.Entry.Value)))
}

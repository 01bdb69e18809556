package pipeline

import (
	"slices"
	"strings"
	"testing"

	"github.com/kvreplay/kvreplay/internal/fatal"
	"github.com/kvreplay/kvreplay/replay/hardware"
	"github.com/kvreplay/kvreplay/replay/pipeline/schedule"
)

// entryOf reads an entry of a model.
func entryOf(t *testing.T, text string, m *hardware.Model) Entry {
	t.Helper()
	e, err := ParseEntry(text, m)
	fatal.If(t, err)
	return e
}

// By hand for Llama 3 8B. A token has 8 KV heads × 128 numbers of K and as many of V. A layer's input
// has 4096 numbers.
func TestEntryBytes(t *testing.T) {
	_, m := parts(t, "h100", "llama-3-8b")
	for _, c := range []struct {
		text                  string
		bytes, token, request float64
	}{
		{"auto", 4096, 0, 0},
		{"kv", 4096, 0, 0},
		{"v", 2048, 320, 1024 * 320},
		{"v:rank=64", 2048, 128, 1024 * 128},
		{"hidden", 8192, 0, 0},
		{"int8", 2048 * (1 + 4./64), 0, 0},
		{"int4:group=64", 2048 * (0.5 + 4./64), 0, 0},
		{"int2", 2048 * (0.25 + 4./32), 0, 0},
	} {
		e := entryOf(t, c.text, m)
		near(t, c.text, e.Bytes(m), c.bytes)
		token, request := e.Held(m)
		near(t, c.text+", held of a token", token, c.token)
		near(t, c.text+", held of a request", request, c.request)
		if again := entryOf(t, e.String(), m); again != e {
			t.Errorf("%s reads back as %s", e, again)
		}
	}
	// KVPR's Eq. 6 and FlexGen's quantisation count the same bytes.
	near(t, "int4", entryOf(t, "int4", m).Bytes(m), 2048*schedule.Quantization{Group: 64}.PerNumber())
}

// Models without K and V in FP16 have their own entry alone.
func TestParseEntry(t *testing.T) {
	_, llama := parts(t, "h100", "llama-3-8b")
	_, deepseek := parts(t, "h100", "deepseek-v3.2")
	if e := entryOf(t, "latent", deepseek); !e.Own() || e.Bytes(deepseek) != 656 {
		t.Errorf("latent is %s of %g B", e, e.Bytes(deepseek))
	}
	for text, want := range map[string]string{
		"latent": "choose kv", "w": "unknown entry", "v:rank=0": "between 1", "kv:rank=1": "unknown option",
		"int4:group=1": "between 2", "v:rank=1025": "only 1024",
	} {
		if _, err := ParseEntry(text, llama); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, expected %q", text, err, want)
		}
	}
	for _, text := range []string{"kv", "v", "hidden", "int4"} {
		if _, err := ParseEntry(text, deepseek); err == nil {
			t.Errorf("%s has no error for latent attention", text)
		}
	}
}

// By hand: two requests fetch 100 tokens of all 8 heads, and have 200 others in the cache.
func TestRestoring(t *testing.T) {
	machine, m := parts(t, "h100", "llama-3-8b")
	r := NewRoofline(machine, m, Selection{}, 1, 1)
	few := arrivals{requests: 2, entries: 800, hits: 1600, heads: 8, generated: 2}
	const keys = 100 * 1024
	rotary := 3 * 2 * keys / r.memory
	early, late := entryOf(t, "v", m).restore(r, few)
	near(t, "v, after the fetch", late, 0)
	near(t, "v", early, max(2*160*keys/r.matrix, (800*320+2*1024*320+2*keys)/r.memory)+rotary+
		(3*2*keys+4*2*2*keys)/r.memory) // V of misses in three passes, K and V of twice as many hits in four
	early, late = entryOf(t, "hidden", m).restore(r, few)
	near(t, "hidden, before the fetch", early, 0)
	weights := 2. * 4096 * 1024
	near(t, "hidden", late, max(2*weights*100/r.matrix, (2*weights+100*(8192+4096))/r.memory)+rotary)
	early, late = entryOf(t, "int4", m).restore(r, few)
	near(t, "int4, new tokens", early, 2*(1152+4096)/r.memory)
	near(t, "int4, fetched tokens", late, 100*(1152+4096)/r.memory)
	// K of KVPR's Eq. 8: 4 × hidden² FLOP per token if all heads have K and V.
	_, opt := parts(t, "h100", "opt-6.7b")
	many := arrivals{requests: 1, entries: 1e6, heads: 1}
	r = NewRoofline(machine, opt, Selection{}, 1, 1)
	_, late = entryOf(t, "hidden", opt).restore(r, many)
	near(t, "hidden, all heads", late, 4*4096*4096*1e6/r.matrix+3*2*4096*1e6/r.memory)
}

// On real misses, bytes over the link, bytes in host memory and the labels follow from the entry. A
// step that moves fewer bytes is shorter, and one that waits for its fetch computes longer.
func TestEntriesOnRealMisses(t *testing.T) {
	p := read(t, realProfile(t))
	for _, name := range []string{"sequential", "layerwise", "sfc:parts=1", "prefetch"} {
		o := options(t, p, name)
		own := priced(t, p, o)
		for text, share := range map[string]float64{"v": 0.5, "int4": 0.28125, "hidden": 1.5} {
			o.Entry = entryOf(t, text, o.Model)
			r := priced(t, p, o)
			near(t, text+", H2D", r.H2D/own.H2D, share)
			near(t, text+", D2H", r.D2H/own.D2H, share)
			near(t, text+", host memory", r.Memory.Host/own.Memory.Host, share)
			near(t, text+", cache", r.Memory.Cache, own.Memory.Cache)
			if r.Causes.Compute <= own.Causes.Compute && name == "sequential" {
				t.Errorf("%s computes %g s, K and V %g s", text, r.Causes.Compute, own.Causes.Compute)
			}
			if share < 1 && r.Causes.Fetch >= own.Causes.Fetch && own.Causes.Fetch > 0 {
				t.Errorf("%s, %s: %g s of fetches are exposed, of K and V %g s",
					name, text, r.Causes.Fetch, own.Causes.Fetch)
			}
			if lossy := slices.Contains(r.Labels, "lossy entries"); lossy != (text != "hidden") {
				t.Errorf("%s has the labels %v", text, r.Labels)
			}
			if notes := strings.Join(r.Notes, "\n"); !strings.Contains(notes, "entry: "+o.Entry.String()) {
				t.Errorf("%s is not in the notes: %s", text, notes)
			}
			held, _ := o.Entry.Held(o.Model)
			if more := r.Memory.Index > own.Memory.Index; more != (held > 0) {
				t.Errorf("%s: index of %g B, without it %g B", text, r.Memory.Index, own.Memory.Index)
			}
		}
	}
}

// With a tier of host memory, its blocks and those of the SSD have the form of the entry.
func TestEntriesOfTiers(t *testing.T) {
	p := read(t, realProfile(t, "dram=lru@4x"))
	o := options(t, p, "sequential")
	o.Machine, _ = parts(t, "l40s", "smollm2-135m")
	own := priced(t, p, o)
	o.Entry = entryOf(t, "v", o.Model)
	r := priced(t, p, o)
	near(t, "bytes of the SSD's reads", r.SSD/own.SSD, 0.5)
	near(t, "host memory", r.Memory.Host/own.Memory.Host, 0.5)
	near(t, "SSD", r.Memory.SSD/own.Memory.SSD, 0.5)
}

// Schedules that move no misses are priced with the model's own entry, and say so.
func TestEntryOfOtherSchedules(t *testing.T) {
	p := read(t, realProfile(t))
	for _, name := range []string{"gpu", "dense", "flexgen"} {
		o := options(t, p, name)
		own := priced(t, p, o)
		o.Entry = entryOf(t, "v", o.Model)
		r := priced(t, p, o)
		if r.Mean != own.Mean || r.Memory != own.Memory || slices.Contains(r.Labels, "lossy entries") {
			t.Errorf("%s takes %g s and %+v, expected %g s and %+v", name, r.Mean, r.Memory, own.Mean, own.Memory)
		}
		if !strings.Contains(strings.Join(r.Notes, "\n"), "entry: auto, because") {
			t.Errorf("%s: %v", name, r.Notes)
		}
	}
}

// A hidden state has all heads. It cannot be fetched for one.
func TestHiddenOfHeads(t *testing.T) {
	p := read(t, realProfile(t))
	o := options(t, p, "sequential")
	o.Entry = entryOf(t, "hidden", o.Model)
	p.Heads = 3
	if _, err := Price(t.Context(), p, o); err == nil || !strings.Contains(err.Error(), "--share-heads") {
		t.Errorf("error %v, expected one that names --share-heads", err)
	}
}

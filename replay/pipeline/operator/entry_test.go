package operator

import (
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
	r := NewRoofline(Config{Machine: machine, Model: m})
	few := Arrivals{Requests: 2, Entries: 800, Hits: 1600, Heads: 8, Generated: 2}
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
	many := Arrivals{Requests: 1, Entries: 1e6, Heads: 1}
	r = NewRoofline(Config{Machine: machine, Model: opt})
	_, late = entryOf(t, "hidden", opt).restore(r, many)
	near(t, "hidden, all heads", late, 4*4096*4096*1e6/r.matrix+3*2*4096*1e6/r.memory)
}

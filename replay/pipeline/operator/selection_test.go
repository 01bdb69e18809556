package operator

import (
	"testing"

	"github.com/kvreplay/kvreplay/internal/fatal"
	"github.com/kvreplay/kvreplay/replay/hardware"
)

func selectionOf(t *testing.T, text string, m *hardware.Model) Selection {
	t.Helper()
	s, err := ParseSelection(text, m)
	fatal.If(t, err)
	return s
}

// By hand for Llama 3 8B: 32 query heads, 8 KV heads × 128 numbers, an input of 4096 numbers.
func TestSelectionCosts(t *testing.T) {
	_, m := parts(t, "h100", "llama-3-8b")
	for text, want := range map[string]SelectionCost{
		"minmax": {Token: 2 * 2048 / 16, read: 2 * 2048 / 16, flop: 2 * 2 * 4096 / 16, scores: 8. / 16},
		// four passes over a number of each query head
		"mean":      {Token: 2048 / 8, read: 2048/8 + 4*2*32/8, flop: 2 * 4096 / 8, scores: 1},
		"centroids": {Token: 2048 / 16, read: 2048 / 16, flop: 2 * 4096 / 16, scores: 8. / 16},
		"keys":      {Token: 2048, read: 2048, flop: 2 * 4096, scores: 8},
		// two vectors of 256 B, 2 B of size and 1 B of mask for a cluster of 16 tokens
		"wave:share=0.5": {Token: 8 * 515 / 16., read: 8 * (257 + 1.5*514) / 16, flop: 2 * 4096 / 16 * 2,
			scores: 8. / 16},
		// ⌊25.6⌋ columns
		"partial": {Token: 8 * 25 * 2, read: 8 * 25 * 2, weights: 4096 * 32 * 25, Held: 2 * 4096 * 32 * 25,
			flop: 2 * 32 * 25, query: 2 * 4096 * 32 * 25, scores: 8},
		"pq": {Token: 8 * 12 / 8., read: 8 * 12 / 8., Request: 8 * 64 * 256,
			flop: 32 * 2, query: 2 * 4096 * 64, scores: 8},
		"pq:parts=4,bits=8": {Token: 32, read: 32, Request: 8 * 256 * 256,
			flop: 32 * 4, query: 2 * 4096 * 256, scores: 8},
		"lsh:tables=2": {weights: 8 * 128 * 20, Held: 2 * 8 * 128 * 20 / 16, query: 2 * 4096 * 20,
			Host: HostIndex{Token: 4 * (8*2 + 32), Request: 8 * 8 * 2 * 1024, scan: 4 * 32 * 2 / 1024., touches: 64}},
	} {
		s := selectionOf(t, text, m)
		have := s.Cost(m)
		for what, v := range map[string][2]float64{
			"bytes of a token": {have.Token, want.Token}, "bytes read": {have.read, want.read},
			"bytes of a request": {have.Request, want.Request}, "weights": {have.weights, want.weights},
			"bytes of weights": {have.Held, want.Held}, "FLOP of a token": {have.flop, want.flop},
			"FLOP of a query": {have.query, want.query}, "scores": {have.scores, want.scores},
			"host, bytes of a token":   {have.Host.Token, want.Host.Token},
			"host, bytes of a request": {have.Host.Request, want.Host.Request},
			"host, bytes read":         {have.Host.scan, want.Host.scan},
			"host, accesses":           {have.Host.touches, want.Host.touches},
		} {
			near(t, text+": "+what, v[0], v[1])
		}
		if again := selectionOf(t, s.String(), m); again != s {
			t.Errorf("%s reads back as %s", s, again)
		}
	}
}

// By hand: two requests of 1000 tokens with one query each.
func TestSelecting(t *testing.T) {
	machine, m := parts(t, "h100", "llama-3-8b")
	load := &Load{Requests: 2, Queries: 2, Context: 2000, Scored: 2000}
	selecting := func(text string) (float64, *Roofline) {
		r := NewRoofline(Config{Machine: machine, Model: m, Selection: selectionOf(t, text, m), Threads: 4})
		return r.selecting(load), r
	}
	have, r := selecting("pq")
	near(t, "pq", have, max((2000*64+2*2*4096*64)/r.matrix, (2000*12+2*8*64*256)/r.memory)+2000*8*4*3/r.memory)
	have, r = selecting("lsh")
	host := float64(machine.Host.StreamBandwidth.Value) / float64(machine.GPUs)
	vectors := 150 * 10 * 128.
	search := 2000*4*32*150/1024./host + 2*32*150*float64(machine.Host.Latency.Value)/4
	near(t, "lsh", have, max(2*2*32*vectors/r.matrix, 2*8*vectors/r.memory)+search)
}

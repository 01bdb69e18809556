package operator

import (
	"github.com/kvreplay/kvreplay/internal/slice"
	"github.com/kvreplay/kvreplay/replay/hardware"
)

// matrix is a matrix of weights.
type matrix struct{ out, in float64 }

// parameters returns the number of weights of matrices.
func parameters(all []matrix) float64 {
	return slice.Sum(all, func(m matrix) float64 { return m.out * m.in })
}

// projections returns the matrices that a layer's attention multiplies with before selection,
// between selection and attention, and after. In latent attention the indexer's query, from the
// factored one, is enough to select. The full queries and their absorption into the latent space can
// wait. Keys are absorbed, so none is expanded (DeepSeek-V2, section 2.1). In other models selection
// needs the queries. The indexer's own projections count if it is used. Products of each head are one
// matrix of all heads.
func projections(m *hardware.Model, indexes bool) (first, second, out []matrix) {
	h, q, kv, d := float64(m.Hidden.Value), float64(m.QueryHeads.Value), float64(m.KVHeads.Value), float64(m.HeadDim.Value)
	l := m.Latent
	if l == nil {
		return []matrix{{d * (q + 2*kv), h}}, nil, []matrix{{h, q * d}}
	}
	rank, rope, nope, value := float64(l.KVRank.Value), float64(l.Rope.Value), float64(l.NoPE.Value), float64(l.Value.Value)
	down := rank + rope
	second, out = []matrix{{q * rank, nope}}, []matrix{{q * value, rank}, {h, q * value}}
	if query := float64(l.QueryRank.Value); query > 0 {
		down += query
		second = append(second, matrix{q * (nope + rope), query})
	} else {
		down += q * (nope + rope)
	}
	first = []matrix{{down, h}}
	if indexes {
		heads, dim := float64(m.Indexer.Heads.Value), float64(m.Indexer.HeadDim.Value)
		first = append(first, matrix{heads * dim, float64(l.QueryRank.Value)}, matrix{dim + heads, h})
	}
	return first, second, out
}

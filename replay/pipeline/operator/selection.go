package operator

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/kvreplay/kvreplay/internal/names"
	"github.com/kvreplay/kvreplay/internal/slice"
	"github.com/kvreplay/kvreplay/policies"
	"github.com/kvreplay/kvreplay/replay/hardware"
)

// Selection is the method by which a model finds its Top-K: its own indexer, or an index of its keys
// that each query head scores. The zero value selects nothing and keeps no index.
type Selection struct {
	Method string
	Tokens int     // tokens in a group that is scored as one, 0 or 1 if each token is
	Share  float64 // partial: of the columns of a key. wave: of the clusters, those that are estimated
	Parts  int     // pq: parts of a key. lsh: hash tables
	Bits   int     // pq: bits of a part's code. lsh: bits of a hash
}

// method is a line of the table of selections.
type method struct {
	name, usage, summary string
	set                  Selection // defaults of the options
	options              func(s *Selection) []policies.Option
	cost                 func(s Selection, m *hardware.Model) SelectionCost
	kernels              int // launches of the public code, 0 if they are not counted
}

// SelectionCost is the memory and the work of a selection in one layer.
type SelectionCost struct {
	Token   float64 // bytes of a token that the GPU keeps
	Request float64 // bytes of a request that the GPU keeps and a scoring reads
	Held    float64 // bytes of the weights that the GPU keeps
	Host    HostIndex
	weights float64 // FP16 numbers that all requests share, read once and multiplied with queries
	read    float64 // bytes of a token that a scoring reads
	flop    float64 // to score one token of context for one query
	query   float64 // FLOP of one query, with any context
	scores  float64 // scores of a token for one query: one for each head that selects
}

// HostIndex is the part of an index in host memory.
type HostIndex struct {
	Token, Request float64 // bytes kept
	scan           float64 // bytes that one query reads for each token of context
	touches        float64 // dependent accesses of one query
}

// Searched reports whether queries search the index on the host.
func (h HostIndex) Searched() bool { return h.touches > 0 }

// indexer is the name of the method of models that bring an indexer.
const indexer = "indexer"

// selections is the table of selections. Their indices hold FP16 numbers.
var selections = []method{
	{name: indexer, usage: indexer, summary: "the indexer of the model", cost: indexerCost},
	{name: "minmax", usage: "minmax[:tokens=16]", summary: "bounds of 16 tokens (Quest)",
		set: Selection{Tokens: 16}, options: tokensOption, cost: groupCost(2)},
	{name: "mean", usage: "mean[:tokens=8]", summary: "means of 8 tokens (ShadowKV)",
		set: Selection{Tokens: 8}, options: tokensOption, cost: meanCost, kernels: meanKernels},
	{name: "centroids", usage: "centroids[:tokens=16]", summary: "centroids of clusters (KVDrive)",
		set: Selection{Tokens: 16}, options: tokensOption, cost: groupCost(1)},
	{name: "wave", usage: "wave[:tokens=16,share=0.232]", summary: "centroids and sums of values (RetroInfer)",
		set: Selection{Tokens: 16, Share: 0.232}, cost: waveCost,
		options: func(s *Selection) []policies.Option {
			return append(tokensOption(s), policies.Float("share", &s.Share, 0, 1))
		}},
	{name: "partial", usage: "partial[:share=0.2]", summary: "a share of each key's columns (InfiniGen)",
		set: Selection{Share: 0.2}, cost: partialCost,
		options: func(s *Selection) []policies.Option {
			return []policies.Option{policies.Float("share", &s.Share, 0, 1)}
		}},
	{name: "pq", usage: "pq[:parts=2,bits=6]", summary: "codes of the parts of each key (PQCache)",
		set: Selection{Parts: 2, Bits: 6}, cost: productCost,
		options: func(s *Selection) []policies.Option {
			return []policies.Option{policies.Int("parts", &s.Parts, 1, 1<<10), policies.Int("bits", &s.Bits, 1, 16)}
		}},
	{name: "lsh", usage: "lsh[:tables=150,bits=10]", summary: "hash tables in host memory (MagicPIG)",
		set: Selection{Parts: 150, Bits: 10}, cost: hashCost,
		options: func(s *Selection) []policies.Option {
			return []policies.Option{policies.Int("tables", &s.Parts, 1, 1<<16), policies.Int("bits", &s.Bits, 1, 24)}
		}},
	{name: "keys", usage: "keys", summary: "all keys", cost: groupCost(1)},
}

func tokensOption(s *Selection) []policies.Option {
	return []policies.Option{policies.Int("tokens", &s.Tokens, 1, 1<<20)}
}

// SelectionList describes the selections, one per line.
func SelectionList() string {
	lines := slice.Map(selections, func(k method) string { return listed(k.usage, k.summary) })
	return listed("auto", "the model's indexer, or minmax") + "\n" + strings.Join(lines, "\n")
}

// ParseSelection reads a text such as "minmax" or "mean:tokens=8". "auto" is the model's indexer,
// or minmax if it has none.
func ParseSelection(text string, m *hardware.Model) (s Selection, err error) {
	if strings.EqualFold(text, "auto") {
		if text = "minmax"; m.Indexer != nil {
			text = indexer
		}
	}
	name, options, _ := strings.Cut(text, ":")
	list := slice.Map(selections, func(k method) names.Name { return names.Name{Name: k.name} })
	known := append(names.Of("auto"), list...)
	if name, err = names.Find("selection", name, known); err != nil {
		return s, err
	}
	s.Method = name
	k := s.method()
	if k == nil {
		return s, fmt.Errorf("selection %q: auto takes no options", text)
	}
	if name == indexer && m.Indexer == nil {
		return s, fmt.Errorf("selection indexer: model %s has no indexer: choose minmax, mean, centroids or keys",
			m.Name)
	}
	s = k.set
	s.Method = name
	if _, err = policies.ParseOptions(options, s.options()...); err == nil {
		err = s.divides(m.KeyDim())
	}
	if err != nil {
		err = fmt.Errorf("selection %s: %w", text, err)
	}
	return s, err
}

// divides returns an error if the method cannot divide a key of that width, 0 if it is not known.
func (s Selection) divides(width float64) error {
	switch {
	case s.Method == "partial" && (s.Share == 0 || width > 0 && math.Floor(s.Share*width) < 1):
		return fmt.Errorf("share=%g leaves no column of a key: raise it", s.Share)
	case s.Method == "pq" && width > 0 && math.Mod(width, float64(s.Parts)) != 0:
		return fmt.Errorf("a key of %g numbers has no %d equal parts", width, s.Parts)
	}
	return nil
}

// CheckSelection returns the error of a text that ParseSelection rejects for every model.
func CheckSelection(text string) error {
	_, err := ParseSelection(text, &hardware.Model{Indexer: new(hardware.Indexer)})
	return err
}

// method returns the selection's line of the table, nil for the zero value.
func (s Selection) method() *method {
	i := slices.IndexFunc(selections, func(k method) bool { return k.name == s.Method })
	if i < 0 {
		return nil
	}
	return &selections[i]
}

// options returns the options of the method, which set s.
func (s *Selection) options() []policies.Option {
	if k := s.method(); k != nil && k.options != nil {
		return k.options(s)
	}
	return nil
}

// String returns the text that ParseSelection reads, with all options.
func (s Selection) String() string {
	text, err := policies.ParseOptions("", s.options()...)
	if err != nil {
		panic(err) // without text there is nothing to refuse
	}
	if text == "" {
		return s.Method
	}
	return s.Method + ":" + text
}

// Note returns the text of the selection with its assumptions.
func (s Selection) Note() string {
	if s.Method == "lsh" {
		return s.String() + ". The GPU waits for the host's search, with keys assumed evenly in buckets"
	}
	return s.String()
}

// Cost returns the work and the memory of the selection for a model.
func (s Selection) Cost(m *hardware.Model) SelectionCost {
	if k := s.method(); k != nil {
		return k.cost(s, m)
	}
	return SelectionCost{}
}

// indexerCost is that of the model's own indexer, whose heads share a key (DeepSeek-V3.2-Exp).
func indexerCost(_ Selection, m *hardware.Model) SelectionCost {
	entry := float64(m.Indexer.Entry.Value)
	return SelectionCost{Token: entry, read: entry, scores: 1,
		flop: 2 * float64(m.Indexer.Heads.Value) * float64(m.Indexer.HeadDim.Value)}
}

// groupCost returns the cost of some vectors per group of tokens and KV head: the channel-wise
// minimum and maximum of keys, their mean, a centroid, or the key itself. KVDrive clusters the mean
// keys of chunks and keeps the centroids alone (section 4), one per 16 tokens.
func groupCost(vectors float64) func(s Selection, m *hardware.Model) SelectionCost {
	return func(s Selection, m *hardware.Model) SelectionCost {
		tokens := float64(max(1, s.Tokens))
		perToken := vectors / tokens
		bytes := perToken * m.KeyHeads() * m.KeyDim() * hardware.HalfBytes
		return SelectionCost{Token: bytes, read: bytes, scores: m.KeyHeads() / tokens,
			flop: 2 * perToken * float64(m.QueryHeads.Value) * m.KeyDim()}
	}
}

// meanCost is that of ShadowKV's means. The public code gives each group the largest weight that a
// query head has for it (models/kv_cache.py, get_retrieval_position_ids). A product writes the
// scores of all query heads, the softmax reads them and writes weights, and the maximum reads these.
func meanCost(s Selection, m *hardware.Model) SelectionCost {
	const passes = 4
	c := groupCost(1)(s, m)
	c.read += passes * hardware.HalfBytes * float64(m.QueryHeads.Value) / float64(max(1, s.Tokens))
	return c
}

// meanKernels are the kernels of that method with PyTorch 2.3: a copy of the queries, three of product
// and softmax, the maximum, 14 of torch.topk, and a gather of the groups' numbers. torch.topk of many
// long rows of BF16 (aten/src/ATen/native/cuda/TensorTopK.cu, mbtopk) sets three buffers and finds two
// digits with two kernels each. Then it counts, scans twice with two kernels each, gathers and sorts.
const meanKernels = 1 + 3 + 1 + 14 + 1

// waveCost is that of RetroInfer's wave index (arXiv 2505.02922). A cluster has a centroid, the sum
// of its values, its size in FP16, and a byte of a mask. All centroids and masks are scored. Those
// of the estimated share are gathered with sums and sizes, which reads and writes them. Attention
// then reads the copies. The public code has clusters of 16 tokens. It computes a quarter of them,
// and fetches 1.8 % (cache_hub/retroinfer_cache.py, and generate_config for the numbers).
func waveCost(s Selection, m *hardware.Model) SelectionCost {
	heads, dim, tokens := m.KeyHeads(), m.KeyDim(), float64(s.Tokens)
	vector := hardware.HalfBytes * dim
	flop := 2 * float64(m.QueryHeads.Value) * dim / tokens
	estimated := 3 * s.Share * (2*vector + hardware.HalfBytes)
	return SelectionCost{Token: heads * (2*vector + hardware.HalfBytes + 1) / tokens, read: heads * (vector + 1 + estimated) / tokens,
		flop: flop * (1 + 2*s.Share), scores: heads / tokens}
}

// partialCost is that of InfiniGen's partial keys (arXiv 2406.19707). The GPU keeps ⌊share × head_dim⌋
// columns of K and of the query weights. It multiplies the latter with the input of the layer before
// (public code, speedup/infinigen/infinigen/kv_selection_controller.py, speculate_attention). The
// share is 0.2 in speedup/scripts.
func partialCost(s Selection, m *hardware.Model) SelectionCost {
	columns, queries := math.Floor(s.Share*m.KeyDim()), float64(m.QueryHeads.Value)
	bytes, weights := m.KeyHeads()*columns*hardware.HalfBytes, float64(m.Hidden.Value)*queries*columns
	return SelectionCost{Token: bytes, read: bytes, weights: weights, Held: hardware.HalfBytes * weights,
		flop: 2 * queries * columns, query: 2 * weights, scores: m.KeyHeads()}
}

// productCost is that of PQCache's product quantisation (arXiv 2407.12820). A key is divided into
// parts. Each part has a code that names one of 2^bits centroids. A query multiplies its parts with
// all centroids once, and adds one product per part for each token (public code,
// vq_method/retrieval_based/pq_search.py, decoding_attn_GQA_euc). run_llama.sh has 2 parts of 6
// bits. Codes lie on the GPU in bits here. In the public code each layer copies them from the host
// and makes integers of 64 bits.
func productCost(s Selection, m *hardware.Model) SelectionCost {
	heads, queries, centroids := m.KeyHeads(), float64(m.QueryHeads.Value), math.Exp2(float64(s.Bits))
	codes := heads * float64(s.Parts*s.Bits) / 8
	return SelectionCost{Token: codes, read: codes, Request: heads * centroids * m.KeyDim() * hardware.HalfBytes,
		flop: queries * float64(s.Parts), query: 2 * queries * m.KeyDim() * centroids, scores: heads}
}

// hashCost is that of MagicPIG's hash tables (arXiv 2410.16179). The GPU multiplies a query with
// tables × bits random vectors. The host then reads one bucket per table (public code,
// models/cache.py and lsh/lsh.cc, with 150 tables and 10 bits). A table has a token number of 4 B
// per token, and begin and end of 2^bits buckets. Each query head has the norm of a key in 4 B.
// Layers share the vectors by 16. Keys are assumed to be spread evenly over buckets. The host's
// search counts as selection, for which the GPU waits. Attention is not moved to the host.
func hashCost(s Selection, m *hardware.Model) SelectionCost {
	const number, sharing = 4., 16.
	heads, queries, tables := m.KeyHeads(), float64(m.QueryHeads.Value), float64(s.Parts)
	buckets, vectors := math.Exp2(float64(s.Bits)), tables*float64(s.Bits)*m.KeyDim()
	return SelectionCost{weights: heads * vectors, Held: hardware.HalfBytes * heads * vectors / sharing, query: 2 * queries * vectors,
		Host: HostIndex{Token: number * (heads*tables + queries), Request: 2 * number * heads * tables * buckets,
			scan: number * queries * tables / buckets, touches: queries * tables}}
}

// TopK returns the number of tokens that a query attends to if the model's indexer selects, else 0.
func (s Selection) TopK(m *hardware.Model) int64 {
	if s.Method == indexer {
		return int64(m.Indexer.TopK.Value)
	}
	return 0
}

// kernels returns the number of kernels of the selection whose launches count.
func (s Selection) kernels() float64 {
	if k := s.method(); k != nil {
		return float64(k.kernels)
	}
	return 0
}

// selecting returns the time to score the index and find the Top-K.
func (r *Roofline) selecting(l *Load) float64 {
	c := r.Selection.Cost(r.Model)
	gpu := r.scoring(l.Scored, l.Queries*c.query, l.Context*c.read+l.Requests*c.Request+hardware.HalfBytes*c.weights)
	return gpu + l.Scored*c.Host.scan/r.host + l.Queries*c.Host.touches*r.latency/float64(r.Threads)
}

// scoring returns the time to score tokens × query tokens and to find the best. more is further arithmetic,
// and bytes are those of the index.
func (r *Roofline) scoring(scored, more, bytes float64) float64 {
	rate := r.matrix
	if r.Selection.Method == indexer {
		rate = r.low // its keys are FP8
	}
	c := r.Selection.Cost(r.Model)
	return r.at(scored*c.flop+more, rate, bytes) + r.at(0, 1, scored*c.scores*4*topkPasses)
}

package hardware

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/kvreplay/kvreplay/internal/files"
	"github.com/kvreplay/kvreplay/internal/names"
)

// configFile is the name that Hugging Face gives the shape of a model.
const configFile = "config.json"

// configSource is the source of the numbers of a model that ParseConfig has read.
const configSource = "config.json"

// ModelOrConfig finds a model by name, or reads it from a config.json. text is then a file that ends
// in .json, or a folder that has a config.json. A text without a slash names a model before a folder.
func (lib *Library) ModelOrConfig(text string) (*Model, error) {
	path := text
	if !strings.HasSuffix(text, ".json") {
		path = filepath.Join(text, configFile)
		_, absent := os.Stat(path)
		m, err := lib.Model(text)
		switch {
		case absent == nil && (err != nil || strings.ContainsAny(text, `/\`)):
		case isPath(text):
			return nil, fmt.Errorf("%s has no %s: name the file, or a model of kvreplay hardware list", text, configFile)
		default:
			return m, err
		}
	}
	data, err := files.ReadSmall(path)
	if err != nil {
		return nil, err
	}
	return ParseConfig(path, data)
}

// isPath reports whether a text can only be a path. A name in a hub has one slash.
func isPath(text string) bool {
	return filepath.IsAbs(text) || strings.HasPrefix(text, ".") || strings.Count(text, "/") > 1
}

// family is a kind of decoder that ParseConfig knows, by the model_type of Hugging Face
// Transformers.
type family struct {
	latent  bool // multi-head latent attention
	indexer bool // DeepSeek sparse attention
	qkNorm  bool // norms of queries and keys
	moe     bool // routed experts
}

// families are the known kinds. Their classes are in src/transformers/models of
// https://github.com/huggingface/transformers. DeepSeek-V3.2's are in its own repository,
// https://huggingface.co/deepseek-ai/DeepSeek-V3.2-Exp.
var families = map[string]family{
	"llama":        {},
	"mistral":      {},
	"mixtral":      {moe: true},
	"phi3":         {},
	"qwen2":        {},
	"qwen2_moe":    {moe: true},
	"qwen3":        {qkNorm: true},
	"qwen3_moe":    {qkNorm: true, moe: true},
	"deepseek_v2":  {latent: true, moe: true},
	"deepseek_v3":  {latent: true, moe: true},
	"deepseek_v32": {latent: true, moe: true, indexer: true},
}

// config reads the fields of a config.json. It keeps the fields that were read, to find those that
// nothing has read.
type config struct {
	file   string
	fields map[string]any
	read   map[string]bool
	errs   []error
}

// ParseConfig derives the shape of a model from a config.json of Hugging Face. file names it in
// errors. A field that may change a size and that ParseConfig does not know is an error.
//
// The cached entry of a token has K and V of all KV heads in 16 bits. With latent attention it has
// the latent and the RoPE part in 16 bits. A model with an indexer and FP8 weights has the entries
// of DeepSeek-V3.2. These have a byte per number of the latent, four bytes of scale per 128 of them,
// and RoPE in 16 bits. Keys of an indexer are FP8 with four bytes of scale per 128.
func ParseConfig(file string, data []byte) (*Model, error) {
	c := &config{file: file, read: map[string]bool{}}
	if len(bytes.TrimSpace(data)) == 0 {
		return nil, fmt.Errorf("%s is empty: expected the config.json of a model", file)
	}
	d := json.NewDecoder(bytes.NewReader(data))
	if err := d.Decode(&c.fields); err != nil {
		return nil, fmt.Errorf("%s: %w: expected the config.json of a model", file, err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%s: more follows the first JSON object: expected one object", file)
	}
	m := c.model()
	if len(c.errs) == 0 {
		c.unread()
	}
	if len(c.errs) > 0 {
		return nil, errors.Join(c.errs...)
	}
	f := &faults{file: file}
	if m.check(f); f.err() != nil {
		return nil, f.err()
	}
	m.Parameters = Fact[Number]{Value: Number(m.CountParameters()), Written: Number(m.CountParameters()).String(), Status: Derived, Source: configSource, Note: "counted from the shape, without biases"}
	return m, nil
}

// FromConfig reports whether the shape was derived from a config.json.
func (m *Model) FromConfig() bool { return m.Layers.Source == configSource }

func (c *config) fail(format string, args ...any) {
	c.errs = append(c.errs, fmt.Errorf("%s: "+format, append([]any{c.file}, args...)...))
}

func (c *config) model() *Model {
	kind, _ := c.text("model_type")
	fam, ok := families[kind]
	if !ok {
		known := slices.Sorted(maps.Keys(families))
		c.fail("model_type %.40q%s: expected %s, or write a shape file for --hardware-dir", kind, names.Nearest(kind, known), strings.Join(known, ", "))
		return nil
	}
	hidden, heads := c.count("hidden_size", 0), c.count("num_attention_heads", 0)
	kvHeads := c.count("num_key_value_heads", heads)
	m := &Model{
		Layers: derived(c.count("num_hidden_layers", 0)), Hidden: derived(hidden), QueryHeads: derived(heads), KVHeads: derived(kvHeads),
		FFN: derived(c.count("intermediate_size", 0)), FFNMatrices: derived(3), Vocabulary: derived(c.count("vocab_size", 0)),
		Context: derived(c.count("max_position_embeddings", 0)), Tied: c.flag("tie_word_embeddings"), QKNorm: fam.qkNorm,
	}
	if l := m.Layers.Value; l > 1e4 {
		c.fail("num_hidden_layers %g: expected at most 10000", l)
	}
	m.Kind, m.Name, m.file = string(KindModel), modelName(c.file), c.file
	m.Title = fmt.Sprintf("%s, a %s", m.Name, kind)
	c.attention(m, fam)
	if fam.moe {
		c.experts(m)
	}
	c.weights(m)
	if fam.indexer && len(c.errs) == 0 {
		c.indexer(m)
	}
	if len(c.errs) == 0 {
		c.keep(m)
	}
	c.windows(m)
	return m
}

// attention sets the width of heads and the cached entry.
func (c *config) attention(m *Model, fam family) {
	hidden, heads, kvHeads := float64(m.Hidden.Value), float64(m.QueryHeads.Value), float64(m.KVHeads.Value)
	if !fam.latent {
		if c.has("head_dim") {
			m.HeadDim = derived(c.count("head_dim", 0))
		} else if heads > 0 {
			if len(c.errs) == 0 && hidden != heads*math.Floor(hidden/heads) {
				c.fail("hidden_size %g is not a multiple of num_attention_heads %g: add head_dim", hidden, heads)
			}
			m.HeadDim = derived(hidden / heads)
		}
		m.Entry = derivedBytes(2*kvHeads*float64(m.HeadDim.Value)*2, fmt.Sprintf("K and V of %g heads × %g × 2 B", kvHeads, m.HeadDim.Value))
		return
	}
	c.read["head_dim"] = true // of RoPE in some files
	rank, rope, nope := c.count("kv_lora_rank", 0), c.count("qk_rope_head_dim", 0), c.count("qk_nope_head_dim", 0)
	m.Latent = &Latent{KVRank: derived(rank), QueryRank: derived(c.number("q_lora_rank")), Rope: derived(rope), NoPE: derived(nope), Value: derived(c.count("v_head_dim", 0))}
	c.read["qk_head_dim"] = true // nope + rope
	m.HeadDim = derived(rope + nope)
	m.Entry = derivedBytes((rank+rope)*2, fmt.Sprintf("latent %g and RoPE %g × 2 B", rank, rope))
}

// experts sets the routed experts. The names of the fields differ by family.
func (c *config) experts(m *Model) {
	experts := c.first("n_routed_experts", "num_experts", "num_local_experts")
	if experts == 0 {
		return // a dense model of the family
	}
	e := &MoE{Experts: derived(experts), Active: derived(c.count("num_experts_per_tok", 0)), Shared: derived(c.number("n_shared_experts")),
		FFN: derived(c.first("moe_intermediate_size")), DenseLayers: derived(c.number("first_k_dense_replace"))}
	if e.FFN.Value == 0 {
		e.FFN = m.FFN // Mixtral: intermediate_size is that of an expert
	}
	if shared := c.number("shared_expert_intermediate_size"); shared > 0 { // Qwen2-MoE: one wide expert
		n := shared / float64(e.FFN.Value)
		if n != math.Floor(n) {
			c.fail("shared_expert_intermediate_size %g is not a multiple of moe_intermediate_size %g: write a shape file for --hardware-dir", shared, e.FFN.Value)
		}
		e.Shared = derived(n)
	}
	for _, name := range []string{"moe_layer_freq", "decoder_sparse_step"} {
		if every := c.number(name); every > 1 {
			c.fail("%s %g: kvreplay knows experts in every layer after the dense ones: write a shape file for --hardware-dir", name, every)
		}
	}
	if list, ok := c.value("mlp_only_layers").([]any); ok && len(list) > 0 {
		for i, l := range list {
			if n, ok := l.(float64); !ok || n != float64(i) {
				c.fail("mlp_only_layers: expected the first layers, as in [0, 1, 2]: write a shape file for --hardware-dir")
				break
			}
		}
		e.DenseLayers = derived(float64(len(list)))
	}
	m.MoE = e
}

// indexer sets the indexer and the FP8 entries that models with one have.
func (c *config) indexer(m *Model) {
	dim := c.count("index_head_dim", 0)
	m.Indexer = &Indexer{Heads: derived(c.count("index_n_heads", 0)), HeadDim: derived(dim), TopK: derived(c.count("index_topk", 0)),
		Entry: derivedBytes(dim+scales(dim), fmt.Sprintf("%g FP8 and a scale of 4 B per 128", dim))}
	if m.BytesPerParameter.Value == 1 {
		rank, rope := float64(m.Latent.KVRank.Value), float64(m.Latent.Rope.Value)
		m.Entry = derivedBytes(rank+scales(rank)+2*rope, fmt.Sprintf("%g FP8, a scale of 4 B per 128, %g RoPE of 2 B", rank, rope))
	}
}

// scales returns the bytes of the scales of n FP8 numbers, an FP32 for each 128 (DeepSeek-V3,
// section 3.3.2).
func scales(n float64) float64 { return 4 * math.Ceil(n/128) }

// weights sets the size of weights, the scales of quantised ones, and the parts that are not quantised.
func (c *config) weights(m *Model) {
	bits, note := 0., ""
	if q, ok := c.value("quantization_config").(map[string]any); ok {
		method, _ := q["quant_method"].(string)
		bits, _ = q["bits"].(float64)
		note = "quant_method " + method
		group, _ := q["group_size"].(float64)
		switch {
		case method == "fp8" || method == "fbgemm_fp8":
			bits, group = 8, 1
			block, _ := q["weight_block_size"].([]any)
			for _, side := range block {
				n, _ := side.(float64)
				group *= n
			}
		case (method == "gptq" || method == "awq") && bits >= 2 && bits <= 8:
		case method == "compressed-tensors" || method == "modelopt":
			bits, group = c.groups(q)
			if m.NVFP4 = bits == 4 && group == 16 && floats(q); m.NVFP4 {
				bits, group = 8*NVFP4Bytes, 1
			}
			c.cache(m, q)
		default:
			c.fail("quantization_config of method %.40q: expected fp8, gptq or awq with bits, compressed-tensors or modelopt: write a shape file for --hardware-dir", method)
		}
		if group > 1 && group <= mostOfConfig {
			m.ScaleBlock = derived(group)
		}
	} else {
		name, ok := c.text("torch_dtype")
		if name2, ok2 := c.text("dtype"); ok2 {
			name, ok = name2, true
		}
		switch note = "dtype " + name; {
		case !ok:
			bits, note = 16, "no dtype is stated"
		case name == "bfloat16" || name == "float16":
			bits = 16
		case name == "float32":
			bits = 32
		default:
			c.fail("dtype %.40q: expected bfloat16, float16 or float32", name)
		}
	}
	m.BytesPerParameter = derivedBytes(bits/8, note)
	if note == "no dtype is stated" {
		m.BytesPerParameter.Status = Assumed
	}
}

// groups returns the bits of weights and the number of weights that share a scale, of config_groups. All
// groups must have the same.
func (c *config) groups(q map[string]any) (bits, group float64) {
	all, _ := q["config_groups"].(map[string]any)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		of, _ := all[name].(map[string]any)
		w, _ := of["weights"].(map[string]any)
		n, _ := w["num_bits"].(float64)
		size, _ := w["group_size"].(float64)
		if block, ok := w["block_structure"].([]any); ok && len(block) == 2 {
			a, _ := block[0].(float64)
			b, _ := block[1].(float64)
			size = a * b
		}
		if n < 2 || n > 8 || bits > 0 && (n != bits || size != group) {
			c.fail("config_groups.%s of quantization_config: expected weights of 2 to 8 bits, the same in all groups: write a shape file for --hardware-dir", name)
		}
		bits, group = n, size
	}
	if bits == 0 {
		c.fail("quantization_config without config_groups: write a shape file for --hardware-dir")
	}
	return bits, group
}

// floats reports whether config_groups has weights and activations of 4-bit floats.
func floats(q map[string]any) bool {
	all, _ := q["config_groups"].(map[string]any)
	for _, group := range all {
		of, _ := group.(map[string]any)
		for _, name := range []string{"weights", "input_activations"} {
			operand, _ := of[name].(map[string]any)
			if operand["type"] != "float" || operand["num_bits"] != 4. {
				return false
			}
		}
	}
	return true
}

// cache sets the size of entries that kv_cache_scheme quantises.
func (c *config) cache(m *Model, q map[string]any) {
	scheme, _ := q["kv_cache_scheme"].(map[string]any)
	switch bits, ok := scheme["num_bits"].(float64); {
	case !ok:
	case bits != 8 || m.Latent != nil:
		c.fail("kv_cache_scheme of %g bits: expected 8 for K and V: write a shape file for --hardware-dir", bits)
	default:
		m.Entry = derivedBytes(float64(m.Entry.Value)/2, "K and V of 1 B, by kv_cache_scheme")
	}
}

// modules are the parts of a model by the names that checkpoints give their modules.
var modules = map[string]Part{
	"lm_head": Plain, "embed_tokens": Plain, "norm": Plain, "gate": Plain, "shared_expert_gate": Plain, "weights_proj": Plain,
	"self_attn": Attention, "q_proj": Attention, "k_proj": Attention, "v_proj": Attention, "qkv_proj": Attention, "o_proj": Attention,
	"q_a_proj": Attention, "q_b_proj": Attention, "kv_a_proj_with_mqa": Attention, "kv_b_proj": Attention,
	"indexer": Attention, "wq_b": Attention, "wk": Attention,
	"mlp": FFN, "gate_proj": FFN, "up_proj": FFN, "gate_up_proj": FFN, "down_proj": FFN, "shared_expert": FFN, "shared_experts": FFN,
	"block_sparse_moe": Experts, "experts": Experts,
}

// moduleOf returns the part of a module, as in model.layers.3.mlp.down_proj, and its layer.
func moduleOf(name string) (part Part, layer string, known bool) {
	fields := strings.Split(name, ".")
	for i, field := range fields {
		if i > 0 && fields[i-1] == "layers" {
			layer = field
		}
		if p, ok := modules[field]; ok && (part != Experts || p == Plain) {
			part, known = p, true
		}
	}
	return part, layer, known || strings.HasSuffix(name, "norm")
}

// keep reads the modules that a checkpoint does not quantise, as in model.layers.3.mlp. A name without the
// number of a layer is that of all layers. Layers beyond the last are those of multi-token prediction.
func (c *config) keep(m *Model) {
	q, _ := c.value("quantization_config").(map[string]any)
	var list []any
	var key string
	for _, name := range []string{"modules_to_not_convert", "ignored_layers", "ignore"} {
		if of, ok := q[name].([]any); ok {
			list, key = of, name
		}
	}
	layers := int(m.Layers.Value)
	named := [parts]map[int]bool{{}, {}, {}, {}}
	for _, module := range list {
		name, _ := module.(string)
		if pattern, is := strings.CutPrefix(name, "re:"); is { // of compressed-tensors, as re:.*mlp.gate$
			name = strings.NewReplacer(".*", "", "^", "", "$", "", `\`, "").Replace(pattern)
		}
		part, text, known := moduleOf(name)
		first, err := strconv.Atoi(text)
		end := first + 1
		if err != nil {
			first, end = 0, layers
		}
		switch {
		case first < 0 || first >= layers:
			continue
		case !known:
			c.fail("%s has %.60s, which kvreplay does not know: write a shape file for --hardware-dir", key, written(module))
			return
		}
		for l := first; l < end; l++ {
			named[part][l] = true
			if strings.HasSuffix(name, ".mlp") {
				named[Experts][l] = true
			}
		}
	}
	var kept, all Weights
	for l := range layers {
		w, _ := m.FFNParameters(l)
		w = w.Plus(m.AttentionParameters())
		all = all.Plus(w)
		for p := range w {
			if named[p][l] {
				kept[p] += w[p]
			}
		}
	}
	for p := range kept {
		m.kept[p] = kept[p] / max(1, all[p])
	}
}

// windows refuses windows of attention that bound the cache. Entries of other layers would need
// another size.
func (c *config) windows(m *Model) {
	c.read["max_window_layers"] = true
	uses, stated := c.value("use_sliding_window").(bool)
	if w := c.number("sliding_window"); w > 0 && w < float64(m.Context.Value) && (uses || !stated) {
		c.fail("sliding_window %g bounds the cache, which kvreplay does not model: set it to null to price full attention", w)
	}
	if list, ok := c.value("layer_types").([]any); ok {
		for _, kind := range list {
			if kind != "full_attention" {
				c.fail("layer_types has %v: kvreplay models full_attention: remove layer_types to price all layers so", kind)
				return
			}
		}
	}
}

// sizeWords are parts of the names of fields that may change a size. Names that begin with n_ or num_
// also may.
var sizeWords = []string{"size", "dim", "rank", "heads", "layer", "expert", "window", "index_", "topk", "freq", "text_config", "vision", "compress"}

// harmless are fields with such a name that do not change the size of weights or cache.
// Multi-token prediction is a model of its own, and groups only limit which experts are chosen.
var harmless = []string{
	"num_nextn_predict_layers", "n_group", "topk_group", "topk_method", "attention_dropout", "num_beams", "num_beam_groups", "num_return_sequences", "num_labels",
	"no_repeat_ngram_size", "encoder_no_repeat_ngram_size", "chunk_size_feed_forward", "pretraining_tp", "ep_size", "aux_loss_alpha", "router_aux_loss_coef",
	"original_max_position_embeddings", "rms_norm_eps", "layer_norm_eps", "layernorm_epsilon", "partial_rotary_factor", "rope_scaling", "rope_parameters", "moe_router_topk",
}

// unread refuses a field that may change a size and that nothing has read.
func (c *config) unread() {
	for _, name := range slices.Sorted(maps.Keys(c.fields)) {
		v := c.fields[name]
		if c.read[name] || v == nil || v == 0. || slices.Contains(harmless, name) || strings.HasSuffix(name, "_token_id") {
			continue
		}
		switch v.(type) {
		case string, bool:
			continue
		}
		if strings.HasPrefix(name, "n_") || strings.HasPrefix(name, "num_") || slices.ContainsFunc(sizeWords, func(w string) bool { return strings.Contains(name, w) }) {
			c.fail("%s may change sizes, and kvreplay does not know it: write a shape file for --hardware-dir", name)
		}
	}
}

// value returns a field and notes that it was read.
func (c *config) value(name string) any {
	c.read[name] = true
	return c.fields[name]
}

func (c *config) has(name string) bool { return c.fields[name] != nil }

func (c *config) text(name string) (text string, ok bool) {
	text, ok = c.value(name).(string)
	return text, ok
}

// written returns a value as a file states it.
func written(v any) string {
	text, _ := json.Marshal(v) // v was read from JSON
	return string(text)
}

func (c *config) flag(name string) bool {
	v := c.value(name)
	on, ok := v.(bool)
	if v != nil && !ok {
		c.fail("%s %.40s: expected true or false", name, written(v))
	}
	return on
}

// mostOfConfig is the largest number of a config.json, as in the files of shapes.
const mostOfConfig = 1e7

// number reads a number that may be absent or null, which is 0.
func (c *config) number(name string) float64 {
	v := c.value(name)
	n, ok := v.(float64)
	if v != nil && (!ok || n != math.Floor(n) || n < 0 || n > 1e9) {
		c.fail("%s %.40s: expected a whole number from 0 to 1e9", name, written(v))
		return 0
	}
	return n
}

// count reads a positive number. usual is for an absent one, or 0 if the field is needed.
func (c *config) count(name string, usual float64) float64 {
	switch n := c.number(name); {
	case n > mostOfConfig && name != "max_position_embeddings":
		c.fail("%s %g: expected at most %g", name, n, mostOfConfig)
	case n > 0:
		return n
	case usual > 0 && !c.has(name):
		return usual
	case len(c.errs) == 0 || !strings.Contains(c.errs[len(c.errs)-1].Error(), ": "+name+" "):
		c.fail("%s missing or 0: expected a positive number", name)
	}
	return 1 // of a model that is refused
}

// first reads the first of several fields that is there, else 0.
func (c *config) first(fields ...string) (n float64) {
	for _, name := range fields {
		if c.has(name) && n == 0 {
			n = c.count(name, 0)
		}
	}
	return n
}

func derived(v float64) Fact[Number] {
	return Fact[Number]{Value: Number(v), Written: Number(v).String(), Status: Derived, Source: configSource, Note: "as stated"}
}

func derivedBytes(v float64, note string) Fact[Bytes] {
	return Fact[Bytes]{Value: Bytes(v), Written: Bytes(v).String(), Status: Derived, Source: configSource, Note: note}
}

// modelName names a model by its file: config.json by its folder, another file by itself.
func modelName(path string) string {
	name := strings.TrimSuffix(filepath.Base(path), ".json")
	if filepath.Base(path) == configFile {
		if abs, err := filepath.Abs(path); err == nil {
			name = filepath.Base(filepath.Dir(abs))
		}
	}
	return strings.ToLower(name)
}

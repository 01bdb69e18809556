package hardware_test

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kvreplay/kvreplay/internal/fatal"
	"github.com/kvreplay/kvreplay/replay/hardware"
)

const configs = "testdata/config"

func load(t *testing.T) *hardware.Library {
	t.Helper()
	lib, err := hardware.Load("")
	fatal.If(t, err)
	return lib
}

// A published config.json gives the numbers of the bundled shape, whose file was written by hand.
func TestConfigAgainstShapes(t *testing.T) {
	lib := load(t)
	for _, name := range []string{"llama-3.1-8b", "phi-4-mini", "deepseek-v2-lite", "deepseek-v3.2"} {
		want, err := lib.Model(name)
		fatal.If(t, err)
		got, err := lib.ModelOrConfig(filepath.Join(configs, name))
		fatal.If(t, err)
		if !got.FromConfig() || want.FromConfig() || got.Name != name {
			t.Errorf("%s: name %s, derived %v and %v", name, got.Name, got.FromConfig(), want.FromConfig())
		}
		numbers := map[string]float64{}
		for _, l := range hardware.Lines(got) {
			numbers[l.Field] = l.Value
			if l.Status != hardware.Derived || l.Note == "" {
				t.Errorf("%s: %s is %s with note %q", name, l.Field, l.Status, l.Note)
			}
		}
		for _, l := range hardware.Lines(want) {
			if got, ok := numbers[l.Field]; !ok || got != l.Value && !(l.Field == "parameters" && math.Abs(got/l.Value-1) < 2e-3) { // published ones are rounded
				t.Errorf("%s: %s is %g (%v), expected %g", name, l.Field, got, ok, l.Value)
			}
		}
	}
}

// The counted parameters of mixtures of experts are the published ones, 30.5 B of
// https://huggingface.co/Qwen/Qwen3-30B-A3B and 46.7 B of
// https://huggingface.co/mistralai/Mixtral-8x7B-v0.1.
func TestConfigParameters(t *testing.T) {
	lib := load(t)
	for name, billions := range map[string]float64{"qwen3-30b-a3b": 30.5, "mixtral-8x7b": 46.7} {
		m, err := lib.ModelOrConfig(filepath.Join(configs, name, "config.json"))
		fatal.If(t, err)
		if got := float64(m.Parameters.Value) / 1e9; math.Abs(got-billions) > 0.05 {
			t.Errorf("%s has %.2f B parameters, expected %g", name, got, billions)
		}
	}
}

// changed returns a published config with other fields. A nil value removes one.
func changed(t testing.TB, name string, fields map[string]any) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(configs, name, "config.json"))
	fatal.If(t, err)
	all := map[string]any{}
	fatal.If(t, json.Unmarshal(data, &all))
	for k, v := range fields {
		if all[k] = v; v == nil {
			delete(all, k)
		}
	}
	if data, err = json.Marshal(all); err != nil {
		t.Fatal(err)
	}
	return data
}

// A config that does not determine a shape is refused, with the field and the remedy.
func TestConfigRefuses(t *testing.T) {
	for _, c := range []struct {
		model  string
		fields map[string]any
		want   string
	}{
		{"llama-3.1-8b", map[string]any{"model_type": "lama"}, `model_type "lama", did you mean llama?: expected deepseek_v2`},
		{"llama-3.1-8b", map[string]any{"model_type": nil}, `model_type "": expected deepseek_v2`},
		{"llama-3.1-8b", map[string]any{"hidden_size": nil}, "hidden_size missing or 0: expected a positive number"},
		{"llama-3.1-8b", map[string]any{"hidden_size": "4096"}, `c.json: hidden_size "4096": expected a whole number from 0 to 1e9`},
		{"llama-3.1-8b", map[string]any{"tie_word_embeddings": "true"}, `tie_word_embeddings "true": expected true or false`},
		{"llama-3.1-8b", map[string]any{"num_hidden_layers": 32.5}, "num_hidden_layers 32.5: expected a whole number"},
		{"llama-3.1-8b", map[string]any{"num_hidden_layers": 1e6}, "num_hidden_layers 1e+06: expected at most 10000"},
		{"llama-3.1-8b", map[string]any{"vocab_size": 1e8}, "vocab_size 1e+08: expected at most 1e+07"},
		{"llama-3.1-8b", map[string]any{"num_key_value_heads": 5}, "query_heads 32 is not a multiple of kv_heads 5"},
		{"llama-3.1-8b", map[string]any{"num_attention_heads": 24}, "hidden_size 4096 is not a multiple of num_attention_heads 24: add head_dim"},
		{"llama-3.1-8b", map[string]any{"kv_cache_dim": 64}, "kv_cache_dim may change sizes, and kvreplay does not know it: write a shape file"},
		{"llama-3.1-8b", map[string]any{"text_config": map[string]any{}}, "text_config may change sizes"},
		{"llama-3.1-8b", map[string]any{"torch_dtype": "int3"}, `dtype "int3": expected bfloat16`},
		{"llama-3.1-8b", map[string]any{"quantization_config": map[string]any{"quant_method": "quip"}}, `quantization_config of method "quip": expected fp8`},
		{"phi-4-mini", map[string]any{"sliding_window": 4096}, "sliding_window 4096 bounds the cache"},
		{"llama-3.1-8b", map[string]any{"layer_types": []string{"full_attention", "linear_attention"}}, "layer_types has linear_attention"},
		{"deepseek-v2-lite", map[string]any{"kv_lora_rank": nil}, "kv_lora_rank missing"},
		{"deepseek-v3.2", map[string]any{"index_topk": nil}, "index_topk missing"},
		{"deepseek-v3.2", map[string]any{"num_experts_per_tok": 300}, "moe.active 300 exceeds"},
		{"deepseek-v3.2", map[string]any{"moe_layer_freq": 2}, "moe_layer_freq 2: kvreplay knows experts in every layer"},
		{"qwen3-30b-a3b", map[string]any{"mlp_only_layers": []int{3}}, "mlp_only_layers: expected the first layers"},
	} {
		_, err := hardware.ParseConfig("c.json", changed(t, c.model, c.fields))
		if err == nil || !strings.HasPrefix(err.Error(), "c.json:") || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s with %v: %v, expected %q", c.model, c.fields, err, c.want)
		}
	}
	for text, want := range map[string]string{"": "is empty", " \n": "is empty", "{}": "model_type", "[1]": "cannot unmarshal", "{": "unexpected EOF", "{} {}": "more follows", "null": "model_type"} {
		if _, err := hardware.ParseConfig("c.json", []byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, expected %q", text, err, want)
		}
	}
}

// Fields that change sizes in a known way do.
func TestConfigSizes(t *testing.T) {
	for _, c := range []struct {
		model  string
		fields map[string]any
		size   func(*hardware.Model) float64
		want   float64
	}{
		{"llama-3.1-8b", map[string]any{"head_dim": 256}, func(m *hardware.Model) float64 { return float64(m.Entry.Value) }, 8192},
		{"llama-3.1-8b", map[string]any{"num_key_value_heads": nil}, func(m *hardware.Model) float64 { return float64(m.KVHeads.Value) }, 32},
		{"llama-3.1-8b", map[string]any{"torch_dtype": nil, "dtype": "float32"}, func(m *hardware.Model) float64 { return float64(m.BytesPerParameter.Value) }, 4},
		{"llama-3.1-8b", map[string]any{"quantization_config": map[string]any{"quant_method": "awq", "bits": 4}}, func(m *hardware.Model) float64 { return float64(m.BytesPerParameter.Value) }, 0.5},
		{"phi-4-mini", map[string]any{"sliding_window": 4096, "use_sliding_window": false}, func(m *hardware.Model) float64 { return float64(m.Entry.Value) }, 4096},
		{"deepseek-v3.2", map[string]any{"quantization_config": nil}, func(m *hardware.Model) float64 { return float64(m.Entry.Value) }, 1152},
		{"qwen3-30b-a3b", map[string]any{"mlp_only_layers": []int{0, 1}}, func(m *hardware.Model) float64 { return float64(m.MoE.DenseLayers.Value) }, 2},
		{"qwen3-30b-a3b", map[string]any{"shared_expert_intermediate_size": 1536}, func(m *hardware.Model) float64 { return float64(m.MoE.Shared.Value) }, 2},
	} {
		m, err := hardware.ParseConfig("c.json", changed(t, c.model, c.fields))
		if err != nil {
			t.Errorf("%s with %v: %v", c.model, c.fields, err)
		} else if got := c.size(m); got != c.want {
			t.Errorf("%s with %v: %g, expected %g", c.model, c.fields, got, c.want)
		}
	}
}

// Quantised checkpoints state the modules that keep 16 bits. Each case has the list of a published one.
func TestConfigUnquantised(t *testing.T) {
	attention := func(layers int) (list []string) {
		for l := range layers {
			for _, name := range []string{"q_proj", "k_proj", "v_proj", "o_proj"} {
				list = append(list, fmt.Sprintf("model.layers.%d.self_attn.%s", l, name))
			}
		}
		return list
	}
	nvfp4 := map[string]any{"num_bits": 4, "type": "float", "group_size": 16}
	const head = 2 * 128256 * 4096 * 2 // of llama-3.1-8b, with the embedding
	const layer, ffn = 4096*128*(32+2*8) + 4096*4096, 3 * 4096 * 14336
	for name, c := range map[string]struct {
		model string
		quant map[string]any
		sizes map[hardware.Part]float64
		bytes float64
	}{
		"meta-llama/Llama-3.1-405B-FP8, for 32 layers": {"llama-3.1-8b", map[string]any{"quant_method": "fbgemm_fp8",
			"modules_to_not_convert": append(attention(32), "model.layers.0.mlp.down_proj", "model.layers.31.mlp.down_proj")},
			map[hardware.Part]float64{hardware.Attention: 2, hardware.FFN: 1}, head + 32*2*layer + (30+2*2)*ffn},
		"AWQ, groups of 128": {"llama-3.1-8b", map[string]any{"quant_method": "awq", "bits": 4, "group_size": 128, "modules_to_not_convert": nil},
			map[hardware.Part]float64{hardware.Plain: 2, hardware.Attention: 0.5, hardware.FFN: 0.5}, head + 32*(0.5+2.5/128)*(layer+ffn)},
		"Qwen/Qwen3-30B-A3B-FP8": {"qwen3-30b-a3b", map[string]any{"quant_method": "fp8", "weight_block_size": []int{128, 128},
			"modules_to_not_convert": []string{"lm_head", "model.layers.0.input_layernorm", "model.layers.0.mlp.gate", "model.layers.0.post_attention_layernorm"}},
			map[hardware.Part]float64{hardware.Plain: 2, hardware.Attention: 1, hardware.Experts: 1}, 0},
		"layers of multi-token prediction": {"deepseek-v3.2", map[string]any{"quant_method": "fp8", "modules_to_not_convert": []string{"model.layers.61.eh_proj"}},
			map[hardware.Part]float64{hardware.Attention: 1}, 0},
		"modelopt's names of all layers": {"mixtral-8x7b", map[string]any{"quant_method": "fp8", "modules_to_not_convert": []string{"model.layers.*.self_attn", "gate"}},
			map[hardware.Part]float64{hardware.Attention: 2, hardware.Experts: 1}, 0},
		"nvidia/Llama-3.1-8B-Instruct-FP8": {"llama-3.1-8b", map[string]any{"quant_method": "modelopt", "quant_algo": "FP8", "ignore": []string{"lm_head"},
			"config_groups":   map[string]any{"group_0": map[string]any{"weights": map[string]any{"num_bits": 8, "type": "float", "dynamic": false}}},
			"kv_cache_scheme": map[string]any{"num_bits": 8, "type": "float", "dynamic": false}},
			map[hardware.Part]float64{hardware.Plain: 2, hardware.Attention: 1, hardware.FFN: 1}, head + 32*(layer+ffn)},
		"compressed-tensors, 4 bits in groups of 128": {"qwen3-30b-a3b", map[string]any{"quant_method": "compressed-tensors", "ignore": []string{"lm_head", "re:.*mlp.gate$", `re:model\.layers\.0\.self_attn.*`},
			"config_groups":   map[string]any{"group_0": map[string]any{"weights": map[string]any{"num_bits": 4, "group_size": 128, "type": "int"}}},
			"kv_cache_scheme": nil},
			map[hardware.Part]float64{hardware.Plain: 2, hardware.Attention: 0.5, hardware.Experts: 0.5}, 0},
		"nvidia/Llama-3.3-70B-Instruct-FP4": {"llama-3.1-8b", map[string]any{"quant_method": "modelopt", "quant_algo": "NVFP4", "ignore": []string{"lm_head"},
			"config_groups":   map[string]any{"group_0": map[string]any{"weights": nvfp4, "input_activations": nvfp4}},
			"kv_cache_scheme": map[string]any{"num_bits": 8, "type": "float", "dynamic": false}},
			map[hardware.Part]float64{hardware.Plain: 2, hardware.Attention: hardware.NVFP4Bytes, hardware.FFN: hardware.NVFP4Bytes}, head + 32*(layer+ffn)*hardware.NVFP4Bytes},
		"experts": {"qwen3-30b-a3b", map[string]any{"quant_method": "fp8", "modules_to_not_convert": []string{"model.layers.*.mlp"}},
			map[hardware.Part]float64{hardware.Attention: 1, hardware.Experts: 2}, 0},
	} {
		m, err := hardware.ParseConfig("c.json", changed(t, c.model, map[string]any{"quantization_config": c.quant}))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		for p, want := range c.sizes {
			if got := m.WeightBytes(p); got != want {
				t.Errorf("%s: weights of part %d have %g B, expected %g", name, p, got, want)
			}
		}
		all := m.EmbeddingParameters()
		for l := range int(m.Layers.Value) {
			stored, _ := m.FFNParameters(l)
			all = all.Plus(m.AttentionParameters()).Plus(stored)
		}
		if got := m.Bytes(all); c.bytes > 0 && math.Abs(got/c.bytes-1) > 1e-9 {
			t.Errorf("%s: weights take %.0f B, expected %.0f", name, got, c.bytes)
		}
	}
	weights := func(bits int) map[string]any {
		return map[string]any{"weights": map[string]any{"num_bits": bits}}
	}
	for want, quant := range map[string]map[string]any{
		`c.json: modules_to_not_convert has "model.layers.3.adapter", which kvreplay does not know`: {"quant_method": "fp8", "modules_to_not_convert": []string{"model.layers.3.adapter"}},
		`c.json: ignore has "re:vision.*", which kvreplay does not know`:                            {"quant_method": "modelopt", "ignore": []string{"re:vision.*"}, "config_groups": map[string]any{"a": weights(8)}},
		"c.json: config_groups.b of quantization_config: expected weights of 2 to 8 bits, the same": {"quant_method": "compressed-tensors", "config_groups": map[string]any{"a": weights(8), "b": weights(4)}},
		"c.json: config_groups.a of quantization_config: expected weights of 2 to 8 bits":           {"quant_method": "compressed-tensors", "config_groups": map[string]any{"a": weights(16)}},
		"c.json: quantization_config without config_groups":                                         {"quant_method": "modelopt"},
		"c.json: kv_cache_scheme of 4 bits: expected 8":                                             {"quant_method": "modelopt", "config_groups": map[string]any{"a": weights(8)}, "kv_cache_scheme": map[string]any{"num_bits": 4}},
	} {
		_, err := hardware.ParseConfig("c.json", changed(t, "llama-3.1-8b", map[string]any{"quantization_config": quant}))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, expected %q", err, want)
		}
	}
	for group, want := range map[string]bool{"input_activations": true, "other": false} { // without it, activations have 16 bits
		m, err := hardware.ParseConfig("c.json", changed(t, "llama-3.1-8b", map[string]any{"quantization_config": map[string]any{"quant_method": "compressed-tensors",
			"config_groups": map[string]any{"a": map[string]any{"weights": nvfp4, group: nvfp4}}}}))
		if err != nil || m.FP4(hardware.FFN) != want || m.FP4(hardware.Plain) || m.NVFP4 != want {
			t.Errorf("weights and %s of NVFP4: products of FP4 are %v, expected %v (%v)", group, m.NVFP4, want, err)
		}
	}
	m, err := hardware.ParseConfig("c.json", changed(t, "llama-3.1-8b", map[string]any{"quantization_config": map[string]any{"quant_method": "modelopt",
		"config_groups": map[string]any{"a": weights(8)}, "kv_cache_scheme": map[string]any{"num_bits": 8}}}))
	if err != nil || m.Entry.Value != 2048 {
		t.Errorf("an entry of FP8 has %v (%v), expected 2048 B", m, err)
	}
}

// Names come first, and paths are errors of files.
func TestModelOrConfig(t *testing.T) {
	lib := load(t)
	if m, err := lib.ModelOrConfig("meta-llama/Llama-3.1-8B"); err != nil || m.FromConfig() {
		t.Errorf("a name in a hub: %v, %v", m, err)
	}
	dir := t.TempDir()
	huge := filepath.Join(dir, "huge.json")
	fatal.If(t, os.WriteFile(huge, make([]byte, 1<<20+1), 0o644))
	for text, want := range map[string]string{
		"llama-9": `unknown model "llama-9"`, "some/folder": `unknown model "some/folder"`, "testdata/config": `unknown model "testdata/config"`, "data": `unknown model "data"`, "./deepseek-v3.2": "has no config.json", "a/b/deepseek-v3.2": "has no config.json", dir: "has no config.json: name the file",
		"missing/config.json": "no such file", huge: "expected at most 1048576",
	} {
		if _, err := lib.ModelOrConfig(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, expected %q", text, err, want)
		}
	}
}

// No input panics, and an accepted one has finite positive sizes.
func FuzzParseConfig(f *testing.F) {
	for _, name := range []string{"llama-3.1-8b", "phi-4-mini", "deepseek-v3.2", "qwen3-30b-a3b", "mixtral-8x7b"} {
		f.Add(changed(f, name, nil))
	}
	f.Add([]byte(`{"model_type":"llama","hidden_size":-1}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := hardware.ParseConfig("c.json", data)
		if err != nil {
			return
		}
		for name, v := range map[string]float64{"entry": float64(m.Entry.Value), "parameters": float64(m.Parameters.Value), "bytes": float64(m.BytesPerParameter.Value), "layers": float64(m.Layers.Value)} {
			if !(v > 0) || math.IsInf(v, 0) {
				t.Errorf("%s %g of %s", name, v, data)
			}
		}
	})
}

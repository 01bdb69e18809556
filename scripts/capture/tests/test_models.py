"""One attention function serves many families. Outputs and selections agree with the
library's own attention."""

import pytest
import torch
import transformers
from conftest import BASE, FAMILIES, save, tiny

from kvreplay.captures import attention, model as models, selectors
from kvreplay.captures.cache import preallocated
from kvreplay.captures.errors import CaptureError
from kvreplay.captures.observer import Observer, Settings

PROMPT, STEPS, WINDOWS = 60, 4, 5
SETTINGS = dict(topk=8, candidates=12, windows=WINDOWS, sink=2, local=6)


def tokens():
    return torch.randint(3, 90, (1, PROMPT + STEPS), generator=torch.Generator().manual_seed(3))


def capture(model, settings, names=("exact",)):
    """Prefill and STEPS steps along tokens(): logits of each call, and the observer."""
    observer = Observer(settings, [selectors.parse(n) for n in names])
    model.set_attn_implementation(attention.NAME)
    modules = models.attention_modules(model)
    hooks = observer.watch(modules)
    if observer.ahead:
        models.check_prediction(model, modules, observer)
    attention.observe(observer)
    cache, ids, logits = preallocated(model.config.num_hidden_layers, PROMPT + STEPS), tokens(), []
    try:
        with torch.inference_mode():
            for part in (ids[:, :PROMPT], *ids[0, PROMPT:].split(1)):
                logits.append(model(part.reshape(1, -1), past_key_values=cache, use_cache=True, logits_to_keep=1).logits[0, -1])
    finally:
        attention.observe(None)
        for hook in hooks:
            hook.remove()
    return torch.stack(logits), observer


def eager(model):
    """The library's own attention over the whole text: logits, and weights by layer (heads, N, N)."""
    model.set_attn_implementation("eager")
    with torch.inference_mode():
        out = model(tokens(), use_cache=False, output_attentions=True)
    return out.logits[0], [a[0] for a in out.attentions]


@pytest.mark.parametrize("family", FAMILIES)
def test_family(family):
    model = tiny(family)
    logits, observer = capture(model, Settings(**SETTINGS))
    wanted, weights = eager(model)
    assert torch.allclose(logits, wanted[PROMPT - 1 :], rtol=1e-3, atol=1e-3)
    lists, mass, _ = observer.take()
    for layer, probs in enumerate(weights):
        index, score = torch.cat([torch.nn.functional.pad(x, (0, 12 - x.shape[-1]), value=-1) for x in lists[0, layer].index], 1), lists[0, layer].score
        grouped = probs.unflatten(0, (2, 2))
        for row, position in enumerate(range(PROMPT - WINDOWS, PROMPT + STEPS)):
            for head in range(2):
                reduced = grouped[head, :, position].amax(0)
                slow = sorted(range(2, position + 1 - 6), key=lambda i: (-reduced[i].item(), i))[:12]
                assert index[head, row].tolist() == slow, (layer, head, position)
                assert torch.allclose(torch.cat(score, 1)[head, row], reduced[slow], atol=1e-5)
                covered = torch.cat(lists[0, layer].covered, 1)[head, row]
                assert abs(covered - grouped[head, :, position].mean(0)[slow].sum()) < 1e-5
        given = grouped[:, :, PROMPT - WINDOWS : PROMPT, :PROMPT].mean(1).sum(1)
        assert torch.allclose(mass[layer], given, atol=1e-5)


def test_per_layer():
    model = tiny("llama")
    _, observer = capture(model, Settings(**SETTINGS, per="layer"), ("exact", "quest:page=4"))
    _, weights = eager(model)
    lists, mass, recalls = observer.take()
    for layer, probs in enumerate(weights):
        index = torch.cat(lists[0, layer].index, 1)
        assert index.shape[0] == 1
        for row, position in enumerate(range(PROMPT - WINDOWS, PROMPT + STEPS)):
            mean = probs[:, position].mean(0)
            assert index[0, row].tolist() == sorted(range(2, position + 1 - 6), key=lambda i: (-mean[i].item(), i))[:12]
        assert torch.allclose(mass[layer], probs[:, PROMPT - WINDOWS : PROMPT, :PROMPT].mean(0).sum(0)[None], atol=1e-5)
    assert recalls[0][0].exact == recalls[0][0].listed == 3 * STEPS * 8 and recalls[1][0].exact > recalls[1][0].listed > 0


@torch.inference_mode()
def test_prediction():
    """The predicted selection is that of the layer's query for the input of the layer before."""
    model = tiny("llama")
    _, observer = capture(model, Settings(**SETTINGS, predict=True))
    lists, _, _ = observer.take()
    model.set_attn_implementation("eager")
    inputs = {}
    hooks = [layer.self_attn.register_forward_pre_hook(lambda m, a, k: inputs.__setitem__(m.layer_idx, k["hidden_states"]), with_kwargs=True) for layer in model.model.layers]
    with torch.inference_mode():
        model(tokens(), use_cache=False)
    for hook in hooks:
        hook.remove()
    from transformers.models.llama.modeling_llama import apply_rotary_pos_emb

    n = PROMPT + STEPS
    cos, sin = model.model.rotary_emb(inputs[0], torch.arange(n)[None])
    assert all((x == -1).all() for x in lists[0, 0].predicted)  # nothing comes before the first layer
    for layer in (1, 2):
        attn = model.model.layers[layer].self_attn
        q, _ = apply_rotary_pos_emb(attn.q_proj(inputs[layer - 1]).view(1, n, 4, 8).transpose(1, 2), torch.zeros(1, 4, n, 8), cos, sin)
        _, k = apply_rotary_pos_emb(torch.zeros(1, 2, n, 8), attn.k_proj(inputs[layer]).view(1, n, 2, 8).transpose(1, 2), cos, sin)
        for row, position in enumerate(range(PROMPT - WINDOWS, n)):
            for head in range(2):
                logits = q[0, 2 * head : 2 * head + 2, position] @ k[0, head, : position + 1].mT * 8 ** -0.5
                reduced = torch.softmax(logits, -1).amax(0)
                slow = sorted(range(2, position + 1 - 6), key=lambda i: (-reduced[i].item(), i))[:8]
                assert torch.cat(lists[0, layer].predicted, 1)[head, row].tolist() == slow


def test_prediction_serves_families():
    for family in FAMILIES:
        capture(tiny(family), Settings(**SETTINGS), ("infinigen",))


def test_sampled_layers_change_nothing_else():
    model = tiny("llama")
    logits, observer = capture(model, Settings(**SETTINGS, layers=(1,)), ("exact", "infinigen"))
    some = observer.take()[0]
    all_, observer = capture(model, Settings(**SETTINGS), ("exact", "infinigen"))
    every = observer.take()[0]
    assert torch.allclose(logits, all_, atol=1e-5)
    assert sorted(some) == [(0, 1), (1, 1)]
    for s in (0, 1):
        assert torch.equal(torch.cat(some[s, 1].index, 1), torch.cat(every[s, 1].index, 1))


def refused(folder, longest, message):
    with pytest.raises(CaptureError, match=message):
        source = models.resolve(str(folder))
        config = models.configuration(source)
        models.check_context(config, source.name, longest, "r")
        models.parameters(config)


def test_architectures_that_are_refused(tmp_path):
    transformers.T5Config(num_layers=1).save_pretrained(tmp_path / "t5")
    refused(tmp_path / "t5", 1, "an encoder and decoder")
    transformers.MambaConfig(num_hidden_layers=1, hidden_size=16, vocab_size=8).save_pretrained(tmp_path / "mamba")
    refused(tmp_path / "mamba", 1, "layers of the kinds linear_attention")
    transformers.BloomConfig(n_layer=1, hidden_size=16, n_head=2, vocab_size=8).save_pretrained(tmp_path / "bloom")
    refused(tmp_path / "bloom", 1, "does not go through AttentionInterface")
    transformers.MistralConfig(**BASE, sliding_window=64).save_pretrained(tmp_path / "mistral")
    refused(tmp_path / "mistral", 65, "sliding window of 64")
    transformers.Qwen2Config(**BASE, layer_types=["full_attention", "sliding_attention", "full_attention"], use_sliding_window=True, sliding_window=32).save_pretrained(tmp_path / "qwen2")
    refused(tmp_path / "qwen2", 65, "sliding")
    (tmp_path / "new").mkdir()
    (tmp_path / "new" / "config.json").write_text('{"model_type": "brandnew"}')
    refused(tmp_path / "new", 1, "does not know this architecture")
    refused(save(tiny("llama"), tmp_path / "llama"), 513, "takes at most 512")


def test_names_that_are_refused(tmp_path):
    (tmp_path / "x.bin").touch()
    for name, message in {"nonesuch": "no such folder or file", str(tmp_path / "x.bin"): "expected a folder, a .gguf file", "./no/such": "no such folder"}.items():
        with pytest.raises(CaptureError, match=message):
            models.resolve(name)

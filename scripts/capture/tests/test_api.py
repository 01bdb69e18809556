"""kvreplay.capture, and the indexers of sparse attention in tiny models with random weights."""

import numpy as np
import pytest
import torch
import transformers
from conftest import BASE, prompt, save

import kvreplay
from kvreplay.captures import indexer

SPARSE = BASE | dict(num_attention_heads=4, num_key_value_heads=4, moe_intermediate_size=16, n_routed_experts=4, n_group=2, topk_group=1,
                     num_experts_per_tok=2, kv_lora_rank=16, q_lora_rank=24, qk_rope_head_dim=8, qk_nope_head_dim=8, v_head_dim=8, head_dim=8,
                     index_topk=12, index_head_dim=16, index_n_heads=16, first_k_dense_replace=1)
FAMILIES = {"deepseek_v32": transformers.DeepseekV32Config, "glm_moe_dsa": transformers.GlmMoeDsaConfig}


def sparse(family):
    torch.manual_seed(5)
    model = transformers.AutoModelForCausalLM.from_config(FAMILIES[family](**SPARSE), attn_implementation="eager")
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim > 1:
                parameter.normal_(std=0.3)
    return model.eval()


def ids(length, seed):
    return torch.randint(3, 90, (length,), generator=torch.Generator().manual_seed(seed)).tolist()


@pytest.mark.parametrize("family", FAMILIES)
def test_lists_are_those_that_the_model_attends_to(family):
    """Attention weights of the whole text, in one pass, are above 0 on the recorded lists alone."""
    model = sparse(family)
    traces = kvreplay.capture(model, [ids(40, 1)], steps=6, windows=4)
    trace, fed = traces["indexer"], ids(40, 1)
    with torch.inference_mode():
        for _ in range(6):
            fed.append(int(model(torch.tensor([fed])).logits[0, -1].argmax()))
        attentions = model(torch.tensor([fed]), output_attentions=True).attentions
    assert trace.metadata["topk"] == 12 and [s.layer for s in trace] == sorted(indexer.indexers(model))
    for stream in trace:
        assert stream.steps.tolist() == list(range(-4, 6)) and stream.prompt_len == 40
        for row, step in zip(stream.indices, stream.steps, strict=True):
            read = attentions[stream.layer][0, :, 40 + step].amax(0) > 0
            assert set(row.tolist()) == set(torch.nonzero(read).flatten().tolist()), (stream.layer, step)


def test_ranks_are_the_indexers():
    """Lists are best first: a smaller index_topk gives a prefix in the first layer, whose input does not depend on it."""
    model = sparse("deepseek_v32")
    few = kvreplay.capture(model, [ids(30, 2)], steps=0, windows=8, layers=[0])["indexer"].streams[0].indices
    for m in indexer.indexers(model).values():
        m.index_topk = 20
    many = kvreplay.capture(model, [ids(30, 2)], steps=0, windows=8, layers=[0])["indexer"].streams[0].indices
    assert many.shape[1] == 20 and np.array_equal(many[:, :12], few)


def test_a_folder_and_texts(tmp_path):
    folder = save(sparse("deepseek_v32"), tmp_path / "model")
    prompts = [{"id": "a", "input": prompt(20, 1)}, prompt(30, 2)]
    trace = kvreplay.capture(folder, prompts, selectors="indexer", steps=5, windows=2)["indexer"]
    assert {(s.request, s.prompt_len) for s in trace} == {("a", 20), ("r1", 30)} and trace.metadata["model"] == "model"
    trace.write(tmp_path / "t.parquet")
    assert kvreplay.Trace.read(tmp_path / "t.parquet").metadata["entry_bytes"] == 2 * (16 + 8)


def test_selectors_of_full_attention(llama, tmp_path):
    traces = kvreplay.capture(llama, [prompt(70, 1)], selectors=["exact", "quest:page=4"], steps=3, windows=4, topk=8, local=6, device="cpu", eos="never", threads=1)
    assert list(traces) == ["exact", "quest-page4"] and all(len(t) == 6 for t in traces.values())
    assert traces["exact"].metadata["topk"] == 8 and traces["quest-page4"].metadata["block_tokens"] == 4
    stream = traces["exact"].streams[0]
    blocks = traces["quest-page4"].streams[0].prompt_mass
    assert len(blocks) == 18 and np.allclose(blocks[:2], stream.prompt_mass[:8].reshape(2, 4).sum(1), rtol=2e-3)
    assert stream.steps.tolist() == list(range(-4, 3)) and (np.diff(stream.scores, axis=1) <= 0).all()


def test_refusals(llama, tmp_path):
    with pytest.raises(kvreplay.Error, match="no layer has an indexer"):
        kvreplay.capture(llama, [prompt(70, 1)], selectors="indexer")
    with pytest.raises(kvreplay.Error, match="expected tokenizer="):
        kvreplay.capture(sparse("deepseek_v32"), ["w3 w4"])
    with pytest.raises(kvreplay.Error, match="layer 7 has no indexer"):
        kvreplay.capture(sparse("deepseek_v32"), [ids(9, 1)], layers=[7])


def test_a_wrong_flag_is_an_error(tmp_path):
    """argparse would end the notebook."""
    with pytest.raises(kvreplay.Error, match="unrecognized arguments: --topkk 3"):
        kvreplay.capture(tmp_path, ["a text"], topkk=3)

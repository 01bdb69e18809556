"""The hooks for vLLM, on a stand-in with its interface: a buffer of rows per token, shared by all layers."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from kvreplay.captures import vllm
from kvreplay.captures.errors import CaptureError

TOPK = 4


def selected(position, layer):
    """The positions that a token selects, all if there are no more than TOPK."""
    return sorted((position * 7 + layer + 3 * k) % (position + 1) if position >= 40 else k for k in range(min(position + 1, TOPK)))


def select(buffer, tokens, layer):
    """Leaves rows as they were if all tokens select all, as vLLM does."""
    if max(tokens) < TOPK:
        return
    for row, position in enumerate(tokens):
        for k, x in enumerate(reversed(selected(position, layer))):
            buffer[row, k] = x


class SparseAttnIndexer(torch.nn.Module):
    def __init__(self, buffer, layer):
        super().__init__()
        self.topk_indices_buffer, self.layer = buffer, layer

    def forward(self, hidden_states, tokens):
        select(self.topk_indices_buffer, tokens, self.layer)
        return self.topk_indices_buffer


class RocmSparseAttnIndexer(SparseAttnIndexer):
    pass


def sparse_attn_indexer(hidden_states, k_cache_prefix, tokens, topk_indices_buffer, skip_topk_buffer_clear=False):
    select(topk_indices_buffer, tokens, int(k_cache_prefix.split(".")[2]))


class Attention(torch.nn.Module):
    """A layer that has an indexer and calls the function."""

    def __init__(self, buffer, layer):
        super().__init__()
        self.indexer_op, self.prefix = SparseAttnIndexer(buffer, layer), f"model.layers.{layer}.self_attn.indexer.k_cache"

    def forward(self, hidden_states, tokens):
        sparse_attn_indexer(hidden_states, self.prefix, tokens, self.indexer_op.topk_indices_buffer, skip_topk_buffer_clear=True)


class Model(torch.nn.Module):
    def __init__(self, kind):
        super().__init__()
        buffer = torch.zeros(64, TOPK, dtype=torch.int32)
        self.layers = torch.nn.ModuleList(torch.nn.ModuleDict({"indexer": kind(buffer, i)}) for i in range(2))


class Engine:
    """Prefills in chunks of 16 tokens, as vLLM's scheduler may."""

    def __init__(self, cached=0, kind=SparseAttnIndexer):
        self.model, self.cached = Model(kind), cached

    def apply_model(self, function):
        return [function(self.model)]

    def generate(self, prompts, sampling):
        n = len(prompts[0]["prompt_token_ids"])
        chunks = [range(a, min(a + 16, n)) for a in range(self.cached, n, 16)] + [range(p, p + 1) for p in range(n, n + sampling - 1)]
        for chunk in chunks:
            for layer in self.model.layers:
                layer["indexer"](torch.zeros(len(chunk), 8), list(chunk))
        return [SimpleNamespace(outputs=[SimpleNamespace(token_ids=list(range(sampling)))])]


@pytest.mark.parametrize("kind", [SparseAttnIndexer, RocmSparseAttnIndexer, Attention])
def test_rows_become_a_trace(tmp_path, kind):
    trace = vllm.record(Engine(kind=kind), [list(range(44)), list(range(20)), [1, 2]], windows=3, sampling=5, model_name="stand-in")
    assert [(s.request, s.layer, s.prompt_len) for s in trace] == [(f"r{i}", layer, n) for i, n in enumerate([44, 20, 2]) for layer in (0, 1)]
    for stream in trace:
        assert stream.steps.tolist() == list(range(-min(3, stream.prompt_len), 4))
        for step, row in zip(stream.steps, stream.indices, strict=True):
            assert row[row >= 0].tolist() == selected(stream.prompt_len + int(step), stream.layer)
    trace.write(tmp_path / "t.parquet")


@pytest.mark.parametrize("rows", [[[0, -1], [1, 0], [-1, -1]], [[0, -1], [1, 0], [3, 1]], [[0, -1], [1, -1], [2, 1]]])
def test_rows_of_other_tokens_are_an_error(rows):
    """The last token selects nothing or a later one, or the one before selects too few."""
    with pytest.raises(CaptureError, match="the token at position . selects"):
        vllm.selections(np.array(rows), 0)


def test_missing_rows_are_an_error():
    with pytest.raises(CaptureError, match="selected for 28 tokens, expected 44"):
        vllm.record(Engine(cached=16), [list(range(40))], sampling=5)


def test_hooks_are_removed():
    function = sparse_attn_indexer
    for kind in (SparseAttnIndexer, Attention):
        engine = Engine(kind=kind)
        vllm.record(engine, [list(range(20))], sampling=2)
        assert not any(m._forward_hooks or m._forward_pre_hooks for m in engine.model.modules())
        assert sparse_attn_indexer is function
    engine.model.layers = torch.nn.ModuleList()
    with pytest.raises(CaptureError, match="called neither"):
        vllm.record(engine, [[1, 2]], sampling=2)

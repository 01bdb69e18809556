"""The hooks for vLLM, on a stand-in with its interface: a buffer of rows per token, shared by all layers."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from kvreplay.captures import vllm
from kvreplay.captures.errors import CaptureError

TOPK = 4


class SparseAttnIndexer(torch.nn.Module):
    def __init__(self, buffer, layer):
        super().__init__()
        self.buffer, self.layer = buffer, layer

    def forward(self, hidden_states, positions):
        self.buffer[: len(hidden_states)] = -1
        for row, position in enumerate(positions):
            chosen = [(position * 7 + self.layer + 3 * k) % (position + 1) for k in range(TOPK)]
            for k, x in enumerate(dict.fromkeys(chosen)):
                self.buffer[row, k] = x
        return self.buffer


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        buffer = torch.empty(64, TOPK, dtype=torch.int32)
        self.layers = torch.nn.ModuleList(torch.nn.ModuleDict({"indexer": SparseAttnIndexer(buffer, i)}) for i in range(2))


class Engine:
    """Prefills in chunks of 16 tokens, as vLLM's scheduler may."""

    def __init__(self, cached=0):
        self.model, self.cached = Model(), cached

    def apply_model(self, function):
        return [function(self.model)]

    def generate(self, prompts, sampling):
        n = len(prompts[0]["prompt_token_ids"])
        chunks = [range(a, min(a + 16, n)) for a in range(self.cached, n, 16)] + [range(p, p + 1) for p in range(n, n + sampling - 1)]
        for chunk in chunks:
            for layer in self.model.layers:
                layer["indexer"](torch.zeros(len(chunk), 8), list(chunk))
        return [SimpleNamespace(outputs=[SimpleNamespace(token_ids=list(range(sampling)))])]


def test_rows_become_a_trace(tmp_path):
    trace = vllm.record(Engine(), [list(range(40)), list(range(20))], windows=3, sampling=5, model_name="stand-in")
    assert [(s.request, s.layer, s.prompt_len) for s in trace] == [("r0", 0, 40), ("r0", 1, 40), ("r1", 0, 20), ("r1", 1, 20)]
    for stream in trace:
        assert stream.steps.tolist() == list(range(-3, 4))
        for step, row in zip(stream.steps, stream.indices, strict=True):
            position = stream.prompt_len + int(step)
            assert row[row >= 0].tolist() == sorted({(position * 7 + stream.layer + 3 * k) % (position + 1) for k in range(TOPK)})
    trace.write(tmp_path / "t.parquet")


def test_missing_rows_are_an_error():
    with pytest.raises(CaptureError, match="selected for 28 tokens, expected 44"):
        vllm.record(Engine(cached=16), [list(range(40))], sampling=5)


def test_hooks_are_removed():
    engine = Engine()
    vllm.record(engine, [list(range(20))], sampling=2)
    assert not any(m._forward_hooks for m in engine.model.modules())
    engine.model.layers = torch.nn.ModuleList()
    with pytest.raises(CaptureError, match="has no SparseAttnIndexer"):
        vllm.record(engine, [[1, 2]], sampling=2)

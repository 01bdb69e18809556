"""Records the selections of vLLM's indexer, for DeepSeek-V3.2 and other models with its sparse attention.

vLLM writes the selection of each token into a buffer, one row per token of the batch: positions within the
request, padded with -1, in no order. Models write it by the layer SparseAttnIndexer or, since vLLM 0.33 on CUDA,
by the function sparse_attn_indexer. Hooks on both copy the rows. They see one request at a time, in eager mode and
without prefix caching. The number of rows and the selections tell whether that was so.
"""

import functools
import inspect
import re
import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..trace import Trace
from . import __version__
from .errors import CaptureError

LAYER = re.compile(r"\blayers\.(\d+)\.")
CLASS, FUNCTION = "SparseAttnIndexer", "sparse_attn_indexer"


class Recording:
    """The rows of each layer in a worker, and what ends the recording."""

    def __init__(self) -> None:
        self.rows: dict[int, list[np.ndarray]] = {}
        self.undo: list[Callable[[], None]] = []

    def keep(self, name: str, tokens: int, buffer: Any) -> None:
        if layer := LAYER.search(name):
            self.rows.setdefault(int(layer[1]), []).append(buffer[:tokens].cpu().numpy().copy())

    def watch(self, name: str, module: Any) -> None:
        """Records a layer. vLLM may leave rows as they were, so they are cleared first."""

        def clear(module, inputs):
            module.topk_indices_buffer[: inputs[0].shape[0]] = -1

        self.undo.append(module.register_forward_pre_hook(clear).remove)
        self.undo.append(module.register_forward_hook(lambda _, inputs, buffer: self.keep(name, inputs[0].shape[0], buffer)).remove)

    def wrap(self, namespace: Any) -> None:
        """Records the calls of the function in the namespace of a model."""
        function = getattr(namespace, FUNCTION)
        signature = inspect.signature(function)

        @functools.wraps(function)
        def recorded(*args, **kwargs):
            given = signature.bind(*args, **kwargs).arguments
            tokens, buffer = given["hidden_states"].shape[0], given["topk_indices_buffer"]
            buffer[:tokens] = -1
            result = function(*args, **kwargs)
            self.keep(given["k_cache_prefix"], tokens, buffer)
            return result

        setattr(namespace, FUNCTION, recorded)
        self.undo.append(lambda: setattr(namespace, FUNCTION, function))


def attach(model: Any) -> None:
    """Begins a recording in a worker."""
    model.kvreplay_recording = recording = Recording()
    namespaces = {}
    for name, module in model.named_modules():
        classes = type(module).__mro__
        if any(c.__name__ == CLASS for c in classes):
            recording.watch(name + ".", module)
        else:
            namespaces |= {c.__module__: sys.modules[c.__module__] for c in classes if hasattr(sys.modules.get(c.__module__), FUNCTION)}
    for namespace in namespaces.values():
        recording.wrap(namespace)


def collect(model: Any) -> dict[int, np.ndarray]:
    """Ends the recording of a worker and returns the rows of each layer, one per token."""
    recording = model.kvreplay_recording
    del model.kvreplay_recording
    for undo in recording.undo:
        undo()
    return {layer: np.concatenate(rows) for layer, rows in recording.rows.items()}


def selections(rows: np.ndarray, first: int) -> list[np.ndarray]:
    """Returns the sorted selections of the tokens from the first one on. Row p is that of the token at position p.

    A token selects among itself and those before it. If they are no more than a row holds, it selects all. vLLM may
    then leave the row empty.
    """
    lists = []
    for p in range(first, len(rows)):
        row = np.unique(rows[p][rows[p] >= 0]).astype(np.int32)
        if len(row) == 0 and p < rows.shape[1]:
            row = np.arange(p + 1, dtype=np.int32)
        if len(row) != min(p + 1, rows.shape[1]) or row[-1] > p:
            raise CaptureError(f"the token at position {p} selects {len(row)} positions, expected {min(p + 1, rows.shape[1])} up to {p}: "
                               "the model compresses positions, or vLLM did not run the indexer for it")
        lists.append(row)
    return lists


def record(llm: Any, prompts: Sequence[Sequence[int]], *, steps: int = 128, windows: int = 32, names: Sequence[str] | None = None, entry_bytes: int = 656,
           model_name: str | None = None, sampling: Any = None) -> Trace:
    """Runs each prompt alone and returns a trace without ranks.

    llm is a vllm.LLM with enforce_eager=True and enable_prefix_caching=False, in a process with
    VLLM_ALLOW_INSECURE_SERIALIZATION=1, which lets it run the hooks in its workers. prompts are lists of tokens.
    sampling is a vllm.SamplingParams, by default greedy with steps tokens. An entry of DeepSeek-V3.2 has 656 bytes.
    """
    if sampling is None:
        from vllm import SamplingParams

        sampling = SamplingParams(temperature=0, max_tokens=steps, ignore_eos=True)
    trace = None
    for i, ids in enumerate(prompts):
        llm.apply_model(attach)
        try:
            (output,) = llm.generate([{"prompt_token_ids": list(ids)}], sampling)
        finally:
            layers = llm.apply_model(collect)[0]  # all workers select alike
        if not layers:
            raise CaptureError(f"the model called neither {CLASS} nor {FUNCTION}, expected DeepSeek-V3.2 or another model with vLLM's sparse attention, on CUDA")
        wanted = len(ids) + len(output.outputs[0].token_ids) - 1  # the last token is not fed
        for layer, rows in sorted(layers.items()):
            if len(rows) != wanted:
                raise CaptureError(f"prompt {i}: layer {layer} selected for {len(rows)} tokens, expected {wanted}: use enforce_eager=True, enable_prefix_caching=False and no speculation")
            first = max(0, len(ids) - windows)
            lists = selections(rows, first)
            trace = trace or Trace(rows.shape[1], order="index", candidates=rows.shape[1], sink=0, local=1, selector="dsa", entry_bytes=entry_bytes,
                                   generator=f"kvreplay capture {__version__}, vLLM", **({"model": model_name} if model_name else {}))
            trace.add(names[i] if names else f"r{i}", layer, len(ids), lists, steps=np.arange(first, wanted) - len(ids))
    if trace is None:
        raise CaptureError("no prompts")
    return trace

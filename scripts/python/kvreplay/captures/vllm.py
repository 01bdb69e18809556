"""Records the selections of vLLM's indexer, for DeepSeek-V3.2 and other models with its SparseAttnIndexer.

vLLM writes the selection of each token into a buffer, one row per token of the batch: positions within the
request, padded with -1, in no order. Hooks copy the rows. They see one request at a time, in eager mode and
without prefix caching. The number of rows tells whether that was so.
"""

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..trace import Trace
from . import __version__
from .errors import CaptureError

LAYER = re.compile(r"\blayers\.(\d+)\.")


def attach(model: Any) -> None:
    """Begins a recording in a worker."""
    for name, module in model.named_modules():
        if type(module).__name__ == "SparseAttnIndexer" and (layer := LAYER.search(name)):
            rows: list[np.ndarray] = []

            def keep(module, inputs, buffer, rows=rows):
                rows.append(buffer[: inputs[0].shape[0]].cpu().numpy().copy())

            module.kvreplay_recording = int(layer[1]), rows, module.register_forward_hook(keep)


def collect(model: Any) -> dict[int, np.ndarray]:
    """Ends the recording of a worker and returns the rows of each layer, one per token."""
    found = {}
    for module in model.modules():
        if hasattr(module, "kvreplay_recording"):
            layer, rows, hook = module.kvreplay_recording
            hook.remove()
            del module.kvreplay_recording
            found[layer] = np.concatenate(rows) if rows else np.empty((0, 0), np.int32)
    return found


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
            raise CaptureError("the model has no SparseAttnIndexer, expected DeepSeek-V3.2 or another model with vLLM's sparse attention")
        wanted = len(ids) + len(output.outputs[0].token_ids) - 1  # the last token is not fed
        for layer, rows in sorted(layers.items()):
            if len(rows) != wanted:
                raise CaptureError(f"prompt {i}: layer {layer} selected for {len(rows)} tokens, expected {wanted}: use enforce_eager=True, enable_prefix_caching=False and no speculation")
            first = max(0, len(ids) - windows)
            lists = [np.sort(row[row >= 0]) for row in rows[first:]]
            trace = trace or Trace(rows.shape[1], order="index", candidates=rows.shape[1], sink=0, local=1, selector="dsa", entry_bytes=entry_bytes,
                                   generator=f"kvreplay capture {__version__}, vLLM", **({"model": model_name} if model_name else {}))
            trace.add(names[i] if names else f"r{i}", layer, len(ids), lists, steps=np.arange(first, wanted) - len(ids))
    if trace is None:
        raise CaptureError("no prompts")
    return trace

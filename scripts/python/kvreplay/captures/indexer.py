"""Records the selections of a model's own indexer: DeepSeek-V3.2, and GLM with sparse attention.

The indexer scores all tokens of the context and selects the best index_topk, which attention then reads.
transformers runs it in eager attention and in that of PyTorch. A hook reads its answers, so the
recorded lists are those that the model attended to.
"""

from collections.abc import Iterable, Sequence

import numpy as np
import torch

from ..trace import PADDING, Trace
from . import __version__
from .errors import CaptureError


def indexers(model: torch.nn.Module) -> dict[int, torch.nn.Module]:
    """The indexers of a model by layer, none if it has full attention. A layer that uses the selection of
    another layer has none."""
    return {m.layer_idx: m for m in model.modules() if type(m).__name__.endswith("Indexer") and hasattr(m, "index_topk")}


class Recorder:
    """Keeps the lists of a request while the model runs."""

    def __init__(self, modules: dict[int, torch.nn.Module]):
        self.lists: dict[int, list[np.ndarray]] = {layer: [] for layer in modules}
        self.last = 0  # queries of a call that are kept
        self.hooks = [m.register_forward_hook(self._hook(layer)) for layer, m in modules.items()]

    def _hook(self, layer: int):
        def keep(module, inputs, selected):
            self.lists[layer].append(selected[0, max(0, selected.shape[1] - self.last) :].cpu().numpy())
        return keep

    def close(self) -> None:
        """Removes the hooks."""
        for hook in self.hooks:
            hook.remove()


@torch.inference_mode()
def record(model: torch.nn.Module, prompts: Iterable[tuple[str, Sequence[int]]], *, steps: int, windows: int, layers: Sequence[int] | None = None,
           kv_bytes: int = 2, model_name: str | None = None, licence: str | None = None) -> Trace:
    """Decodes steps tokens of each prompt greedily. prompts are pairs of a request's name and its tokens.

    The last windows queries of the prompt are recorded too. An entry has the latent and the rotated key of MLA,
    kv_bytes bytes for each number.
    """
    config, modules = model.config, indexers(model)
    if not modules:
        raise CaptureError(f"architecture {config.model_type}: no layer has an indexer, expected deepseek_v32 or glm_moe_dsa")
    if config._attn_implementation not in ("eager", "sdpa"):
        raise CaptureError(f"attention {config._attn_implementation}: the lists of its indexer are not those that transformers attends to, expected eager or sdpa")
    wanted = sorted(modules) if layers is None else sorted(layers)
    if unknown := set(wanted) - set(modules):
        raise CaptureError(f"layer {min(unknown)} has no indexer, expected some of {', '.join(map(str, sorted(modules)))}")
    trace = Trace(config.index_topk, order="rank", sink=0, local=1, selector="dsa", model=model_name or config.model_type, decoding="greedy",
                  generator=f"kvreplay capture {__version__}", entry_bytes=kv_bytes * (config.kv_lora_rank + config.qk_rope_head_dim))
    if licence:
        trace.metadata["licence"] = licence
    for name, ids in prompts:
        recorder = Recorder({layer: modules[layer] for layer in wanted})
        try:
            cache, feed, recorder.last = None, torch.tensor([list(ids)], device=model.device), windows
            for step in range(steps + 1):
                output = model(feed, past_key_values=cache, use_cache=True, logits_to_keep=1)
                cache, feed, recorder.last = output.past_key_values, output.logits[:, -1].argmax(-1, keepdim=True), 1
        finally:
            recorder.close()
        first = -min(windows, len(ids))
        for layer in wanted:
            rows = [row for call in recorder.lists[layer] for row in call]
            lists = [row[row < len(ids) + step + 1] for step, row in enumerate(rows, first)]  # without the masked future
            trace.add(name, layer, len(ids), lists, steps=np.arange(first, first + len(rows)))
    trace.metadata["topk"] = min(config.index_topk, max((s.indices != PADDING).sum(1).max() for s in trace).item())
    return trace


def load(model: str, tokenizer=None):
    """The model of a folder or a name of the hub, with its own attention, and its tokenizer if none is given."""
    import transformers

    from . import model as models

    source = models.resolve(model)
    try:
        loaded = transformers.AutoModelForCausalLM.from_pretrained(source.folder, dtype="auto", attn_implementation="sdpa", device_map="auto").eval()
    except (ValueError, OSError, KeyError) as e:
        raise CaptureError(f"model {source.name}: {str(e).splitlines()[0]}") from e
    return loaded, tokenizer or models.tokenizer(source)

"""Arrow tables of lists, and the metadata that the file carries.

The columns are those of trace/FORMAT.md.
"""

import numpy as np
import pyarrow as pa
import torch

from ..trace import first_row, ragged
from .observer import Lists, Settings
from .selectors import Selector


def padded(parts: list[torch.Tensor], fill) -> np.ndarray:
    """Tensors (heads, steps, M) with different M as one array (heads · steps, M)."""
    width = max(p.shape[-1] for p in parts)
    parts = [torch.nn.functional.pad(p, (0, width - p.shape[-1]), value=fill) for p in parts]
    return torch.cat(parts, 1).flatten(0, 1).numpy()


def stream_batch(request: str, layer: int, prompt: int, lists: Lists, mass: torch.Tensor | None, windows: int,
                 per: str, columns: pa.Schema) -> pa.RecordBatch:
    """The rows of one layer of a request, by head and step."""
    index = padded(lists.index, -1)
    used = index >= 0
    heads = lists.index[0].shape[0]
    steps = np.tile(np.arange(-windows, len(index) // heads - windows, dtype=np.int32), heads)
    head = np.repeat(np.arange(heads, dtype=np.int32), len(index) // heads)
    values = {
        "request_id": pa.array([request]).take(pa.array(np.zeros(len(index), dtype=np.int32))),
        "layer_id": pa.array(np.full(len(index), layer, dtype=np.int32)),
        "head": pa.nulls(len(index), pa.int32()) if per == "layer" else pa.array(head),
        "prompt_len": pa.array(np.full(len(index), prompt, dtype=np.int32)),
        "step": pa.array(steps),
        "seq_len": pa.array(prompt + steps + np.int32(1)),
    }
    def column(name, make):
        if columns.get_field_index(name) >= 0:
            values[name] = make(columns.field(name).type)
    column("topk_indices", lambda t: ragged(index, used, t))
    column("scores", lambda t: ragged(padded(lists.score, 0.0), used, t))
    column("covered_mass", lambda t: pa.array(torch.cat(lists.covered, 1).flatten().numpy()))
    column("attention_mass", lambda t: ragged(padded(lists.mass, 0.0), used, t))
    def predicted(type_):
        ahead = padded(lists.predicted, -1)
        return ragged(ahead, ahead >= 0, type_)
    column("predicted_indices", predicted)
    column("prompt_mass", lambda t: _first_rows(mass, len(index) // heads, t))
    return pa.RecordBatch.from_arrays([values[f.name] for f in columns], schema=columns)


def _first_rows(mass: torch.Tensor | None, rows: int, type_: pa.DataType) -> pa.Array:
    """One list per stream, in its first row."""
    parts = [first_row(head.float().cpu().numpy(), rows, type_) for head in (mass if mass is not None else ())]
    return pa.concat_arrays(parts) if parts else pa.array([], type=type_)


def metadata(selector: Selector, settings: Settings, source: dict, notes: dict[str, str]) -> dict:
    """The metadata of the trace. source has model, generator, decoding, licence and entry_bytes."""
    k, m = settings.blocks(selector)
    own = {f"selector.{key}": f"{value:g}" for key, value in selector.params.items()}
    if settings.per == "layer" and selector.name != "exact":
        own["selector.group_reducer"] = selector.reducer
    return {
        "version": 1, "order": "rank", "topk": k, "candidates": m, "block_tokens": selector.block,
        "sink": settings.sink, "local": settings.local, "selector": selector.name,
        "reducer": "mean" if settings.per == "layer" else selector.reducer,
        "score_kind": selector.score_kind, "notes": notes | own,
    } | {key: value for key, value in source.items() if value}

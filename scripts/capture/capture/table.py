"""Arrow tables of lists, and the metadata that the file carries.

The columns are those of trace/FORMAT.md.
"""

import json

import numpy as np
import pyarrow as pa
import torch

from .observer import Lists, Settings
from .selectors import Selector


def schema(scores: bool, attention: bool, predict: bool, prompt_mass: bool, metadata: dict | None = None) -> pa.Schema:
    """The columns, with the metadata under the key kvreplay."""
    ints, floats = (pa.list_(pa.field("element", t, nullable=False)) for t in (pa.int32(), pa.float32()))
    fields = [
        pa.field("request_id", pa.string(), nullable=False), pa.field("layer_id", pa.int32(), nullable=False),
        pa.field("head", pa.int32()), pa.field("prompt_len", pa.int32(), nullable=False),
        pa.field("step", pa.int32(), nullable=False), pa.field("seq_len", pa.int32(), nullable=False),
        pa.field("topk_indices", ints, nullable=False), pa.field("covered_mass", pa.float32(), nullable=False),
    ]
    fields += [pa.field("scores", floats, nullable=False)] if scores else []
    fields += [pa.field("attention_mass", floats, nullable=False)] if attention else []
    fields += [pa.field("predicted_indices", ints, nullable=False)] if predict else []
    fields += [pa.field("prompt_mass", floats)] if prompt_mass else []
    return pa.schema(fields, metadata={"kvreplay": canonical(metadata)} if metadata is not None else None)


def canonical(metadata: dict) -> str:
    """Canonical JSON as trace/FORMAT.md defines it."""
    return json.dumps(metadata, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def ragged(padded: np.ndarray, used: np.ndarray, type_: pa.DataType) -> pa.ListArray:
    """Rows of a padded array as lists of the used values."""
    offsets = np.zeros(len(padded) + 1, dtype=np.int32)
    np.cumsum(used.sum(-1), out=offsets[1:])
    return pa.ListArray.from_arrays(pa.array(offsets), pa.array(padded[used]), type=type_)


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
    out = []
    for head in mass if mass is not None else []:
        out += [head.float().cpu().numpy()] + [None] * (rows - 1)
    return pa.array(out, type=type_)


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

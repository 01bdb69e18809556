"""The attention function that transformers calls in every layer.

It is registered under one name with AttentionInterface. It serves every decoder-only
model whose attention uses that interface. It computes full attention and shows queries and
keys to an observer.
"""

import torch
from transformers import AttentionInterface, AttentionMaskInterface

from .errors import CaptureError

NAME = "kvreplay_capture"

_observer = None


def observe(observer) -> None:
    """Sets the observer of all later queries and keys: an object with a method
    attend(module, query, key, value, scaling) that returns the output. None removes it."""
    global _observer
    _observer = observer


def full(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, scaling: float) -> torch.Tensor:
    """Causal attention of (heads, N, D) queries over (KV heads, N, D) keys, without
    repeating keys or values."""
    return torch.nn.functional.scaled_dot_product_attention(
        query[None], key[None], value[None], is_causal=query.shape[1] > 1, scale=scaling, enable_gqa=query.shape[0] != key.shape[0])[0]


def _attend(module, query, key, value, attention_mask, scaling=None, dropout=0.0, **kwargs):
    for name in ("softcap", "s_aux", "position_bias"):
        if kwargs.get(name) is not None:
            raise CaptureError(f"layer {module.layer_idx} changes its attention by {name}, which is not implemented: expected plain softmax attention")
    window = kwargs.get("sliding_window")
    if window is not None and window < key.shape[2]:
        raise CaptureError(f"layer {module.layer_idx} sees a sliding window of {window} tokens only, the context has {key.shape[2]}: expected full attention")
    scaling = query.shape[-1] ** -0.5 if scaling is None else scaling
    output = (_observer.attend if _observer else _plain)(module, query[0], key[0], value[0], scaling)
    return output.transpose(0, 1)[None], None  # (1, N, heads, D)


def _plain(module, query, key, value, scaling):
    return full(query, key, value, scaling)


def _no_mask(*args, **kwargs):
    """The observer applies causality itself."""
    return None


AttentionInterface.register(NAME, _attend)
AttentionMaskInterface.register(NAME, _no_mask)

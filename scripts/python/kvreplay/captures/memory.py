"""The memory that a capture needs, and the free memory."""

from pathlib import Path

import psutil
import torch

from .errors import CaptureError


def available(device: torch.device) -> int:
    """Free bytes on the device. On the CPU they are also limited by the process's control group."""
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0]
    free = psutil.virtual_memory().available
    try:
        group = Path("/sys/fs/cgroup")
        limit = (group / "memory.max").read_text().strip()
        if limit != "max":
            free = min(free, int(limit) - int((group / "memory.current").read_text()))
    except (OSError, ValueError):
        pass  # no control group, or one of another kind
    return free


def need(config, weights: int, prompt: int, steps: int, dtype: torch.dtype, selectors: int, streams: int, candidates: int, windows: int) -> dict[str, int]:
    """Bytes by use, for the longest request. They are a little more than measured."""
    size = dtype.itemsize
    heads, kv = config.num_attention_heads, getattr(config, "num_key_value_heads", None) or config.num_attention_heads
    head = getattr(config, "head_dim", None) or config.hidden_size // heads
    context = prompt + steps
    inner = max(getattr(config, "intermediate_size", 0) or 0, config.hidden_size)
    return {
        "weights": weights * size,
        "KV cache": 2 * config.num_hidden_layers * kv * head * context * size,
        "activations": prompt * (3 * inner + 4 * config.hidden_size + 2 * heads * head) * size,
        "windows": 4 * 4 * min(1 << 26, heads * windows * prompt),
        "lists": selectors * streams * (windows + steps) * candidates * 12,
        "program": 1 << 30,
    }


def check(needed: dict[str, int], device: torch.device) -> None:
    """Fails before the long work if memory is too small."""
    total, free = sum(needed.values()), available(device)
    if total > free:
        parts = ", ".join(f"{name} {gib(n)}" for name, n in needed.items())
        raise CaptureError(f"{gib(total)} of memory are needed on {device} ({parts}), {gib(free)} are free: "
                           "expected a smaller model, shorter prompts, fewer --layers, --dtype bfloat16 or another --device")


def gib(n: int) -> str:
    return f"{n / 2**30:.1f} GiB"

"""The best M of a row of scores, the same on every machine."""

import torch

_LOW = 0xFFFFFFFF


def top(scores: torch.Tensor, m: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The m best of the last axis, best first: (indices int64, scores float32).

    Equal scores rank by index, lowest first. torch.topk alone leaves their order open.
    -inf marks entries that must not be listed. Their places, all at the end, have index -1.

    A score and its index become one int64, so that no two are equal. The bits of a float
    order as integers do, if the lower 31 bits of negative floats are flipped.
    """
    units = scores.shape[-1]
    m = min(m, units)
    bits = (scores.float() + 0.0).view(torch.int32).to(torch.int64)  # + 0.0: no negative zero
    ordered = bits ^ ((bits >> 31) & 0x7FFFFFFF)
    keys = (ordered << 32) | (_LOW - torch.arange(units, device=scores.device))
    best = keys.topk(m, dim=-1).values
    index = _LOW - (best & _LOW)
    value = scores.float().gather(-1, index)
    return torch.where(value == -torch.inf, -1, index), value


def mask(index: torch.Tensor, units: int) -> torch.Tensor:
    """The set of the indices of the last axis as a boolean row of units. -1 is no index."""
    out = torch.zeros(*index.shape[:-1], units + 1, dtype=torch.bool, device=index.device)
    out.scatter_(-1, torch.where(index < 0, units, index), True)
    return out[..., :units]

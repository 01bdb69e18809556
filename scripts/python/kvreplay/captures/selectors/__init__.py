"""The selectors, one file each, and their table."""

from ..errors import CaptureError, nearest
from .base import Selector, Step, per_block, tokens
from .exact import Exact
from .infinigen import InfiniGen
from .kvdrive import KVDrive
from .magicpig import MagicPIG
from .pqcache import PQCache
from .quest import Quest
from .retroinfer import RetroInfer
from .shadowkv import ShadowKV

ALL: dict[str, type[Selector]] = {s.name: s for s in (Exact, Quest, ShadowKV, RetroInfer, KVDrive, PQCache, MagicPIG, InfiniGen)}


def parse(text: str) -> Selector:
    """A selector from name or name:key=value,key=value."""
    name, _, rest = text.partition(":")
    if name not in ALL:
        raise CaptureError(f"unknown selector {name!r}; {nearest(name, ALL)}")
    kind, params = ALL[name], {}
    for pair in filter(None, rest.split(",")):
        key, _, value = pair.partition("=")
        if key not in kind.defaults:
            raise CaptureError(f"selector {name} has no parameter {key!r}; {nearest(key, kind.defaults)}")
        try:
            params[key] = type(kind.defaults[key])(value)
        except ValueError:
            raise CaptureError(f"selector {name}: {key} is {value!r}, expected {type(kind.defaults[key]).__name__}") from None
        low = 0 if key in ("seed", "outliers") else 1 if isinstance(params[key], int) else 1e-9
        if params[key] < low or key == "columns" and params[key] > 1:
            raise CaptureError(f"selector {name}: {key} is {value}, out of range")
    return kind(params)


def label(selector: Selector) -> str:
    """A name for files: quest, quest-page8."""
    changed = {k: v for k, v in selector.params.items() if v != selector.defaults[k]}
    return "-".join([selector.name, *(f"{k}{v}" for k, v in sorted(changed.items()))])


__all__ = ["ALL", "Selector", "Step", "label", "parse", "per_block", "tokens"]

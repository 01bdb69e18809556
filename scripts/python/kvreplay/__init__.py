"""Cache policies in Python, and traces and results of kvreplay as arrays and DataFrames.

A policy is a subclass of :class:`Policy`. ``replay`` compares it with the policies of kvreplay::

    import kvreplay
    rows = kvreplay.replay("t.parquet", ["lru", "opt", "mine.py:Mine"], ["1.5x", "2x"])

A policy needs NumPy alone. The other names are imported when they are used first.
"""

import importlib
from typing import TYPE_CHECKING, Any

from .policy import Policy, Queue, Scope, Step, serve
from .program import Error, program

if TYPE_CHECKING:
    from .captures.api import capture
    from .results import arrow, check, compare, leaderboard, list_checks, plan, read_rows, replay, table, time
    from .trace import Stream, Trace

_LATER = {name: "results" for name in ("arrow", "check", "compare", "leaderboard", "list_checks", "plan", "read_rows", "replay", "table", "time")}
_LATER |= {"Stream": "trace", "Trace": "trace", "capture": "captures.api"}


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module 'kvreplay' has no attribute {name!r}")
    return getattr(importlib.import_module(f".{_LATER[name]}", __name__), name)


__all__ = [
    "Error",
    "Policy",
    "Queue",
    "Scope",
    "Step",
    "Stream",
    "Trace",
    "arrow",
    "capture",
    "check",
    "compare",
    "leaderboard",
    "list_checks",
    "plan",
    "program",
    "read_rows",
    "replay",
    "serve",
    "table",
    "time",
]

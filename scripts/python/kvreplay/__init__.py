"""Cache policies in Python, and results of kvreplay as DataFrames.

A policy is a subclass of :class:`Policy`. ``replay`` runs it beside the policies of kvreplay::

    import kvreplay
    rows = kvreplay.replay("t.parquet", ["lru", "opt", "mine.py:Mine"], ["1.5x", "2x"])
"""

from .policy import Policy, Queue, Scope, Step, serve
from .results import Error, compare, leaderboard, plan, program, read_rows, replay, table, time

__all__ = [
    "Error",
    "Policy",
    "Queue",
    "Scope",
    "Step",
    "compare",
    "leaderboard",
    "plan",
    "program",
    "read_rows",
    "replay",
    "serve",
    "table",
    "time",
]

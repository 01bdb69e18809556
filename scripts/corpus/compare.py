"""Compares the selections of two corpora: compare.py ONE OTHER TRACE...

Of each trace the share of the first one's entries that stand in the same row of the other,
in any order. Fails below 99 %: on another machine or with other library versions sums
are added in another order, and entries with almost the same score change places.
"""

import sys
from pathlib import Path

import pyarrow.parquet as pq

KEY = ["request_id", "layer_id", "head", "step"]
LEAST = 0.99


def rows(path: Path) -> dict:
    """The lists of a trace by key."""
    table = pq.read_table(path, columns=[*KEY, "topk_indices"])
    lists = table["topk_indices"].to_pylist()
    return dict(zip(zip(*(table[k].to_pylist() for k in KEY)), lists))


def share(one: dict, other: dict) -> float:
    """Entries of one that the other has too; rows that the other lacks count as different."""
    same = sum(len(set(a) & set(other.get(key, ()))) for key, a in one.items())
    return same / sum(map(len, one.values()))


def main(one: Path, other: Path, traces: list[str]) -> int:
    worst = 1.0
    for trace in traces:
        equal = share(rows(one / trace), rows(other / trace))
        print(f"{trace:44} {equal:8.4%}")
        worst = min(worst, equal)
    if worst < LEAST:
        print(f"compare: {worst:.2%} of the entries are equal in the worst trace, expected {LEAST:.0%}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3:]))

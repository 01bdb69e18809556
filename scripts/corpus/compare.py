"""Compares the selections of a corpus and of traces made again: compare.py FOLDER TRACE...

Prints the share of the folder's entries that are in the same row of the trace, in any order, for the
requests of each trace. Fails below 99 %. Another machine or other library versions add sums in
another order, so entries with almost the same score change places.
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


def before(folder: Path, trace: Path, requests: set[str]) -> dict:
    """The folder's lists of the requests of a trace, by part and selector. Tasks may share a file there."""
    part, _, rest = trace.stem.partition("_")
    _, dot, selector = rest.partition(".")
    found = {}
    for path in sorted(folder.glob(f"{part}_*.parquet")):
        if path.stem.partition(".")[1:] == (dot, selector):
            found |= {key: a for key, a in rows(path).items() if key[0] in requests}
    if not found:
        raise SystemExit(f"compare: {folder} has no list of {trace.name}, expected the same plan, lengths and samples")
    return found


def share(one: dict, other: dict) -> float:
    """Entries of one that the other has too. Rows that the other lacks count as different. If the
    other's lists are longer, only their first entries count."""
    same = sum(len(set(a) & set(other.get(key, ())[: len(a)])) for key, a in one.items())
    return same / sum(map(len, one.values()))


def main(folder: Path, traces: list[Path]) -> int:
    worst = 1.0
    for trace in traces:
        now = rows(trace)
        equal = share(before(folder, trace, {key[0] for key in now}), now)
        print(f"{trace.stem:44} {equal:8.4%}")
        worst = min(worst, equal)
    if worst < LEAST:
        print(f"compare: {worst:.2%} of the entries are equal in the worst trace, expected {LEAST:.0%}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), [Path(a) for a in sys.argv[2:]]))

"""Replays and their results as tables."""

from __future__ import annotations

import io
import json
import os
import re
import shlex
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as csv

from .policy import LOADING
from .program import Error, flags, run

Paths = str | os.PathLike[str] | Iterable[str | os.PathLike[str]]


#: Columns of texts. Others have the type of their values, which would make the request "007" the number 7.
TEXTS = """scope kind rank letters machine schedule does_not_fit notes
trace trace_digest model policy options policy_fingerprint depends_on selector capacity warmup pool allocation reallocation
tiers above prefetch outliers clusters layers requests labels request_id engine warnings""".split()

#: The first characters of a text that a spreadsheet would compute. CSV files have a quote before it.
_FORMULA = tuple("=+-@\t\r\n＝＋－＠")


def _list(paths: Paths) -> list[str]:
    return [os.fspath(p) for p in ([paths] if isinstance(paths, (str, os.PathLike)) else paths)]


def command(policy: str | type) -> str:
    """Return a policy as --policy takes it. FILE.py:CLASS and classes run in this Python."""
    if isinstance(policy, type):
        file = sys.modules[policy.__module__].__dict__.get("__file__")
        if file is None:
            raise Error(f"class {policy.__name__} is in no file: write it to a file and name it FILE.py:{policy.__name__}")
        policy = f"{file}:{policy.__name__}"
    if policy.endswith(".py") and not policy.startswith("exec:"):
        raise Error(f"{policy}: expected the class of the policy too, as in {policy}:Mine")
    if re.search(r"\.py:\w+$", policy) and not policy.startswith("exec:"):
        if loading := os.environ.get(LOADING):
            raise Error(f"{loading}: its file replays {policy} when it is imported: put the replay under if __name__ == '__main__':")
        path, _, name = policy.rpartition(":")
        if not Path(path).is_file():
            raise Error(f"{policy}: no file {Path(path).resolve()}")
        return "exec:" + shlex.join([sys.executable, "-m", "kvreplay", f"{Path(path).resolve()}:{name}"])
    return policy


def _name(policy: str | type) -> str:
    """Return the name of a policy in tables."""
    return policy.__name__ if isinstance(policy, type) else policy


def arrow(*arguments: str | os.PathLike[str], **options: Any) -> pa.Table:
    """Run a command that has --format csv and return its table. ``options`` are its flags.

    pandas takes it by ``.to_pandas()``, polars by ``polars.from_arrow``.
    """
    return _parse(io.BytesIO(run(*arguments, *flags(options), "--format=csv").stdout.encode()))


def _parse(source: str | io.BytesIO) -> pa.Table:
    """Read a CSV file that kvreplay wrote. A column without any value has the type text."""
    read = csv.read_csv(source, convert_options=csv.ConvertOptions(column_types=dict.fromkeys(TEXTS, pa.string()), null_values=[""]))
    columns = [pa.array([""] * len(read)) if pa.types.is_null(c.type) else c for c in read.columns]
    for i, column in enumerate(columns):
        if pa.types.is_string(column.type) and pc.any(pc.starts_with(column, "'")).as_py():
            columns[i] = pa.array([_unquoted(text) for text in column.to_pylist()])
    return pa.table(columns, names=read.column_names)


def _unquoted(cell: str) -> str:
    """Return the text of a cell without the quote that keeps spreadsheets from computing it."""
    text = cell.lstrip("'")
    if text == cell or not text.startswith(_FORMULA):
        return cell
    try:
        float(text)
    except ValueError:
        return cell[1:]
    return cell  # a number has no quote of its own


def table(*arguments: str | os.PathLike[str], **options: Any) -> pd.DataFrame:
    """Run a command that has --format csv and return its table. ``options`` are its flags."""
    frame: pd.DataFrame = arrow(*arguments, **options).to_pandas()
    return frame


def read_rows(file: str | os.PathLike[str]) -> pd.DataFrame:
    """Read a CSV file that kvreplay wrote."""
    frame: pd.DataFrame = _parse(os.fspath(file)).to_pandas()
    return frame


def document(*arguments: str | os.PathLike[str], **options: Any) -> Any:
    """Run a command that has --format json and return its output. ``options`` are its flags."""
    return json.loads(run(*arguments, *flags(options), "--format=json").stdout)


def replay(traces: Paths, policies: str | type | Iterable[str | type], capacities: str | Iterable[str] = ("1.5x", "2x", "4x"), **options: Any) -> pd.DataFrame:
    """Replay traces through policies and return one row per cell.

    A policy is a name as in ``kvreplay policies``, a class of a file, or ``FILE.py:CLASS``. ``options``
    are flags of ``kvreplay replay``, such as ``per="request"`` or ``out="results"``. The column policy
    has the names as given.
    """
    named = {command(p): _name(p) for p in ([policies] if isinstance(policies, (str, type)) else policies)}
    if not named:
        raise ValueError("policies is empty: name at least one")
    if same := [name for name, n in Counter(named.values()).items() if n > 1]:
        raise ValueError(f"policies: several classes are named {same[0]}, which rows cannot tell apart: name each FILE.py:{same[0]}")
    chosen = [capacities] if isinstance(capacities, str) else list(capacities)
    if not all(isinstance(c, str) for c in chosen):
        raise TypeError(f'capacities: {chosen}, expected texts such as "2x" (2 × K entries)')
    rows = arrow("replay", *_list(traces), policy=list(named), capacity=",".join(chosen), **options)
    frame: pd.DataFrame = rows.to_pandas()
    frame["policy"] = frame["policy"].replace(named)
    return frame


def leaderboard(rows: Paths, **options: Any) -> pd.DataFrame:
    """Rank the policies of rows, of files or folders that ``replay(..., out=FOLDER)`` wrote."""
    return table("leaderboard", *_list(rows), **options)


def compare(a: str | type, b: str | type, rows: Paths, **options: Any) -> pd.DataFrame:
    """Compare two policies by the rows that both have: a row per cell, then one of all cells, whose trace is empty."""
    groups = document("compare", command(a), command(b), *_list(rows), **options)["groups"]
    return pd.json_normalize([{"start": g["start"]} | cell for g in groups for cell in [*g["cells"], g["pooled"]]], sep="_")


def time(rows: Paths, **options: Any) -> pd.DataFrame:
    """Model the time of decode steps from a replay with ``profile=True``."""
    return table("time", *_list(rows), **options)


def plan(rows: Paths, **options: Any) -> pd.DataFrame:
    """Find the batch, capacity, policy and schedule with the most tokens per second: a row per candidate, best first."""
    return pd.json_normalize(document("plan", *_list(rows), **options)["candidates"], sep="_")


def check(policy: str | type, checks: Sequence[str] = (), *, short: bool = False, seed: int = 0) -> None:
    """Check a policy against the contract, over random streams, by the conformance kit of kvreplay.

    ``checks`` names some of ``list_checks(policy)``. A breach is an ``Error`` that shows the smallest
    stream on which it happens, and its ``seed``.
    """
    found = _checks(policy, check=list(checks), short=short, seed=seed or None)
    failures = [f"{line['check']}: {line['failure']}" for line in found if line["failure"]]
    if failures:
        raise Error("\n\n".join(failures))


def list_checks(policy: str | type) -> list[str]:
    """Return the names of the checks of a policy."""
    return [line["check"] for line in _checks(policy, list=True)]


def _checks(policy: str | type, **options: Any) -> list[dict[str, str]]:
    done = run("policies", "check", command(policy), *flags(options), "--format=json", fails=True)
    if not done.stdout:
        raise Error(done.stderr.strip())
    lines: list[dict[str, str]] = json.loads(done.stdout)
    return lines

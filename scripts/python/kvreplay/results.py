"""Run kvreplay and read its results."""

from __future__ import annotations

import io
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pandas as pd

Paths = str | os.PathLike[str] | Iterable[str | os.PathLike[str]]


class Error(RuntimeError):
    """kvreplay ended with an error. The text is its message."""


def program() -> str:
    """Return the path of kvreplay: of KVREPLAY, of this package, or of PATH."""
    beside = Path(__file__).with_name("bin") / ("kvreplay.exe" if os.name == "nt" else "kvreplay")
    found = os.environ.get("KVREPLAY") or (str(beside) if beside.exists() else shutil.which("kvreplay"))
    if not found:
        raise Error("kvreplay is not on PATH: install it, or set KVREPLAY to its path")
    return found


def _list(paths: Paths) -> list[str]:
    return [os.fspath(p) for p in ([paths] if isinstance(paths, (str, os.PathLike)) else paths)]


def _policy(name: str | type) -> str:
    """Return a policy as --policy takes it. FILE.py:CLASS and classes run in this Python."""
    if isinstance(name, type):
        file = sys.modules[name.__module__].__dict__.get("__file__")
        if file is None:
            raise Error(f"class {name.__name__} is in no file: write it to a file and name it FILE.py:{name.__name__}")
        name = f"{file}:{name.__name__}"
    if re.search(r"\.py:\w+$", name) and not name.startswith("exec:"):
        path, _, of = name.rpartition(":")
        return "exec:" + shlex.join([sys.executable, "-m", "kvreplay", f"{Path(path).resolve()}:{of}"])
    return name


def _name(policy: str | type) -> str:
    """Return the name of a policy in DataFrames."""
    return policy.__name__ if isinstance(policy, type) else policy


def _flags(options: dict[str, Any]) -> list[str]:
    flags: list[str] = []
    for key, value in options.items():
        flag = "--" + key.replace("_", "-")
        if value is True:
            flags.append(flag)
        elif value is not None and value is not False:
            for item in value if isinstance(value, (list, tuple)) else [value]:
                flags.append(f"{flag}={item}")
    return flags


def table(*arguments: str | os.PathLike[str], **options: Any) -> pd.DataFrame:
    """Run a command that has --format csv and return its table. options are its flags."""
    command = [program(), *(os.fspath(a) for a in arguments), *_flags(options), "--format=csv"]
    environment = dict(os.environ, PYTHONPATH=os.pathsep.join(filter(None, [str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH")])))
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, env=environment)
    if done.returncode != 0:
        raise Error(done.stderr.strip() or f"kvreplay ended with exit code {done.returncode}")
    return read_rows(io.StringIO(done.stdout))


def read_rows(rows: str | os.PathLike[str] | io.StringIO) -> pd.DataFrame:
    """Read a CSV file that kvreplay wrote. Empty texts stay empty."""
    return pd.read_csv(rows, keep_default_na=False, na_values={}, dtype_backend="numpy_nullable").convert_dtypes()


def replay(traces: Paths, policies: Iterable[str | type], capacities: Iterable[str] = ("1.5x", "2x", "4x"), **options: Any) -> pd.DataFrame:
    """Replay traces through policies and return one row per cell.

    A policy is a name as in ``kvreplay policies``, a class of a file, or ``FILE.py:CLASS``. options
    are flags of ``kvreplay replay``, such as ``per="request"`` or ``out="results"``. The column policy
    has the names as given.
    """
    named = {_policy(p): _name(p) for p in policies}
    rows = table("replay", *_list(traces), policy=list(named), capacity=",".join(capacities), **options)
    rows["policy"] = rows["policy"].replace(named)
    return rows


def leaderboard(rows: Paths, **options: Any) -> pd.DataFrame:
    """Rank the policies of rows, of files or folders that ``replay(..., out=FOLDER)`` wrote."""
    return table("leaderboard", *_list(rows), **options)


def compare(a: str | type, b: str | type, rows: Paths, **options: Any) -> pd.DataFrame:
    """Compare two policies by the rows that both have."""
    return table("compare", _policy(a), _policy(b), *_list(rows), **options)


def time(rows: Paths, **options: Any) -> pd.DataFrame:
    """Model the time of decode steps from a replay with ``profile=True``."""
    return table("time", *_list(rows), **options)


def plan(rows: Paths, **options: Any) -> pd.DataFrame:
    """Find the batch, capacity, policy and schedule with the most tokens per second."""
    return table("plan", *_list(rows), **options)

"""Read and write traces: trace/FORMAT.md in the repository."""

from __future__ import annotations

import json
import operator
import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import ArrayLike, NDArray

from .policy import integers
from .program import Error, flags, run

Ints = NDArray[np.int32]
Floats = NDArray[np.float32]

#: The key of the metadata in Arrow and Parquet files.
KEY = b"kvreplay"

#: The padding of lists that are shorter than others.
PADDING = -1


@dataclass(frozen=True, slots=True, eq=False)
class Stream:
    """The lists of one request, layer and head, one row per step.

    Arrays of two dimensions have a row per step. ``indices`` and ``predicted`` are padded with -1 at
    the end of shorter lists, and ``scores`` and ``attention_mass`` with 0 at the same places.
    """

    request: str
    layer: int
    head: int | None  #: None: the heads of the layer share the lists
    prompt_len: int  #: tokens of the prompt
    steps: Ints  #: ascending. Steps below 0 are windows, the last queries of the prompt
    indices: Ints  #: blocks of each list, best first in a ranked trace
    scores: Floats | None = None  #: score of each index
    covered_mass: Floats | None = None  #: share of a step's attention mass that its list holds
    attention_mass: Floats | None = None  #: softmax probability of each index
    predicted: Ints | None = None  #: the selection as predicted one layer ahead
    prompt_mass: Floats | None = None  #: attention mass of all windows per block of the prompt

    def __len__(self) -> int:
        return len(self.steps)


class Trace:
    """A trace in memory: metadata and streams.

    >>> trace = Trace(topk=2, order="rank", sink=0, local=1, model="my-model")
    >>> stream = trace.add("r0", layer=0, prompt_len=100, indices=[[7, 3, 50], [7, 9, 3]])

    ``metadata`` has the fields of trace/FORMAT.md. kvreplay checks them and all rules of the format
    when the trace is written.
    """

    def __init__(self, topk: int, *, order: str = "rank", block_tokens: int = 1, **metadata: Any) -> None:
        given = {"version": 1, "topk": topk, "order": order, "block_tokens": block_tokens} | metadata
        self.metadata: dict[str, Any] = {key: value.item() if isinstance(value, np.generic) else value for key, value in given.items()}
        self.streams: list[Stream] = []

    def __iter__(self) -> Iterator[Stream]:
        return iter(self.streams)

    def __len__(self) -> int:
        return len(self.streams)

    def add(
        self,
        request: str,
        layer: int,
        prompt_len: int,
        indices: ArrayLike | Sequence[ArrayLike],
        *,
        head: int | None = None,
        steps: ArrayLike | None = None,
        scores: ArrayLike | Sequence[ArrayLike] | None = None,
        covered_mass: ArrayLike | None = None,
        attention_mass: ArrayLike | Sequence[ArrayLike] | None = None,
        predicted: ArrayLike | Sequence[ArrayLike] | None = None,
        prompt_mass: ArrayLike | None = None,
    ) -> Stream:
        """Add a stream and return it.

        ``indices``, ``scores``, ``attention_mass`` and ``predicted`` are arrays with a row per step, or
        lists of arrays of any lengths. ``steps`` is 0, 1, … by default.
        """
        if not isinstance(request, str):
            raise TypeError(f"request: {request!r}, expected a text")
        lists = _padded(indices, integers, "indices")
        stream = Stream(
            request,
            operator.index(layer),
            None if head is None else operator.index(head),
            operator.index(prompt_len),
            np.arange(len(lists), dtype=np.int32) if steps is None else _row(steps, integers, "steps"),
            lists,
            None if scores is None else _padded(scores, floats, "scores"),
            None if covered_mass is None else _row(covered_mass, floats, "covered_mass"),
            None if attention_mass is None else _padded(attention_mass, floats, "attention_mass"),
            None if predicted is None else _padded(predicted, integers, "predicted"),
            None if prompt_mass is None else _row(prompt_mass, floats, "prompt_mass"),
        )
        for name in ("steps", "scores", "covered_mass", "attention_mass", "predicted"):
            value = getattr(stream, name)
            if value is not None and len(value) != len(lists):
                raise ValueError(f"{name} has {len(value)} rows, expected {len(lists)} as indices")
        for name in ("scores", "attention_mass"):
            value = getattr(stream, name)
            if value is not None and value.shape != lists.shape:
                raise ValueError(f"{name} has lists of up to {value.shape[1]} values, expected {lists.shape[1]} as indices")
        self.streams.append(stream)
        return stream

    def table(self) -> pa.Table:
        """Return the columns of the format as an Arrow table, with the metadata."""
        if not self.streams:
            raise ValueError("the trace has no streams: call add first")
        streams = sorted(self.streams, key=lambda s: (s.request.encode(), s.layer, -1 if s.head is None else s.head))
        optional = [name for name in _OPTIONAL if any(getattr(s, name) is not None for s in streams)]
        longest = max(s.indices.shape[1] for s in streams)
        wanted = schema(*(_COLUMN.get(name, name) for name in optional), metadata={"candidates": longest} | self.metadata)
        return pa.Table.from_batches([_batch(s, wanted) for s in streams], wanted)

    def write(self, path: str | os.PathLike[str], *, score_bits: int | None = None) -> None:
        """Write a Parquet file. kvreplay checks every rule of the format first.

        Scores and masses keep ``score_bits`` bits of mantissa: as many as the metadata state, otherwise 10.
        ``kvreplay.Error`` names the stream and the step that break a rule.
        """
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "trace.arrow"
            columns = self.table()
            with pa.OSFile(str(file), "wb") as sink, pa.ipc.new_file(sink, columns.schema) as writer:
                writer.write_table(columns)
            bits = self.metadata.get("score_mantissa_bits") if score_bits is None else score_bits
            run("import", file, "-o", path, *([] if bits is None else [f"--score-bits={bits}"]))

    @classmethod
    def load(cls, *recordings: str | os.PathLike[str], **options: Any) -> Trace:
        """Read recordings by ``kvreplay import``: SGLang's JSON, npz, JSON lines, Arrow or Parquet.

        ``options`` are flags of the command, such as ``entry_bytes=656``.
        """
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "trace.parquet"
            run("import", *recordings, "-o", file, *flags(options))
            return cls.read(file)

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Trace:
        """Read a Parquet file. kvreplay checks every rule of the format first."""
        found = run("validate", path, fails=True)
        if found.returncode:
            raise Error(found.stdout.strip() or found.stderr.strip())
        columns = pq.read_table(path)
        metadata = json.loads((pq.read_schema(path).metadata or {})[KEY])
        trace = cls(**{key: value for key, value in metadata.items() if key != "version"})
        trace.streams = list(_streams(columns.combine_chunks()))
        return trace


#: Optional attributes of Stream, and the columns that are named differently.
_OPTIONAL = ("scores", "covered_mass", "attention_mass", "predicted", "prompt_mass")
_COLUMN = {"predicted": "predicted_indices"}


def canonical(metadata: dict[str, Any]) -> str:
    """Return the canonical JSON of metadata, as trace/FORMAT.md defines it."""
    return json.dumps(metadata, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def schema(*optional: str, metadata: dict[str, Any] | None = None) -> pa.Schema:
    """Return the Arrow schema of a trace with some optional columns, and the metadata if given."""
    ints, floats = (pa.list_(pa.field("element", t, nullable=False)) for t in (pa.int32(), pa.float32()))
    fields = [("request_id", pa.string()), ("layer_id", pa.int32()), ("head", pa.int32()), ("prompt_len", pa.int32())]
    fields += [("step", pa.int32()), ("seq_len", pa.int32()), ("topk_indices", ints)]
    more = {"covered_mass": pa.float32(), "scores": floats, "attention_mass": floats, "predicted_indices": ints, "prompt_mass": floats}
    fields += [(name, type_) for name, type_ in more.items() if name in optional]
    return pa.schema(
        [pa.field(name, type_, nullable=name in ("head", "prompt_mass")) for name, type_ in fields],
        metadata=None if metadata is None else {KEY: canonical(metadata).encode()},
    )


def ragged(padded: NDArray[Any], used: NDArray[np.bool_], type_: pa.DataType) -> pa.ListArray:
    """Return the used values of a padded array as one list per row."""
    offsets = np.zeros(len(padded) + 1, dtype=np.int32)
    np.cumsum(used.sum(-1), out=offsets[1:])
    return pa.ListArray.from_arrays(pa.array(offsets), pa.array(padded[used]), type=type_)


def first_row(values: Floats | None, rows: int, type_: pa.DataType) -> pa.Array:
    """Return a column of rows lists, of which only the first has values."""
    return pa.array([values] + [None] * (rows - 1), type=type_)


def floats(values: object, name: str) -> Floats:
    """Return values as an array of float32, rounded. It refuses texts and complex numbers."""
    given = np.asarray(values)
    if not np.can_cast(given.dtype, np.float32, "same_kind"):
        raise TypeError(f"{name}: an array of {given.dtype}, expected numbers")
    return given.astype(np.float32, copy=False)


_Convert = Callable[[object, str], NDArray[Any]]


def _row(values: object, convert: _Convert, name: str) -> NDArray[Any]:
    """Return a list of numbers as an array."""
    out = convert(values, name)
    if out.ndim != 1:
        raise ValueError(f"{name}: {out.ndim} dimensions, expected one list of numbers")
    return np.ascontiguousarray(out)


def _padded(lists: Any, convert: _Convert, name: str) -> NDArray[Any]:
    """Return lists of any lengths as a padded array. Integers have their padding only behind the last one."""
    if isinstance(lists, np.ndarray) and lists.ndim == 2:
        out = np.ascontiguousarray(convert(lists, name))
    else:
        rows = [_row(one, convert, f"{name} of row {i}") for i, one in enumerate(lists)]
        longest, type_ = max(map(len, rows), default=0), convert([], name).dtype
        out = np.full((len(rows), longest), PADDING if type_ == np.int32 else 0, type_)
        for row, one in zip(out, rows, strict=True):
            row[: len(one)] = one
    if out.dtype == np.int32:
        gaps = np.argwhere((out[:, :-1] == PADDING) & (out[:, 1:] != PADDING))
        if len(gaps):
            raise ValueError(f"{name} of row {gaps[0][0]}: {PADDING} at place {gaps[0][1]} is before a block, expected padding only at the end")
    return out


def _batch(s: Stream, columns: pa.Schema) -> pa.RecordBatch:
    """Return the rows of a stream."""
    n, used = len(s), s.indices != PADDING

    def same(value: Any, type_: pa.DataType) -> pa.Array:
        return pa.nulls(n, type_) if value is None else pa.repeat(pa.scalar(value, type_), n)

    def column(name: str, type_: pa.DataType) -> pa.Array:
        match name:
            case "request_id" | "layer_id" | "head":
                return same(getattr(s, name.removesuffix("_id")), type_)
            case "prompt_len":
                return same(s.prompt_len, type_)
            case "step":
                return pa.array(s.steps)
            case "seq_len":
                return pa.array(s.prompt_len + s.steps + np.int32(1))
            case "topk_indices":
                return ragged(s.indices, used, type_)
            case "prompt_mass":
                return first_row(s.prompt_mass, n, type_)
        value = getattr(s, name.removesuffix("_indices"))
        if value is None:
            raise ValueError(f"stream {s.request}, layer {s.layer}, head {s.head} has no {name}, but others have: expected all or none")
        if name == "predicted_indices":
            return ragged(value, value != PADDING, type_)
        return pa.array(value) if name == "covered_mass" else ragged(value, used, type_)

    return pa.RecordBatch.from_arrays([column(f.name, f.type) for f in columns], schema=columns)


def _streams(columns: pa.Table) -> Iterator[Stream]:
    """Cut the rows of a valid trace into streams."""

    def flat(name: str) -> NDArray[Any]:
        if not _present(columns, name):
            return np.full(len(columns), -1, np.int32)
        return np.asarray(columns[name].combine_chunks().fill_null(-1))

    request = columns["request_id"].combine_chunks().dictionary_encode()
    keys = [np.asarray(request.indices), flat("layer_id"), flat("head")]
    new = np.zeros(len(columns), bool)
    new[0] = True
    for key in keys:
        new[1:] |= key[1:] != key[:-1]
    bounds = [*np.flatnonzero(new).tolist(), len(columns)]
    steps, prompt, covered = flat("step"), flat("prompt_len"), flat("covered_mass") if _present(columns, "covered_mass") else None
    lists = {name: _Lists(columns[name]) for name in ("topk_indices", "scores", "attention_mass", "predicted_indices", "prompt_mass") if _present(columns, name)}

    def of(name: str, a: int, b: int, fill: float) -> NDArray[Any] | None:
        return lists[name].padded(a, b, fill) if name in lists else None

    for a, b in zip(bounds, bounds[1:], strict=False):
        mass = of("prompt_mass", a, a + 1, 0)
        indices = of("topk_indices", a, b, PADDING)
        assert indices is not None
        yield Stream(
            request.dictionary[int(keys[0][a])].as_py(),
            int(keys[1][a]),
            None if keys[2][a] < 0 else int(keys[2][a]),
            int(prompt[a]),
            steps[a:b],
            indices,
            of("scores", a, b, 0),
            None if covered is None else covered[a:b],
            of("attention_mass", a, b, 0),
            of("predicted_indices", a, b, PADDING),
            None if mass is None else mass[0],
        )


def _present(columns: pa.Table, name: str) -> bool:
    """Report whether a column has values."""
    return name in columns.column_names and bool(columns[name].null_count < len(columns))


class _Lists:
    """A column of lists. Null is an empty list."""

    def __init__(self, column: pa.ChunkedArray) -> None:
        lists = column.combine_chunks().fill_null([])
        self.offsets = np.asarray(lists.offsets)
        self.values = np.asarray(lists.values)

    def padded(self, a: int, b: int, fill: float) -> NDArray[Any]:
        """Return the lists of rows a to b, without b, in an array padded with fill."""
        offsets = self.offsets[a : b + 1]
        lengths = np.diff(offsets)
        out = np.full((b - a, int(lengths.max())), fill, self.values.dtype)
        out[np.arange(out.shape[1]) < lengths[:, None]] = self.values[offsets[0] : offsets[-1]]
        return out

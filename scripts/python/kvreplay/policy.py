"""The policy's side of the protocol: policies/external/PROTOCOL.md in the repository."""

from __future__ import annotations

import copy
import hashlib
import importlib.util
import json
import os
import struct
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import BinaryIO, ClassVar

import numpy as np
from numpy.typing import NDArray

Blocks = NDArray[np.int32]

#: The version of the protocol.
PROTOCOL = 1

#: The variable that names a policy while its file is imported. A replay by it would import it again and again.
LOADING = "KVREPLAY_LOADING"


@dataclass(frozen=True, slots=True)
class Scope:
    """The cache of a stream. Block ids are 0 … blocks-1."""

    blocks: int
    capacity: int  # blocks that may stay between steps, without pinned ones
    steps: int  # of the stream, prompt windows included
    windows: int  # prompt windows: t runs from -windows to steps-windows-1
    demand: int  # the largest number of demanded blocks of a step
    seed: int  # the only source of randomness
    updates: int  # updates of each decode step: 1, or in a pool one for each stream


class Step:
    """The changes of a step. Lists are ascending arrays of block ids, and valid until the next step.

    ``offered`` became resident without a fetch. ``hit`` and ``miss`` entered the demand and were
    resident or not. ``exit`` left the demand. ``passed`` are demanded blocks that the engine drops.
    The other lists are empty unless ``Policy.needs`` names them.
    """

    __slots__ = ("t", "demand", "offered", "hit", "miss", "exit", "passed", "candidates", "members", "picked", "list", "scores")

    t: int
    demand: int
    offered: Blocks
    hit: Blocks
    miss: Blocks
    exit: Blocks
    passed: Blocks
    candidates: Blocks
    members: Blocks
    picked: Blocks
    list: Blocks
    scores: NDArray[np.float32]


class Policy:
    """A cache policy. Subclasses define ``reset``, ``update`` and ``evict``.

    The set E has the resident blocks outside the demand. The engine keeps it, and a policy mirrors it:
    E ← (((E ∪ offered) without hit) ∪ exit) without victims.
    """

    #: Further lists of Step: candidates, candidates?, demand, picked, scores.
    needs: ClassVar[Sequence[str]] = ()

    #: Streams that kvreplay may replay in turn, each with a copy of the policy. More than 1 is faster. It is
    #: right if all state of a stream is in self. Copies are made before the first reset.
    streams: ClassVar[int] = 1

    def reset(self, scope: Scope) -> None:
        """Forget everything and start a stream."""
        raise NotImplementedError

    def update(self, step: Step) -> None:
        """Take note of the changes of a step."""
        raise NotImplementedError

    def evict(self, n: int) -> Blocks | Sequence[int]:
        """Return at least n distinct members of E and forget them. It is called if n > 0."""
        raise NotImplementedError


class Queue:
    """Block ids in the order of their insertion. All operations take arrays."""

    def __init__(self, blocks: int) -> None:
        self._place = np.full(blocks, -1, np.int64)  # of each id in _ids, -1 outside
        self._ids = np.empty(1 << 12, np.int32)
        self._head = self._end = 0

    def push(self, blocks: Blocks) -> None:
        """Append ids that are not in the queue."""
        n = len(blocks)
        if n == 0:
            return
        if self._end + n > len(self._ids):
            alive = self._ids[self._head : self._end]
            alive = alive[self._place[alive] == np.arange(self._head, self._end)]
            self._ids = np.empty(max(len(self._ids), 2 * (len(alive) + n)), np.int32)
            self._ids[: len(alive)] = alive
            self._place[alive] = np.arange(len(alive))
            self._head, self._end = 0, len(alive)
        end = self._end + n
        self._ids[self._end : end] = blocks
        self._place[blocks] = np.arange(self._end, end)
        self._end = end

    def remove(self, blocks: Blocks) -> None:
        """Remove ids."""
        self._place[blocks] = -1

    def pop(self, n: int) -> Blocks:
        """Remove the n first ids and return them, or all if there are fewer."""
        if n <= 0:
            return self._ids[:0]
        look = 2 * n + 64  # removed ids are passed over
        while True:
            behind = min(self._head + look, self._end)
            ids = self._ids[self._head : behind]
            alive = (self._place[ids] == np.arange(self._head, behind)).nonzero()[0]
            if len(alive) >= n or behind == self._end:
                break
            look *= 4
        first: Blocks = ids[alive[:n]]
        self._head = self._head + int(alive[n - 1]) + 1 if len(alive) >= n else behind
        self._place[first] = -1
        return first


def integers(values: object, name: str) -> Blocks:
    """Return values as an array of int32. A conversion by NumPy alone would cut fractions and wrap large numbers."""
    given = np.asarray(values)
    if given.size and given.dtype.kind not in "iu":
        kind = f"an array of {given.dtype}" if given.ndim else type(values).__name__
        raise TypeError(f"{name}: {kind}, expected an array or a list of integers")
    out = given.astype(np.int32, copy=False)
    if given.dtype != np.int32 and np.count_nonzero(out != given):
        raise ValueError(f"{name}: {given[out != given][0]}, expected {-(1 << 31)} to {(1 << 31) - 1}")
    return out


_EMPTY: Blocks = np.empty(0, np.int32)
_NO_SCORES: NDArray[np.float32] = np.empty(0, np.float32)

# The optional lists in the order of the protocol, with the needs that ask for them.
_COLUMNS = (
    ("candidates", ("candidates", "candidates?")),
    ("members", ("demand", "picked")),
    ("picked", ("picked",)),
    ("list", ("scores",)),
)


def serve(policy: Policy) -> None:
    """Answer kvreplay on stdin and stdout until it closes stdin. Prints go to stderr."""
    source = os.fdopen(os.dup(0), "rb", buffering=0)
    answers = os.fdopen(os.dup(1), "wb", buffering=1 << 16)
    os.dup2(2, 1)  # a print must not look like an answer
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)  # an input must not take a message
    os.close(nothing)
    try:
        _answer(policy, source, answers)
    except BrokenPipeError:
        pass


def _send(answers: BinaryIO, kind: bytes, payload: bytes) -> None:
    answers.write(struct.pack("<Ic", len(payload) + 1, kind) + payload)


def _messages(source: BinaryIO, answers: BinaryIO) -> Iterator[tuple[int, bytes]]:
    """Yield the type and the content of each message. All answers are sent before a wait for more messages."""
    unpack, data, at = struct.Struct("<IB").unpack_from, b"", 0
    while True:
        while len(data) - at >= 5:
            length, kind = unpack(data, at)
            if len(data) - at < 4 + length:
                break
            at += 4 + length
            yield kind, data[at - length + 1 : at]
        answers.flush()
        parts = [data[at:]]
        missing = 5 - len(parts[0]) if len(parts[0]) < 5 else unpack(parts[0])[0] + 4 - len(parts[0])
        while missing > 0:  # a long message arrives in many parts
            part = source.read(1 << 16)
            if not part:
                return
            parts.append(part)
            missing -= len(part)
        data, at = b"".join(parts), 0


def _new_step() -> Step:
    step = Step()
    step.candidates = step.members = step.picked = step.list = _EMPTY
    step.scores = _NO_SCORES
    return step


def _answer(policy: Policy, source: BinaryIO, answers: BinaryIO) -> None:
    if isinstance(policy.needs, str):
        raise TypeError(f'needs is the text "{policy.needs}", expected a tuple, as in ("scores",)')
    optional = [name for name, asked in _COLUMNS if set(asked) & set(policy.needs)]
    with_scores = "scores" in policy.needs
    streams = [policy] + [copy.deepcopy(policy) for _ in range(policy.streams - 1)]
    steps = [_new_step() for _ in streams]
    step, lengths = steps[0], struct.Struct(f"<{7 + len(optional)}i")
    for kind, payload in _messages(source, answers):
        if kind == 0x55:  # U, the lists of a step
            numbers = np.frombuffer(payload, np.int32)
            step.t, step.demand, offered, hit, miss, exits, passed, *more = lengths.unpack_from(payload)
            at = 7 + len(more)
            step.offered = numbers[at : (at := at + offered)] if offered else _EMPTY
            step.hit = numbers[at : (at := at + hit)] if hit else _EMPTY
            step.miss = numbers[at : (at := at + miss)] if miss else _EMPTY
            step.exit = numbers[at : (at := at + exits)] if exits else _EMPTY
            step.passed = numbers[at : (at := at + passed)] if passed else _EMPTY
            for name, n in zip(optional, more, strict=True):
                setattr(step, name, numbers[at : (at := at + n)])
            if with_scores:
                step.scores = numbers[at:].view(np.float32)
            policy.update(step)
        elif kind == 0x45:  # E, the number of victims
            (n,) = struct.unpack("<I", payload)
            victims = integers(policy.evict(n), "evict returned")
            if victims.ndim != 1:
                raise ValueError(f"evict returned {victims.ndim} dimensions, expected an array or a list of block ids")
            _send(answers, b"V", victims.tobytes())
        elif kind == 0x53:  # S, the stream of the messages that follow
            (at,) = struct.unpack("<I", payload)
            policy, step = streams[at], steps[at]
        elif kind == 0x52:  # R, a stream begins
            policy.reset(Scope(**json.loads(payload)))
        elif kind == 0x48:  # H, kvreplay greets
            hello = {"protocol": PROTOCOL, "needs": list(policy.needs), "version": version(type(policy)), "streams": policy.streams}
            _send(answers, b"H", json.dumps(hello).encode())
        else:
            raise RuntimeError(f"kvreplay sent a message of the unknown type {kind:#x}: update the package kvreplay")


def version(policy: type[Policy]) -> str:
    """Return a digest of the file of a policy and of the modules that it imports from the same folder."""
    file = getattr(sys.modules[policy.__module__], "__file__", None)
    if file is None:
        return ""
    folder = os.path.dirname(os.path.abspath(file)) + os.sep
    paths = {os.path.abspath(str(getattr(m, "__file__", None))) for m in list(sys.modules.values())}
    digest = hashlib.sha256()
    for path in sorted(p for p in paths if p.startswith(folder) and "site-packages" not in p and p.endswith(".py")):
        with open(path, "rb") as source:
            text = source.read()
        digest.update(f"{os.path.relpath(path, folder)} {len(text)}\n".encode() + text)
    return digest.hexdigest()[:16]


def load(target: str) -> type[Policy]:
    """Return the class that FILE.py:CLASS names. It may import its neighbours, as with python FILE.py."""
    path, _, name = target.rpartition(":")
    sys.path.insert(0, os.path.dirname(os.path.abspath(path)))
    spec = importlib.util.spec_from_file_location("kvreplay_policy", path)
    if not path.endswith(".py") or spec is None or spec.loader is None:
        raise SystemExit(f"{target}: expected FILE.py:CLASS")
    module = importlib.util.module_from_spec(spec)
    sys.modules["kvreplay_policy"] = module
    os.environ[LOADING] = target
    try:
        spec.loader.exec_module(module)
    finally:
        del os.environ[LOADING]
    found = getattr(module, name, None)
    if not isinstance(found, type) or not issubclass(found, Policy):
        raise SystemExit(f"{path} has no subclass of kvreplay.Policy named {name}")
    return found

"""Tests of the package, with the program that KVREPLAY names."""

import io
import json
import os
import re
import signal
import struct
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import polars
import pytest

import kvreplay
from kvreplay.policy import _answer, version

ROOT = Path(__file__).parents[3]
TRACE = ROOT / "datasets/bundled/smollm2_niah_1k_sglang.parquet"
LRU = ROOT / "scripts/python/examples/lru.py"


def test_replay_is_a_data_frame():
    rows = kvreplay.replay(TRACE, ["lru", "opt", f"{LRU}:LRU"], ["1.5x", "2x"])
    assert len(rows) == 6 and set(rows["policy"]) == {"lru", "opt", f"{LRU}:LRU"}
    misses = rows.pivot(index="capacity", columns="policy", values="misses")
    assert (misses["lru"] == misses[f"{LRU}:LRU"]).all() and (misses["opt"] < misses["lru"]).all()


def test_needs_is_no_text():
    class Forgotten(Recorder):
        needs = "scores"

    with pytest.raises(TypeError, match="expected a tuple"):
        _answer(Forgotten(), io.BytesIO(), io.BytesIO())


def test_board_time_and_comparison(tmp_path):
    trace = ROOT / "datasets/bundled/smollm2_multi_news_8k.parquet"
    rows = tmp_path / "rows"
    kvreplay.replay(trace, ["lru", "opt", "fifo"], ["2x"], per="request", profile=True, out=rows)
    board = kvreplay.leaderboard(rows)
    assert {"lru", "fifo", "opt"} <= set(board["policy"])
    assert len(kvreplay.time(rows, policy="lru", hardware="h100", batch=4, layer_map="stretch")) > 0
    plan = kvreplay.plan(rows, policy="lru", hardware="h100", layer_map="stretch")
    assert "lru" in set(plan["policy"]) and (plan["tokens_per_s_gpu"] > 0).all()
    counted = kvreplay.replay(trace, ["lru", "fifo"], ["2x"]).set_index("policy")["misses"]
    compared = kvreplay.compare("fifo", "lru", rows)
    assert compared["capacity"].tolist() == ["2x", ""] and compared["misses_a"].tolist() == [counted["fifo"]] * 2
    assert compared["ratio_value"][0] == pytest.approx(counted["fifo"] / counted["lru"])


def test_texts_stay_texts(tmp_path):
    """Requests keep their names, and each text of metrics/ROWS.md is one."""
    names = ["007", "1e5", "NA", "true", "2024-01-01", "=1+1", "'=1", "'-5", "-5"]
    trace = kvreplay.Trace(topk=3, order="index", sink=0, local=1)
    for name in names:
        trace.add(name, 0, 20, np.arange(12).reshape(4, 3))
    trace.write(tmp_path / "t.parquet")
    rows = kvreplay.replay(tmp_path / "t.parquet", "lru", "2", per="request")
    assert sorted(rows["request_id"]) == sorted(names) and set(rows["capacity"]) == {"2"}
    lines = (ROOT / "metrics/ROWS.md").read_text().splitlines()
    texts = [name for line in lines if re.match(r"\| `.*\| text\b", line) for name in re.findall("`(.*?)`", line.split("|")[1])]
    assert "request_id" in texts and set(texts) < set(rows.columns)
    assert [name for name in texts if rows[name].dtype != "str"] == []


def test_wrong_arguments_are_refused():
    with pytest.raises(kvreplay.Error, match="lru.py: expected the class of the policy too"):
        kvreplay.replay(TRACE, [str(LRU)])
    with pytest.raises(kvreplay.Error, match="nowhere.py:LRU: no file /"):
        kvreplay.replay(TRACE, ["nowhere.py:LRU"])
    namesakes = [kvreplay.policy.load(f"{LRU}:LRU"), type("LRU", (kvreplay.Policy,), {"__module__": __name__})]
    with pytest.raises(ValueError, match="several classes are named LRU"):
        kvreplay.replay(TRACE, namesakes)
    with pytest.raises(ValueError, match="policies is empty"):
        kvreplay.replay(TRACE, [])
    with pytest.raises(TypeError, match=r"capacities: \[2.0\], expected texts"):
        kvreplay.replay(TRACE, ["lru"], [2.0])


def test_capture_names_its_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(kvreplay.Error, match=r"capture needs \w+: install it, as in pip install './scripts/python\[capture\]'"):
        kvreplay.capture("model", ["prompt"])


def test_a_file_does_not_replay_itself(tmp_path):
    """A replay at the top level of a policy's file would run again in each program that it starts."""
    file = tmp_path / "mine.py"
    file.write_text(LRU.read_text().replace("if __name__", f"rows = kvreplay.replay({str(TRACE)!r}, [LRU], ['2x'])\nif __name__"))
    environment = dict(os.environ, PYTHONPATH=str(ROOT / "scripts/python"))
    done = subprocess.run([sys.executable, file], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300, env=environment)
    assert done.returncode == 1 and "put the replay under if __name__ == '__main__'" in done.stderr, done.stderr


def test_one_table_serves_pandas_and_polars():
    arguments = ("replay", TRACE, "--policy=lru", "--capacity=2x")
    columns = kvreplay.arrow(*arguments)
    frame, other = kvreplay.table(*arguments), polars.from_arrow(columns)
    assert frame["misses"].tolist() == other["misses"].to_list() == columns["misses"].to_pylist()
    assert frame["misses"].dtype == np.int64 and frame["options"].tolist() == [""]


def test_errors_are_the_programs():
    with pytest.raises(kvreplay.Error, match="no such file"):
        kvreplay.replay("nowhere.parquet", ["lru"])
    with pytest.raises(kvreplay.Error, match="has no subclass of kvreplay.Policy named Missing"):
        kvreplay.replay(TRACE, [f"{LRU}:Missing"])


class Recorder(kvreplay.Policy):
    needs = ("candidates", "picked", "scores")

    def reset(self, scope):
        self.scope, self.steps = scope, []

    def update(self, step):
        self.steps.append({name: np.copy(getattr(step, name)).tolist() for name in kvreplay.Step.__slots__})

    def evict(self, n):
        return list(range(n))


def test_an_edit_has_rows_replayed_again(tmp_path):
    """An edit of a neighbour changes the fingerprint, even if it changes no decision."""
    (tmp_path / "mine.py").write_text("from part import LRU\n\n\nclass Mine(LRU):\n    pass\n")
    fingerprints = []
    for more in ("", "", "# an edit\n"):
        (tmp_path / "part.py").write_text((ROOT / "scripts/python/examples/lru.py").read_text() + more)
        rows = kvreplay.replay(TRACE, [f"{tmp_path / 'mine.py'}:Mine"], ["2x"], layers="0", out=tmp_path / "rows")
        fingerprints.append(rows["policy_fingerprint"][0])
    assert fingerprints[0] == fingerprints[1] != fingerprints[2]


def message(kind, payload):
    return struct.pack("<I", len(payload) + 1) + kind + payload


def test_messages():
    scope = {"blocks": 9, "capacity": 4, "steps": 3, "windows": 1, "demand": 2, "seed": 2**64 - 1, "updates": 1}
    lists = [[1], [2, 3], [], [4], [], [7, 8], [2, 5], [1, 1], [5, 2, 7]]
    numbers = [-1, 2, *map(len, lists), *(x for one in lists for x in one)]
    step = struct.pack(f"<{len(numbers)}i", *numbers) + struct.pack("<3f", 0.5, 0.25, 0.125)
    sent = message(b"H", b'{"protocol": 1}') + message(b"R", json.dumps(scope).encode()) + message(b"U", step) + message(b"E", struct.pack("<I", 2))
    policy, answers = Recorder(), io.BytesIO()
    _answer(policy, io.BytesIO(sent), answers)
    hello = json.dumps({"protocol": 1, "needs": ["candidates", "picked", "scores"], "version": version(Recorder), "streams": 1}).encode()
    assert answers.getvalue() == message(b"H", hello) + message(b"V", struct.pack("<2i", 0, 1))
    assert policy.scope == kvreplay.Scope(**scope)
    names = ["offered", "hit", "miss", "exit", "passed", "candidates", "members", "picked", "list"]
    assert policy.steps == [{"t": -1, "demand": 2, **dict(zip(names, lists, strict=True)), "scores": [0.5, 0.25, 0.125]}]


class Parts(io.RawIOBase):
    """An input that arrives in parts. It notes how many bytes of answers were sent before each of them."""

    def __init__(self, parts, answers):
        self.parts, self.answers, self.sent = parts, answers, []

    def read(self, size=-1):
        self.sent.append(len(self.answers.getvalue()))
        return self.parts.pop(0) if self.parts else b""


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (np.array([1.5]), "an array of float64"),
        (np.array([True, False]), "an array of bool"),
        (np.array([(1 << 32) + 3]), "4294967299"),
        (np.array([2**32 - 1], np.uint32), "4294967295"),
        (np.array([[1, 2]]), "2 dimensions"),
        (None, "NoneType"),
        ({1}, "set"),
        (3, "0 dimensions"),
    ],
)
def test_wrong_victims(answer, why):
    class Wrong(kvreplay.Policy):
        def evict(self, n):
            return answer

    answers = io.BytesIO()
    with pytest.raises((TypeError, ValueError), match="evict returned.*" + why):
        _answer(Wrong(), io.BytesIO(message(b"E", struct.pack("<I", 1))), answers)
    assert not answers.getvalue()


def test_streams_in_turn():
    """Each stream has its own copy of the policy, and answers wait for the end of the input that is there."""

    class Counter(kvreplay.Policy):
        streams = 3

        def __init__(self):
            self.calls = 0

        def evict(self, n):
            self.calls += n
            return [self.calls]

    def ask(stream, n):
        return message(b"S", struct.pack("<I", stream)) + message(b"E", struct.pack("<I", n))

    def answer(*blocks):
        return b"".join(message(b"V", struct.pack("<i", x)) for x in blocks)

    first = message(b"E", struct.pack("<I", 1)) + ask(1, 10) + ask(2, 100) + ask(0, 1)
    second = ask(1, 10) + message(b"E", struct.pack("<I", 10))
    answers = io.BytesIO()
    source = Parts([first, second[:3], second[3:20], second[20:]], answers)
    _answer(Counter(), source, answers)
    assert answers.getvalue() == answer(1, 10, 100, 2, 20, 30)
    assert source.sent[:3] == [0, len(answer(1, 10, 100, 2)), len(answer(1, 10, 100, 2))]


def test_queue_is_a_list():
    rng = np.random.default_rng(1)
    queue, model = kvreplay.Queue(300), []
    for _ in range(3000):
        free = np.setdiff1d(np.arange(300), model)
        new = rng.choice(free, min(len(free), rng.integers(0, 40)), replace=False).astype(np.int32)
        queue.push(new)
        model += new.tolist()
        gone = rng.choice(model, rng.integers(0, len(model) // 3 + 1), replace=False) if model else new[:0]
        queue.remove(gone)
        model = [x for x in model if x not in set(gone.tolist())]
        n = int(rng.integers(0, 20))
        assert queue.pop(n).tolist() == model[:n]
        del model[:n]


@pytest.mark.parametrize("name", ["learned.py:Learned", "tree.py:Tree"])
def test_learned_policies_run(name):
    policy = f"{ROOT / 'scripts/python/examples' / name}"
    rows = kvreplay.replay(TRACE, ["random", policy], ["2x"], layers="0").set_index("policy")["misses"]
    assert 0 < rows[policy] < rows["random"]


def test_interrupt_leaves_no_child(tmp_path):
    slow, begun = tmp_path / "slow.py", tmp_path / "begun"
    slow.write_text(LRU.read_text().replace("return self.queue.pop(n)", f"open({str(begun)!r}, 'w'); __import__('time').sleep(0.2); return self.queue.pop(n)"))
    run = subprocess.Popen([kvreplay.program(), "replay", TRACE, "--policy", f"exec:{sys.executable} {slow}", "--capacity", "1x"], stderr=subprocess.PIPE, text=True)
    while not begun.exists():
        assert run.poll() is None
        time.sleep(0.01)
    os.kill(run.pid, signal.SIGINT)
    try:
        run.wait(2)
    except subprocess.TimeoutExpired:
        os.kill(run.pid, signal.SIGINT)  # the second one ends it at once
        run.wait(300)
    end = time.monotonic() + 300  # a child ends soon after kvreplay
    while left := [p for p in Path("/proc").glob("[0-9]*/cmdline") if str(slow).encode() in _read(p)]:
        assert time.monotonic() < end, left
        time.sleep(0.01)
    assert run.returncode != 0


def _read(path):
    try:
        return path.read_bytes()
    except OSError:
        return b""

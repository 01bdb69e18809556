"""Tests of traces, with the program that KVREPLAY names."""

import re
from pathlib import Path

import numpy as np
import pytest

import kvreplay
from kvreplay.program import run

DATA = Path(__file__).parents[3] / "datasets"


def digest(path):
    return re.search(r"sha256:[0-9a-f]{64}", run("validate", path).stdout).group()


@pytest.mark.parametrize("name", ["bundled/smollm2_multi_news_8k", "bundled/smollm2_niah_1k_sglang", "corpus/ahead_repobench_go", "corpus/selectors_qa_text.infinigen"])
def test_what_is_read_is_written(name, tmp_path):
    path = DATA / f"{name}.parquet"
    trace = kvreplay.Trace.read(path)
    assert len(trace) and all(len(s) for s in trace)
    trace.write(tmp_path / "again.parquet")
    assert digest(tmp_path / "again.parquet") == digest(path)


def test_recordings_of_sglang():
    trace = kvreplay.Trace.load(DATA.parent / "trace/importer/testdata/sglang.json.gz", entry_bytes=768, model="SmolLM2-135M-Instruct")
    assert trace.metadata["order"] == "index" and trace.metadata["entry_bytes"] == 768
    assert [s.layer for s in trace] == [0, 1, 2] and all(s.prompt_len == 72 for s in trace)


def test_arrays_come_back(tmp_path):
    rng = np.random.default_rng(1)
    trace = kvreplay.Trace(topk=3, order="rank", sink=0, local=1, selector="mine")
    indices = [rng.permutation(90)[:n] for n in (4, 3, 4)]
    scores = [-np.arange(len(x), dtype=np.float32) for x in indices]
    more = {"covered_mass": [0.5, 0.25, 0.75], "attention_mass": [np.full(len(x), 0.125) for x in indices], "predicted": [[1, 2], [], [3]]}
    trace.add("r1", layer=1, prompt_len=100, indices=indices, steps=[-1, 0, 2], scores=scores, prompt_mass=np.full(100, 0.5), **more)
    trace.add("r1", layer=0, head=2, prompt_len=100, indices=indices, steps=[-1, 0, 2], scores=scores, prompt_mass=np.full(100, 0.5), **more)
    trace.write(tmp_path / "t.parquet")
    first, second = kvreplay.Trace.read(tmp_path / "t.parquet")
    assert (first.request, first.layer, first.head, second.layer, second.head) == ("r1", 0, 2, 1, None)
    wanted = trace.streams[0]
    for name in ("steps", "indices", "scores", "covered_mass", "attention_mass", "predicted", "prompt_mass"):
        np.testing.assert_array_equal(getattr(second, name), getattr(wanted, name), err_msg=name)
    assert second.indices.tolist()[1] == [*indices[1], -1] and second.prompt_len == 100
    assert kvreplay.replay(tmp_path / "t.parquet", ["lru"], ["2x"])["misses"][0] > 0


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"indices": [[1, 1], [2, 3]]}, "twice"),
        ({"indices": [[1, 2], [3, 1000]]}, "1000"),
        ({"scores": [[1, 2], [1, 0.5]]}, "score"),
        ({"steps": [0, 0]}, "step"),
    ],
)
def test_a_wrong_trace_is_refused(change, why, tmp_path):
    trace = kvreplay.Trace(topk=2, order="rank")
    trace.add(**({"request": "r", "layer": 0, "prompt_len": 10, "indices": [[1, 2], [3, 4]]} | change))
    with pytest.raises(kvreplay.Error, match=why):
        trace.write(tmp_path / "t.parquet")
    assert not (tmp_path / "t.parquet").exists()


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"indices": np.array([[1.5, 2], [3, 4]])}, "indices: an array of float64, expected"),
        ({"indices": [[1, 2], [3.7, 4]]}, "indices of row 1: an array of float64"),
        ({"indices": np.array([[1, 2], [3, 4]]) + (1 << 32)}, "indices: 4294967297"),
        ({"indices": np.array([[1, 2], [3, 2**32 - 1]], np.uint32)}, "indices: 4294967295"),
        ({"indices": np.array([[True, False], [False, True]])}, "indices: an array of bool"),
        ({"indices": np.array([[1, 2], [-1, 4]])}, "indices of row 1: -1 at place 0"),
        ({"indices": [1, 2]}, "indices of row 0: 0 dimensions"),
        ({"predicted": [[1.5], [2]]}, "predicted of row 0: an array of float64"),
        ({"steps": [0.5, 1.5]}, "steps: an array of float64"),
        ({"scores": [["2", "1"], ["2", "1"]]}, "scores of row 0: an array of <U1"),
        ({"scores": np.ones((2, 2)) * 1j}, "scores: an array of complex128"),
        ({"covered_mass": np.ones((2, 1))}, "covered_mass: 2 dimensions"),
        ({"layer": 1.5}, "float"),
        ({"prompt_len": "10"}, "str"),
        ({"request": 7}, "request: 7, expected a text"),
    ],
)
def test_a_conversion_changes_no_number(change, why):
    trace = kvreplay.Trace(topk=np.int64(2), order="rank")
    with pytest.raises((TypeError, ValueError), match=why):
        trace.add(**({"request": "r", "layer": 0, "prompt_len": 10, "indices": [[1, 2], [3, 4]]} | change))
    assert len(trace) == 0 and kvreplay.trace.canonical(trace.metadata)


def test_a_file_that_is_no_trace_is_refused(tmp_path):
    for path, why in ((tmp_path / "nowhere.parquet", "no such file"), (Path(__file__), "is not a Parquet file")):
        with pytest.raises(kvreplay.Error, match=why):
            kvreplay.Trace.read(path)


def test_shapes_must_agree():
    trace = kvreplay.Trace(topk=2)
    with pytest.raises(ValueError, match="steps has 1 rows, expected 2 as indices"):
        trace.add("r", 0, 10, [[1, 2], [3, 4]], steps=[0])
    with pytest.raises(ValueError, match="scores has lists of up to 1 values, expected 2"):
        trace.add("r", 0, 10, [[1, 2], [3, 4]], scores=[[1], [2]])
    with pytest.raises(ValueError, match="no streams"):
        trace.table()
    trace.add("r", 0, 10, [[1]], scores=[[1]])
    trace.add("s", 0, 10, [[1]])
    with pytest.raises(ValueError, match="stream s, layer 0, head None has no scores, but others have"):
        trace.table()

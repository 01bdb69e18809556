"""The command from end to end, on a tiny model."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyarrow as pa
import pytest

from kvreplay.captures import memory, run as running
from kvreplay.captures.cli import main

FLAGS = ["--quiet", "--threads", "1", "--topk", "8", "--windows", "4", "--local", "6", "--device", "cpu"]


@pytest.fixture
def capture(llama, workload, tmp_path, capsys):
    """Runs the command; returns its status, standard output and error."""
    def call(*more, out="x.arrow", work=workload):
        status = main(["--model", str(llama), "--workload", str(work), "--out", str(tmp_path / out), *FLAGS, *more])
        return status, *capsys.readouterr()
    return call


def load(path):
    with pa.memory_map(str(path)) as source:
        table = pa.ipc.open_file(source).read_all()
    return table, json.loads(table.schema.metadata[b"kvreplay"])


def test_file(capture, tmp_path, workload):
    status, out, _ = capture("--eos", "never", "--licence", "Apache-2.0", "--note", "a=b")
    assert status == 0 and "exact" in out and "1.0000" in out
    table, meta = load(tmp_path / "x.arrow")
    assert {k: meta[k] for k in ("version", "order", "topk", "candidates", "block_tokens", "sink", "local", "selector", "reducer", "score_kind", "licence", "entry_bytes", "decoding")} == {
        "version": 1, "order": "rank", "topk": 8, "candidates": 10, "block_tokens": 1, "sink": 4, "local": 6, "selector": "exact", "reducer": "max",
        "score_kind": "softmax", "licence": "Apache-2.0", "entry_bytes": 2 * 8 * 2, "decoding": "greedy, end-of-sequence never chosen"}
    assert meta["notes"]["a"] == "b" and meta["notes"]["weights"].startswith("sha256:") and meta["notes"]["prompt.named"].startswith("78 tokens")
    rows = table.to_pylist()
    prompts = {"work-0": (61, 128), "named": (78, 4), "vt-2": (70, 9)}  # tokens and steps. The chat template adds three
    assert len(rows) == sum(3 * 2 * (4 + steps) for _, steps in prompts.values())
    keys = [(r["request_id"], r["layer_id"], r["head"], r["step"]) for r in rows]
    assert len(set(keys)) == len(keys)
    for r in rows:
        tokens, steps = prompts[r["request_id"]]
        assert r["prompt_len"] == tokens and -4 <= r["step"] < steps and r["seq_len"] == tokens + r["step"] + 1
        assert len(set(r["topk_indices"])) == 10 and all(4 <= i < r["seq_len"] - 6 for i in r["topk_indices"])
        assert r["scores"] == sorted(r["scores"], reverse=True) and 0 < r["covered_mass"] <= 1
        assert (r["prompt_mass"] is not None) == (r["step"] == -4)
        if r["prompt_mass"]:
            assert len(r["prompt_mass"]) == tokens and abs(sum(r["prompt_mass"]) - 4) < 1e-4  # one for each window
    generated = [json.loads(line) for line in (tmp_path / "x.generated.jsonl").read_text().splitlines()]
    assert [(g["id"], len(g["continuation_ids"])) for g in generated] == [(k, s) for k, (_, s) in prompts.items()]
    assert generated[1]["task"] == "niah_single_1"
    assert sorted(p.name for p in tmp_path.iterdir() if p.name.startswith(("x", "."))) == ["x.arrow", "x.generated.jsonl"]


def test_selectors_share_a_pass(capture, tmp_path):
    names = ["exact", "quest:page=4", "shadowkv:chunk=4,outliers=2", "retroinfer", "kvdrive", "pqcache:bits=3", "magicpig:K=4,L=20", "infinigen"]
    status, out, _ = capture("--steps", "3", "--predict", "--selector", *names)
    assert status == 0 and len(out.splitlines()) == 9
    exact, _ = load(tmp_path / "x.exact.arrow")
    assert "attention_mass" not in exact.column_names
    for name, block in {"quest-page4": 4, "shadowkv-chunk4-outliers2": 4, "retroinfer": 1, "kvdrive": 1, "pqcache-bits3": 1, "magicpig-K4-L20": 1, "infinigen": 1}.items():
        table, meta = load(tmp_path / f"x.{name}.arrow")
        assert table.num_rows == exact.num_rows and meta["block_tokens"] == block and meta["topk"] == 8 // block and meta["candidates"] == -(-10 // block)
        assert 0 < float(meta["notes"]["exact.recall"]) < 1 and meta["notes"]["attention"].startswith("full attention")
        for r in table.to_pylist():
            assert 1 <= len(r["topk_indices"]) <= meta["candidates"]
            assert len(r["topk_indices"]) == len(set(r["topk_indices"])) == len(r["scores"]) == len(r["attention_mass"])
            assert r["scores"] == sorted(r["scores"], reverse=True)
            assert abs(sum(r["attention_mass"]) - r["covered_mass"]) < 1e-5
            assert bool(r["predicted_indices"]) == (r["layer_id"] > 0)
            last = -(-(r["seq_len"]) // block)
            assert all(0 <= i < last for i in r["topk_indices"] + r["predicted_indices"])


def test_columns_of_some_selectors(capture, tmp_path):
    selectors = ["--steps", "3", "--selector", "exact", "quest:page=4"]
    assert capture(*selectors, "--scores", "quest:page=4", "--prompt-mass", "exact")[0] == 0
    columns = {name: set(load(tmp_path / f"x.{name}.arrow")[0].column_names) & {"scores", "attention_mass", "prompt_mass"} for name in ("exact", "quest-page4")}
    assert columns == {"exact": {"prompt_mass"}, "quest-page4": {"scores", "attention_mass"}}
    assert capture(*selectors, "--no-scores", "--no-prompt-mass", out="y.arrow")[0] == 0
    assert not {"scores", "attention_mass", "prompt_mass"} & set(load(tmp_path / "y.exact.arrow")[0].column_names)
    status, _, err = capture(*selectors, "--scores", "quest", out="z.arrow")
    assert status == 1 and "--scores quest: not in --selector" in err and "quest:page=4" in err


def test_recall_at_longer_budgets(capture, tmp_path):
    """With lists of 4 K, recall is measured at K, 2 K and 4 K, here against sets of tokens."""
    assert capture("--steps", "3", "--candidates", "32", "--selector", "exact", "quest:page=4")[0] == 0
    (exact, _), (quest, meta) = load(tmp_path / "x.exact.arrow"), load(tmp_path / "x.quest-page4.arrow")
    for tokens, key in ((8, "exact.recall"), (16, "exact.recall.16"), (32, "exact.recall.32")):
        hits = total = 0
        for e, q in zip(exact.to_pylist(), quest.to_pylist()):
            if e["step"] >= 0:
                wanted = e["topk_indices"][:tokens]
                hits += len(set(wanted) & {4 * b + i for b in q["topk_indices"][: tokens // 4] for i in range(4)})
                total += len(wanted)
        assert meta["notes"][key] == f"{hits / total:.4f}"


def test_same_bytes_again_and_after_interruption(capture, tmp_path, monkeypatch):
    flags = ["--decode", "sample", "--eos", "never", "--steps", "5", "--selector", "exact", "quest:page=4"]
    for out in ("x.arrow", "y.arrow"):
        assert capture(*flags, out=out)[0] == 0
    done = []
    def stop(self, *args, keep=running.Capture._keep):
        keep(self, *args)
        done.append(1)
        if len(done) == 2:
            raise KeyboardInterrupt
    with monkeypatch.context() as patch:
        patch.setattr(running.Capture, "_keep", stop)
        status, _, err = capture(*flags, out="z.arrow")
    assert status == 130 and "stopped with 2 of 3 requests; --resume goes on" in err
    table, _ = load(tmp_path / "z.exact.arrow")
    assert set(table["request_id"].to_pylist()) == {"work-0", "named"}  # a valid file of the finished ones
    status, _, err = capture(*flags, out="z.arrow")
    assert status == 1 and "--resume goes on with it" in err
    status, _, err = capture(*flags[:-1], "quest", "--resume", out="z.arrow")
    assert status == 1 and "another selectors" in err
    assert capture(*flags, "--resume", out="z.arrow")[0] == 0
    for end in (".exact.arrow", ".quest-page4.arrow", ".generated.jsonl"):
        x = (tmp_path / f"x{end}").read_bytes()
        assert x == (tmp_path / f"y{end}").read_bytes() == (tmp_path / f"z{end}").read_bytes()
    assert not (tmp_path / "z.parts").exists()


def test_ctrl_c(llama, workload, tmp_path):
    """After a real signal, the exit status is 130, and files under final names are whole."""
    for name in "abcdefgh":  # until the signal arrives before the end
        process = subprocess.Popen([sys.executable, "-m", "kvreplay.captures", "--model", str(llama), "--workload", str(workload), "--out", str(tmp_path / f"{name}.arrow"),
                                    *FLAGS, "--steps", "400", "--eos", "never"], cwd=Path(__file__).parents[2] / "python", stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        while not list(tmp_path.glob(f"{name}.parts/[0-9]*.json")) and process.poll() is None:
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=600)
        if process.returncode != 0:
            break
    assert process.returncode == 130 and "--resume goes on" in err, err
    assert load(tmp_path / f"{name}.arrow")[0].num_rows >= 3 * 2 * 404


def test_forced(capture, tmp_path):
    """A capture forced along its own continuation gives the same lists."""
    assert capture("--decode", "sample", "--eos", "never", "--steps", "6")[0] == 0
    assert capture("--decode", "forced", out="y.arrow", work=tmp_path / "x.generated.jsonl")[0] == 0
    (x, _), (y, meta) = load(tmp_path / "x.arrow"), load(tmp_path / "y.arrow")
    assert meta["decoding"] == "forced along a given continuation" and x.equals(y)
    status, _, err = capture("--decode", "forced", out="z.arrow")
    assert status == 1 and "no continuation" in err


def test_eos_ends_a_request(capture, tmp_path, monkeypatch):
    from kvreplay.captures.decode import Decoding

    def chooser(self, request, forced, ends):
        return lambda step, logits: None if step == 2 or request == "named" else 5
    monkeypatch.setattr(Decoding, "chooser", chooser)
    status, _, err = capture()
    assert status == 0 and "named: the model ended at once" in err
    rows = load(tmp_path / "x.arrow")[0].to_pylist()
    status, _, err = capture("--windows", "0", out="y.arrow")
    assert status == 1 and "request named: nothing to record" in err
    assert {(r["request_id"], r["step"]) for r in rows if r["step"] >= 0} == {(i, s) for i in ("work-0", "vt-2") for s in (0, 1)}


def test_per_layer_and_layers(capture, tmp_path):
    assert capture("--per", "layer", "--layers", "0,2", "--steps", "2", "--limit", "1", "--no-prompt-mass", "--no-scores")[0] == 0
    table, meta = load(tmp_path / "x.arrow")
    assert meta["reducer"] == "mean" and meta["entry_bytes"] == 2 * 8 * 2 * 2
    assert table["head"].null_count == table.num_rows == 2 * 6 and set(table["layer_id"].to_pylist()) == {0, 2}
    assert not {"prompt_mass", "scores", "attention_mass"} & set(table.column_names) and meta["order"] == "rank"


@pytest.mark.parametrize("flags, message", [
    (["--layers", "3"], "layer 3 of 3"), (["--steps", "500"], "takes at most 512"), (["--candidates", "4"], "below --topk"),
    (["--selector", "exact", "exact"], "one of them twice"), (["--selector", "shadowkv"], "61 tokens, selector shadowkv needs at least"),
    (["--windows", "60"], "needs at least"), (["--device", "tpu"], "expected cpu"), (["--device", "cuda:99"], "devices here"),
    (["--temperature", "0", "--decode", "sample"], "temperature 0"),
])
def test_errors_before_weights_are_loaded(capture, tmp_path, monkeypatch, flags, message):
    monkeypatch.setattr(running.models, "load", None)
    status, out, err = capture(*flags)
    assert status == 1 and message in err and out == "" and len(err.splitlines()) == 1
    assert not list(tmp_path.glob("x*"))


def test_too_little_memory(capture, tmp_path, monkeypatch):
    monkeypatch.setattr(memory, "available", lambda device: 2**30)
    status, _, err = capture()
    assert status == 1 and "of memory are needed on cpu (weights" in err and "1.0 GiB are free" in err
    assert not list(tmp_path.glob("x*"))


def test_out_of_memory_later(capture, tmp_path, monkeypatch):
    def fail(*args):
        raise MemoryError("4 GiB")
    monkeypatch.setattr(running.Capture, "_request", fail)
    status, _, err = capture()
    assert status == 1 and "out of memory on cpu: 4 GiB" in err and not list(tmp_path.glob("x*"))


def test_stopped_before_anything_is_done(capture, tmp_path, monkeypatch):
    def stop(*args):
        raise KeyboardInterrupt
    monkeypatch.setattr(running.Capture, "_request", stop)
    status, _, err = capture()
    assert status == 130 and "before a request was finished" in err and not list(tmp_path.glob("x*"))


def test_names(capture, tmp_path):
    assert "ends in .arrow" in capture(out="x.parquet")[2]
    assert "no folder" in capture(out="none/x.arrow")[2]
    (tmp_path / "x.arrow").touch()
    assert "--overwrite replaces it" in capture()[2]
    assert capture("--overwrite", "--steps", "1", "--limit", "1")[0] == 0


@pytest.mark.parametrize("flags", [["--topk", "0"], ["--layers", "3-1"], ["--steps", "x"], ["--note", "x"]])
def test_flags(capture, flags):
    with pytest.raises(SystemExit):
        capture(*flags)


def test_tokenizer_json(llama, tmp_path, capsys):
    from kvreplay.captures.tokenizer import main as write

    assert write(["--model", str(llama), "--out", str(tmp_path / "t.json")]) == 0
    assert json.loads((tmp_path / "t.json").read_text())["model"]["type"] == "WordLevel"
    assert write(["--model", str(tmp_path), "--out", str(tmp_path / "u.json")]) == 1
    assert "no tokenizer" in capsys.readouterr().err

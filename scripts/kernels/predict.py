"""Predicts the steps that decode.py times, with `kvreplay time`.

The input is a CSV file of decode.py, or one with its first columns. README.md has the commands.
"""

import argparse
import contextlib
import csv
import io
import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

CONFIGURATION = ["mode", "model", "device", "batch", "context", "topk", "misses"]
PREDICTION = ["command", "tpot_us", "low_us", "high_us"]
STEPS = 4  # of a made trace
HARDWARE_DIR = "KVREPLAY_HARDWARE_DIR"


class PredictError(Exception):
    """An error that the user can correct."""


class RowError(PredictError):
    """The reason that a row has no prediction."""


class Predictor:
    """Runs kvreplay. Made traces and their replays stay in a folder."""

    def __init__(self, program: str, folder: Path, machine: list[str]):
        if (found := shutil.which(program)) is None:
            raise PredictError(f"{program} is no program: state it with --kvreplay")
        self.program, self.folder, self.machine = os.path.abspath(found), folder, machine
        self.place = folder  # where the commands run
        self.environment = dict(os.environ)
        if own := self.environment.get(HARDWARE_DIR):
            self.environment[HARDWARE_DIR] = os.path.abspath(own)

    def kvreplay(self, *args: str) -> str:
        try:
            done = subprocess.run([self.program, *args], cwd=self.place, env=self.environment, capture_output=True, text=True)
        except OSError as e:
            raise PredictError(f"{self.program} does not start ({e.strerror}): state another with --kvreplay") from e
        if done.returncode == 0:
            return done.stdout
        if "nothing fits" in done.stderr:
            return ""
        raise PredictError(f"kvreplay {shlex.join(args)}: {done.stderr.strip()}")

    def shape(self, model: str) -> dict[str, int]:
        items = json.loads(self.kvreplay("hardware", "show", model, "--format", "json"))
        lines = next((item["lines"] for item in items if item["kind"] == "model"), None)
        if lines is None:
            raise PredictError(f"{model} is no model: choose one of `kvreplay hardware list`")
        return {line["field"]: line["value"] for line in lines if "value" in line}

    def profile(self, context: int, topk: int, misses: int, heads: int, entry: int) -> str:
        """Makes a trace of one layer in which LRU at 1x misses `misses` entries of each head and step.

        Each list has the newest token, which never misses, and the next topk − 1 tokens of a range
        that moves by `misses` tokens. Step −1 fills the cache.
        """
        name = f"context{context}-topk{topk}-misses{misses}"
        self.place = self.folder / f"heads{heads}-entry{entry}"  # a trace serves models with these
        self.place.mkdir(exist_ok=True)
        if any((self.place / name).glob("*.profile-*.parquet")):
            return name
        if not 0 <= misses < topk or topk - 1 + STEPS * misses > context - 2:  # the newest tokens come next
            raise RowError(f"{misses} misses of {topk} tokens: a context of {context} is too short for the trace")
        lines = []
        for head in range(heads):
            for t in range(-1, STEPS):
                tokens = [context + t - 1, *range((t + 1) * misses, (t + 1) * misses + topk - 1)]
                lines.append(json.dumps({"request_id": "made", "layer_id": 0, "head": head, "step_idx": t,
                                         "seq_len_current": context + t, "selected_token_pos": tokens}))
        (self.place / f"{name}.jsonl").write_text("\n".join(lines) + "\n")
        self.kvreplay("import", f"{name}.jsonl", "-o", f"{name}.parquet", "--order", "index", "--sink", "0",
                      "--local", "1", "--entry-bytes", str(entry))
        self.kvreplay("replay", f"{name}.parquet", "--policy", "lru", "--capacity", "1x", "--profile", "--out", name)
        return name

    def command(self, row: dict[str, str]) -> tuple[list[str], float | None]:
        """The arguments of kvreplay that predict a row, and the bytes that a step fetches."""
        batch, context = int(row["batch"]), int(row["context"])
        machine = ["--model", row["model"], *self.machine, "--batch", str(batch)]
        mode, eager = row["mode"].removesuffix("-eager"), row["mode"].endswith("-eager")
        engine = ["--engine", "pytorch"] if eager or mode.startswith("transformers") else []
        if mode == "dense":
            return ["time", "--prompt", str(context - 1), "--generate", "2", *machine, "--schedule", "dense", *engine], None
        if mode.startswith("transformers"):
            schedule = "flexgen" if mode.endswith("offloaded") else "dense"
            return ["time", "--prompt", str(context), "--generate", "20", *machine, "--schedule", schedule, *engine], None
        if mode != "offloaded":
            raise RowError(f"mode {row['mode']} has no prediction")
        shape = self.shape(row["model"])
        heads, entry = shape["kv_heads"], 4 * shape["head_dim"]
        misses = float(row["misses"]) / (heads * batch)
        if misses != int(misses):
            raise RowError(f"{row['misses']} misses of {heads * batch} streams are no multiple, so no trace has them")
        name = self.profile(context, int(row["topk"]), int(misses), heads, entry)
        # The group of the selection is the whole context, so it takes no time: decode.py selects nothing.
        return (["time", name, "--layer-map", "nearest", *machine, "--context", str(context), "--schedule", "sequential",
                 "--path", "kernel", "--selection", f"mean:tokens={context}", *engine],
                misses * heads * batch * entry * shape["layers"])

    def predict(self, row: dict[str, str]) -> list[str]:
        """The prediction of a row. It has no figures if the batch does not fit."""
        args, fetched = self.command(row)
        text = self.kvreplay(*args, "--format", "csv")
        command = shlex.join(["kvreplay", *args])
        if not text:
            return [command, "", "", ""]
        found = next(csv.DictReader(io.StringIO(text)))
        if fetched is not None and float(found["h2d_bytes_per_step"]) != fetched:
            raise PredictError(f"{command} fetches {found['h2d_bytes_per_step']} B a step instead of {fetched:g}: report it")
        if not found["tpot_s"] or found["does_not_fit"]:
            return [command, "", "", ""]
        return [command, *(f"{1e6 * float(found[c]):.1f}" for c in ("tpot_s", "tpot_low_s", "tpot_high_s"))]


def run(args: argparse.Namespace, folder: Path) -> None:
    machine = ["--gpu", args.hardware, "--link", args.link] if args.link else ["--hardware", args.hardware]
    if args.kernels:
        machine += ["--kernels", str(args.kernels.resolve())]
    predictor = Predictor(args.kvreplay, folder, machine)
    try:
        with args.steps.open(newline="") as f:
            rows = list(csv.DictReader(f))
    except OSError as e:
        raise PredictError(f"{args.steps} is not readable ({e.strerror}): name a file of decode.py") from e
    if not rows or not set(CONFIGURATION) <= set(rows[0]):
        raise PredictError(f"{args.steps} lacks rows or columns of decode.py: {', '.join(CONFIGURATION)}")
    measured = "step_us" in rows[0]
    if args.out and args.out.exists() and args.out.samefile(args.steps):
        raise PredictError(f"--out {args.out} is the input: name another file")
    with args.out.open("w", newline="") if args.out else contextlib.nullcontext(sys.stdout) as file:
        write(csv.writer(file, lineterminator="\n"), predictor, rows, measured)


def write(out, predictor: Predictor, rows: list[dict[str, str]], measured: bool) -> None:
    """Writes a line for each row that is a whole step."""
    out.writerow([*CONFIGURATION, *PREDICTION, *(["step_us", "error_percent"] if measured else [])])
    for row in rows:
        if ":" in row["mode"]:
            continue  # a part of a step
        try:
            prediction = predictor.predict(row)
        except RowError as e:
            print(f"predict: no prediction of {row['mode']}, batch {row['batch']}, context {row['context']}: {e}", file=sys.stderr)
            prediction = ["", "", "", ""]
        values = [*(row[c] for c in CONFIGURATION), *prediction]
        if measured:
            tpot, step = values[len(CONFIGURATION) + 1], row["step_us"]
            values += [step, f"{100 * (float(tpot) / float(step) - 1):.1f}" if tpot else ""]
        out.writerow(values)


def main() -> int:
    p = argparse.ArgumentParser(prog="predict.py", description="Predict the steps of decode.py with `kvreplay time`, as CSV.")
    p.add_argument("steps", type=Path, help="CSV file of decode.py, or configurations in its columns")
    p.add_argument("--out", type=Path, help="CSV file to write (default: print it)")
    p.add_argument("--hardware", required=True, help="machine of `kvreplay hardware list` with this GPU")
    p.add_argument("--link", help="link of `kvreplay hardware list` instead of the machine's. --hardware then names the GPU")
    p.add_argument("--kernels", type=Path, help="kernels of this GPU that measure.py measured")
    p.add_argument("--kvreplay", default="kvreplay", help="the program")
    p.add_argument("--folder", type=Path, help="keep made traces and their replays in subfolders of this folder, where the commands run")
    args = p.parse_args()
    try:
        if args.folder:
            args.folder.mkdir(parents=True, exist_ok=True)
            run(args, args.folder)
        else:
            with tempfile.TemporaryDirectory() as folder:
                run(args, Path(folder))
    except (PredictError, OSError) as e:
        print(f"predict: {e}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())

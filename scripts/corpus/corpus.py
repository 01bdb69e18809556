"""Makes the trace corpus from nothing: environment, prompts, captures, traces, replay.

`make corpus` runs this. Each step writes a file. It is skipped if the file exists and was made
in the same way, so the work can be stopped and continued at any time. Only the standard
library is needed. The capture's environment is made on the way.
"""

import argparse
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
CAPTURE = HERE.parent / "capture"
PACKAGE = HERE.parent / "python"
sys.path.insert(0, str(CAPTURE))
import environment  # noqa: E402


@dataclass
class Unit:
    """One task of one part of the plan: one workload, one capture, one trace per selector."""

    part: str
    task: str
    maker: str  # of kvreplay datasets make
    length: int
    samples: int
    steps: int
    budget: float  # K as a share of the length
    longest: float  # M ÷ K
    capture: list[str]
    score_bits: int
    file: str  # of the tasks that share a trace, or the task if it has its own

    @property
    def topk(self) -> int:
        return max(1, round(self.budget * self.length))

    @property
    def candidates(self) -> int:
        return -int(-self.longest * self.topk // 1)

    @property
    def name(self) -> str:
        return f"{self.part}/{self.task}"


def plan_units(plan: dict, options: argparse.Namespace) -> list[Unit]:
    """The units to make: all of the plan, or the requested tasks and parts."""
    units, known = [], set()
    for part in plan["part"]:
        files = {task: name for name, tasks in part.get("files", {}).items() for task in tasks}
        for maker in ("ruler", "offline"):
            for task in part.get(maker, []):
                known.add(task)
                chosen = part["name"] in options.parts if options.parts else not part.get("asked")
                if not chosen or options.tasks and task not in options.tasks:
                    continue
                units.append(Unit(part["name"], task, maker, options.length or part["length"], options.samples or part["samples"],
                                  options.steps or part.get("steps", plan["steps"]), part["budget"], options.longest or part.get("longest", 1.25),
                                  part["capture"] + (["--layers", options.layers] if options.layers else []), part.get("score_bits", 10), files.get(task, task)))
        shared = {name for name, tasks in part.get("files", {}).items() if {u.task for u in units if u.part == part["name"]} >= set(tasks)}
        for unit in units:  # if only some tasks of a trace are made, each has its own trace
            if unit.part == part["name"] and unit.file not in shared:
                unit.file = unit.task
    parts = {part["name"] for part in plan["part"]}
    for asked, there, what in ((options.tasks, known, "task"), (options.parts, parts, "part")):
        if unknown := sorted(set(asked or []) - there):
            raise SystemExit(f"corpus: unknown {what} {', '.join(unknown)}; known: {', '.join(sorted(there))}")
    if not units:
        raise SystemExit("corpus: no part has such a task")
    for unit in units:
        if unit.length + unit.steps + plan["template_tokens"] > plan["context"]:
            raise SystemExit(f"corpus: {unit.name}: {unit.length} tokens and {unit.steps} steps exceed the model's {plan['context']}")
    return units


class Corpus:
    """The output folder."""

    def __init__(self, plan: dict, options: argparse.Namespace, python: Path):
        self.plan, self.options, self.python = plan, options, python
        self.out, self.work = options.out, options.out / "work"
        self.work.mkdir(parents=True, exist_ok=True)
        self.given = continuations(options.check) if options.check else {}
        self.parts = {part["name"]: part for part in plan["part"]}

    def run(self, *command, quiet: bool = False) -> None:
        """Runs a command in the repository's root. If it fails, the program ends with its status."""
        print("+", " ".join(str(c) for c in command), file=sys.stderr)
        env = os.environ | {"PYTHONPATH": str(PACKAGE), "HF_HUB_OFFLINE": "1"}
        done = subprocess.run([str(c) for c in command], env=env, stdout=subprocess.DEVNULL if quiet else None)
        if done.returncode:
            raise SystemExit(done.returncode if done.returncode > 0 else 128 - done.returncode)

    def kvreplay(self, *arguments, quiet: bool = False) -> None:
        self.run(self.options.kvreplay, *arguments, quiet=quiet)

    def tokenizer(self) -> Path:
        path = self.work / "tokenizer.json"
        if not path.exists():
            self.run(self.python, "-m", "kvreplay.captures.tokenizer", "--model", self.plan["model"], "--out", path)
        return path

    def prompts(self, unit: Unit) -> Path:
        """The workload of a unit, with continuations if decoding follows them."""
        path = self.work / unit.part / f"{unit.task}.jsonl"
        command = ["datasets", "make", unit.maker, "--task", unit.task, "--length", unit.length, "--samples", unit.samples,
                   "--seed", self.plan["seed"], "--tokenizer", self.tokenizer(), "-o", path]
        if unit.maker == "ruler":
            command += ["--template-tokens", self.plan["template_tokens"]]
        if stale(path, command):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.unlink(missing_ok=True)
            self.kvreplay(*command, quiet=True)
            mark(path, command)
        if self.options.check:
            return self.forced(unit, path)
        return path

    def forced(self, unit: Unit, workload: Path) -> Path:
        """The workload with the continuations of its prompts in the checked corpus."""
        lines = []
        for row in map(json.loads, workload.read_text().splitlines()):
            ids = self.given.get((unit.name, row["id"]))
            if ids is None:
                raise SystemExit(f"corpus: {self.options.check} has no continuation of {unit.name}, {row['id']}: expected the same plan, lengths and samples")
            lines.append(json.dumps(row | {"continuation_ids": ids}) + "\n")
        path = workload.with_suffix(".forced.jsonl")
        write(path, "".join(lines))
        return path

    def capture(self, unit: Unit) -> list[Path]:
        """The Arrow files of a unit, one per selector."""
        out = self.work / unit.part / f"{unit.task}.arrow"
        workload = self.prompts(unit)
        decoding = ["--decode", "forced"] if self.options.check else [*self.plan["decoding"], "--seed", self.plan["seed"]]
        command = ["--model", self.plan["model"], "--workload", workload, "--out", out, "--topk", unit.topk, "--candidates", unit.candidates, "--windows", self.plan["windows"],
                   "--steps", unit.steps, "--model-name", self.plan["model_name"], "--licence", self.plan["licence"],
                   "--note", f"part={unit.part}", "--note", f"task={unit.task}", *decoding, *unit.capture]
        command += ["--threads", self.options.threads or self.plan["threads"]]
        if stale(out, command, digest(workload)):
            for old in [*out.parent.glob(f"{unit.task}.arrow"), *out.parent.glob(f"{unit.task}.*.arrow")]:
                old.unlink()
            done = out.with_suffix(".parts")
            bar = [] if sys.stderr.isatty() else ["--quiet"]
            self.run(self.python, "-m", "kvreplay.captures", *command, *bar, "--resume" if done.exists() else "--overwrite")
            mark(out, command, digest(workload))
        return [out] if out.exists() else sorted(out.parent.glob(f"{unit.task}.*.arrow"))

    def trace(self, name: str, bits: int, arrows: list[Path]) -> Path:
        """The trace of Arrow files, validated."""
        path, made = self.out / f"{name}.parquet", self.work / f"{name}.parquet.made"
        command = ["import", *arrows, "-o", path, "--score-bits", bits]
        recipe_now = recipe(command, "".join(map(digest, arrows)))
        if not path.exists() or not made.exists() or made.read_text() != recipe_now:
            path.unlink(missing_ok=True)
            self.kvreplay(*command)
            self.kvreplay("validate", path)
            write(made, recipe_now)
        return path

    def make(self, units: list[Unit]) -> list[Path]:
        """All traces of the units: one per task, selector and part, or one of several tasks."""
        groups: dict[str, tuple[int, list[Path]]] = {}
        for unit in units:
            for arrow in self.capture(unit):
                name = f"{unit.part}_{unit.file}{arrow.stem.removeprefix(unit.task)}"
                groups.setdefault(name, (unit.score_bits, []))[1].append(arrow)
        traces = [self.trace(name, bits, arrows) for name, (bits, arrows) in groups.items()]
        if not self.options.check:
            self.keep_continuations()
        return traces

    def subset(self, traces: list[Path]) -> None:
        """Derives the small traces that a part bundles, in the folder subset."""
        for trace in traces:
            small = self.parts[trace.stem.partition("_")[0]].get("subset")
            if not small or not self.compared(trace):
                continue
            path = self.out / "subset" / trace.name
            path.parent.mkdir(exist_ok=True)
            path.unlink(missing_ok=True)
            whole = self.inspect(trace)["metadata"]
            m = min(whole["candidates"], -(-small["candidates"] // whole["block_tokens"]))
            self.kvreplay("derive", trace, "-o", path, "--layers", small["layers"], "--candidates", m, "--steps", small["steps"], quiet=True)

    def compared(self, trace: Path) -> bool:
        """Whether the checked corpus has lists of a trace: all, or those of the tasks that a part bundles."""
        part, _, rest = trace.stem.partition("_")
        small = self.parts[part].get("subset")
        return not small or rest.partition(".")[0] in small["tasks"]

    def inspect(self, trace: Path) -> dict:
        """Digest and metadata of a trace."""
        done = subprocess.run([self.options.kvreplay, "inspect", trace, "--format", "json"], stdout=subprocess.PIPE, check=True)
        return json.loads(done.stdout)

    def measure(self, traces: list[Path]) -> None:
        """Writes digest, recall and mass of the traces of each part that is made only if asked for.
        Compares them with the list of this folder."""
        for part in sorted({trace.stem.partition("_")[0] for trace in traces}):
            if not self.parts[part].get("asked"):
                continue
            rows = {trace.stem: self.measured(trace) for trace in traces if trace.stem.startswith(f"{part}_")}
            write(self.out / f"{part}.csv", "".join(f"{line}\n" for line in [HEADER, *(line for lines in rows.values() for line in lines)]))
            committed = HERE / f"{part}.csv"
            known = set(committed.read_text().splitlines()) if committed.exists() else set()
            same = sum(known.issuperset(lines) for lines in rows.values())
            print(f"corpus: {same} of {len(rows)} traces of part {part} are those of scripts/corpus/{part}.csv", file=sys.stderr)

    def measured(self, trace: Path) -> list[str]:
        """A line for each budget at which capture measured a trace: see HEADER."""
        found = self.inspect(trace)
        notes, k = found["metadata"]["notes"], found["metadata"]["topk"] * found["metadata"]["block_tokens"]
        ends = {k: "", 2 * k: f".{2 * k}", 4 * k: f".{4 * k}"}
        return [",".join([trace.stem, found["digest"], str(found["bytes"]), str(tokens), *(notes[f"exact.{key}{end}"] for key in ("recall", "resident", "mass"))])
                for tokens, end in ends.items() if f"exact.recall{end}" in notes]

    def keep_continuations(self) -> None:
        """Writes the continuations of all units in the folder, along which checks force decoding."""
        lines = []
        for generated in sorted(self.work.glob("*/*.generated.jsonl")):
            unit = f"{generated.parent.name}/{generated.name.removesuffix('.generated.jsonl')}"
            for row in map(json.loads, generated.read_text().splitlines()):
                lines.append({"unit": unit} | {key: row[key] for key in ("id", "continuation_ids", "continuation")})
        write(self.out / "continuations.jsonl", "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines))

    def replay(self, traces: list[Path]) -> None:
        """Replays the traces and prints the board."""
        results = self.out / "results"
        self.kvreplay("replay", *traces, *self.plan["replay"], "--out", results)
        self.kvreplay("leaderboard", results)


HEADER = "trace,digest,bytes,tokens,recall,resident,mass"  # a line for each budget, in tokens


def continuations(folder: Path) -> dict:
    """The continuation of each prompt of the corpus in folder."""
    try:
        rows = [json.loads(line) for line in (folder / "continuations.jsonl").read_text().splitlines()]
    except OSError as e:
        raise SystemExit(f"corpus: --check: {e}") from e
    return {(row["unit"], row["id"]): row["continuation_ids"] for row in rows}


def stale(path: Path, command: list, source: str = "") -> bool:
    """Whether path must be made: it is absent, or was made by another command or from another source."""
    made = path.with_name(path.name + ".made")
    return not made.exists() or made.read_text() != recipe(command, source) or not (path.exists() or list(path.parent.glob(f"{path.stem}.*{path.suffix}")))


def mark(path: Path, command: list, source: str = "") -> None:
    write(path.with_name(path.name + ".made"), recipe(command, source))


def recipe(command: list, source: str) -> str:
    return json.dumps([[str(c) for c in command], source]) + "\n"


def write(path: Path, text: str) -> None:
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    temporary.write_text(text)
    os.replace(temporary, path)


def digest(path: Path) -> str:
    """The digest of a file, or of the files of a capture."""
    total = hashlib.sha256()
    for file in [path] if path.exists() else sorted(path.parent.glob(f"{path.stem}.*{path.suffix}")):
        total.update(file.read_bytes())
    return total.hexdigest()


def main() -> None:
    flags = argparse.ArgumentParser(description="make the trace corpus, or some of it")
    flags.add_argument("--plan", type=Path, default=HERE / "plan.toml")
    flags.add_argument("--out", type=Path, required=True, help="folder of the traces; work files lie in its folder work")
    flags.add_argument("--kvreplay", type=Path, default=HERE.parent.parent / "bin" / "kvreplay")
    flags.add_argument("--tasks", type=lambda text: text.split(","), help="tasks of the plan, comma-separated; all by default")
    flags.add_argument("--parts", type=lambda text: text.split(","), help="parts of the plan, comma-separated; all by default")
    flags.add_argument("--length", type=int, help="tokens of a prompt and RULER's generation, instead of the plan's")
    flags.add_argument("--samples", type=int, help="prompts of each task, instead of the plan's")
    flags.add_argument("--layers", help="layers to record, like 0,5,10 or 0-9, instead of the plan's")
    flags.add_argument("--steps", type=int, help="decoding steps, instead of the plan's")
    flags.add_argument("--longest", type=float, help="length of a list ÷ K, instead of the plan's")
    flags.add_argument("--threads", type=int, help="CPU threads of a capture, instead of the plan's")
    flags.add_argument("--check", type=Path, help="folder of a corpus: follow its continuations and compare selections")
    options = flags.parse_args()
    with options.plan.open("rb") as f:
        plan = tomllib.load(f)
    units = plan_units(plan, options)
    if not shutil.which(options.kvreplay):
        raise SystemExit(f"corpus: {options.kvreplay} is not there, expected make build first")
    python = environment.find(make=True)
    corpus = Corpus(plan, options, python)
    traces = corpus.make(units)
    size = sum(t.stat().st_size for t in traces)
    print(f"corpus: {len(traces)} traces, {size:,} bytes", file=sys.stderr)
    if options.check:
        corpus.run(python, HERE / "compare.py", options.check, *(t for t in traces if corpus.compared(t)))
        return
    corpus.measure(traces)
    if not options.layers:
        corpus.subset(traces)
    corpus.replay(traces)


if __name__ == "__main__":
    main()

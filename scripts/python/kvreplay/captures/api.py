"""kvreplay.capture."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..program import Error, run
from ..trace import Trace
from .cli import flags
from .errors import CaptureError


def capture(model: Any, prompts: Sequence[Any], *, selectors: Sequence[str] | str | None = None, tokenizer: Any = None, steps: int = 128, windows: int = 32,
            **options: Any) -> dict[str, Trace]:
    """Run a model over prompts and return a trace of each selector, by its name.

    ``model`` is a folder, a GGUF file or a name of the Hugging Face hub, or a loaded model of transformers. ``prompts``
    are texts, objects as in a workload (``{"id": ..., "input": ...}``), or lists of tokens.

    A model with an indexer (DeepSeek-V3.2, GLM with sparse attention) has the one selector ``indexer``: the lists that it
    attends to. ``options`` are then ``layers``, ``kv_bytes``, ``model_name`` and ``licence``.

    For other models ``selectors`` are those of ``python -m kvreplay.captures``, ``exact`` by default, and ``options`` are its
    flags, such as ``topk=256``. Such a model is named and not loaded.
    """
    try:
        if selectors == "indexer" or selectors == ["indexer"] or not isinstance(model, (str, Path)):
            return {"indexer": _indexer(model, prompts, tokenizer, steps, windows, options)}
        return _selectors(model, prompts, [selectors] if isinstance(selectors, str) else list(selectors or ["exact"]), steps, windows, options)
    except CaptureError as e:
        raise Error(str(e)) from e
    except ModuleNotFoundError as e:
        raise Error(f"capture needs {e.name}: install it, as in pip install './scripts/python[capture]'") from e


def _indexer(model: Any, prompts: Sequence[Any], tokenizer: Any, steps: int, windows: int, options: dict[str, Any]) -> Trace:
    from . import indexer

    if isinstance(model, (str, Path)):
        options.setdefault("model_name", Path(model).name if Path(model).exists() else str(model))
        model, tokenizer = indexer.load(str(model), tokenizer)
    named = []
    for i, prompt in enumerate(prompts):
        name, text = (str(prompt.get("id", f"r{i}")), prompt["input"]) if isinstance(prompt, dict) else (f"r{i}", prompt)
        if isinstance(text, str):
            if tokenizer is None:
                raise CaptureError(f"prompt {name} is a text: expected tokenizer=, or lists of tokens")
            text = tokenizer(text).input_ids
        named.append((name, text))
    return indexer.record(model, named, steps=steps, windows=windows, **options)


def _refuse(message: str) -> None:
    raise CaptureError(message)


def _selectors(model: str | Path, prompts: Sequence[Any], selectors: list[str], steps: int, windows: int, options: dict[str, Any]) -> dict[str, Trace]:
    from .run import run as capture_run
    from .selectors import label, parse

    rows = [p if isinstance(p, dict) else {"id": f"r{i}", "input": p} for i, p in enumerate(prompts)]
    if any(not isinstance(row["input"], str) for row in rows):
        raise CaptureError("a prompt is no text: lists of tokens are for selectors=\"indexer\"")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        workload, out = folder / "workload.jsonl", folder / "trace.arrow"
        workload.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
        arguments = [f"--model={model}", f"--workload={workload}", f"--out={out}", f"--steps={steps}", f"--windows={windows}", "--quiet", "--selector", *selectors]
        for key, value in options.items():
            flag = "--" + key.replace("_", "-")
            values = value if isinstance(value, (list, tuple)) else [] if value is True else [value]
            arguments += [flag, *map(str, values)]
        parser = flags()
        parser.error = _refuse  # argparse ends the program
        if capture_run(parser.parse_args(arguments)) != 0:
            raise KeyboardInterrupt
        labels = [label(parse(s)) for s in selectors]
        traces = {}
        for one in labels:
            file = out if len(labels) == 1 else out.with_suffix(f".{one}.arrow")
            run("import", file, "-o", folder / "t.parquet")
            traces[one] = Trace.read(folder / "t.parquet")
            (folder / "t.parquet").unlink()
        return traces

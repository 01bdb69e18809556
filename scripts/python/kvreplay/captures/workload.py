"""Reads workloads: JSON lines, one prompt per line.

The keys are RULER's (index, input, outputs, length, answer_prefix) and those that
`kvreplay datasets make` adds (benchmark, task, id, max_new_tokens, chat_template, …).
Only input is required. Rows that a capture wrote next to its trace also have
continuation_ids, the tokens that followed. Decoding can be forced along them.
"""

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path

from .errors import CaptureError


@dataclass
class Prompt:
    """One line of a workload."""

    id: str  # becomes request_id
    text: str  # input, with the answer's prefix outside the chat template
    prefix: str
    chat: bool  # wrap text as the user's turn
    steps: int | None  # tokens to generate, if the row says so
    continuation: list[int] | str | None  # the text to force decoding along
    row: dict  # the unchanged line


def read(path: Path, limit: int | None = None) -> list[Prompt]:
    """The prompts of a file, at most limit of them."""
    prompts, seen = [], {}
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as e:
        raise CaptureError(f"read workload {path}: {e}") from e
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        if limit is not None and len(prompts) == limit:
            break
        try:
            prompt = parse(line, path.stem, len(prompts))
        except ValueError as e:
            raise CaptureError(f"{path}:{number}: {e}") from e
        if prompt.id in seen:
            raise CaptureError(f"{path}:{number}: id {prompt.id!r} is also that of line {seen[prompt.id]}, expected one of its own")
        seen[prompt.id] = number
        prompts.append(prompt)
    if not prompts:
        raise CaptureError(f"{path}: no prompts, expected JSON lines with the key input")
    return prompts


def parse(line: str, stem: str, position: int) -> Prompt:
    """One prompt. ValueError states the fault of the line."""
    try:
        row = json.loads(line)
    except json.JSONDecodeError as e:
        raise ValueError(f"not JSON: {e}") from e
    if not isinstance(row, dict):
        raise ValueError(f"a {type(row).__name__}, expected an object with the key input")
    for key, kinds in {"input": str, "answer_prefix": str, "task": str, "id": str, "chat_template": bool,
                       "max_new_tokens": int, "continuation_ids": list, "continuation": str}.items():
        if row.get(key) is not None and (not isinstance(row[key], kinds) or kinds is int and isinstance(row[key], bool)):
            raise ValueError(f"{key} is {row[key]!r}, expected {kinds.__name__}")
    if not row.get("input"):
        raise ValueError("no input, expected the text of the prompt")
    steps = row.get("max_new_tokens")
    if steps is not None and steps < 1:
        raise ValueError(f"max_new_tokens is {steps}, expected at least 1")
    ids = row.get("continuation_ids")
    if ids is not None and not all(isinstance(x, int) and x >= 0 for x in ids):
        raise ValueError("continuation_ids holds something else than token ids")
    name = row.get("id") or f"{row.get('task') or stem}-{row.get('index', position)}"
    return Prompt(id=name, text=row["input"], prefix=row.get("answer_prefix") or "", chat=bool(row.get("chat_template")),
                  steps=steps, continuation=ids if ids is not None else row.get("continuation"), row=row)


def digest(ids: list[int]) -> str:
    """The first 16 hexadecimal digits of the SHA-256 of token ids as little-endian int32."""
    return hashlib.sha256(b"".join(x.to_bytes(4, "little") for x in ids)).hexdigest()[:16]

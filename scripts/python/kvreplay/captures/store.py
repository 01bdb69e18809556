"""Output files, and the finished requests before there are any.

Next to OUT.arrow, a folder OUT.parts has one Arrow file per finished request and selector. A JSON
file per request is written last. The output files are made from them at the end and after
Ctrl-C, and get their names only when they are whole. A capture can therefore continue after any
end, and the bytes do not depend on the place where it stopped.
"""

import hashlib
import json
import os
import shutil
from dataclasses import asdict, dataclass
from pathlib import Path

import pyarrow as pa

from .errors import CaptureError


@dataclass
class Finished:
    """A finished request."""

    number: int
    id: str
    prompt_tokens: int
    prompt_digest: str
    continuation_ids: list[int]
    continuation: str
    recall: list[list[dict]]  # by selector and budget, as Recall


class Store:
    """The parts of a capture. outputs are the names of the final files, one per selector."""

    def __init__(self, out: Path, outputs: list[Path], fingerprint: dict, resume: bool, overwrite: bool):
        self.out, self.outputs = out, outputs
        self.folder = out.with_suffix(".parts")
        text = json.dumps(fingerprint, sort_keys=True, indent=1)
        state = self.folder / "capture.json"
        existing = [p for p in outputs if p.exists()]
        if overwrite:
            shutil.rmtree(self.folder, ignore_errors=True)
        elif self.folder.exists() and not resume:
            raise CaptureError(f"{self.folder} holds a capture that was not finished: --resume goes on with it, --overwrite begins anew")
        elif existing and not self.folder.exists():
            raise CaptureError(f"{existing[0]} is there already: --overwrite replaces it")
        elif state.exists() and state.read_text() != text:
            old = json.loads(state.read_text())
            changed = sorted(k for k in fingerprint.keys() | old.keys() if fingerprint.get(k) != old.get(k))
            raise CaptureError(f"{self.folder} holds a capture with another {', '.join(changed)}: expected the same options with --resume, or --overwrite")
        self.folder.mkdir(parents=True, exist_ok=True)
        write(state, text.encode())

    def part(self, number: int, selector: int) -> Path:
        return self.folder / f"{number:06d}.{selector}.arrow"

    def done(self) -> dict[int, Finished]:
        """The finished requests by number."""
        found = {}
        for path in sorted(self.folder.glob("[0-9]*.json")):
            finished = Finished(**json.loads(path.read_text()))
            found[finished.number] = finished
        return found

    def add(self, finished: Finished, tables: list[list[pa.RecordBatch]]) -> None:
        """Stores a request: a list of batches for each selector."""
        for selector, batches in enumerate(tables):
            _write_arrow(self.part(finished.number, selector), batches[0].schema, batches)
        write(self.folder / f"{finished.number:06d}.json", json.dumps(asdict(finished)).encode())

    def merge(self, schemas: list[pa.Schema], rows: dict[int, dict]) -> list[Path]:
        """Writes the output files of finished requests, and their workload with the
        continuations. rows are the workload's lines by number."""
        done = self.done()
        for selector, path in enumerate(self.outputs):
            _write_arrow(path, schemas[selector], self._batches(sorted(done), selector))
        lines = [rows[n] | {"id": f.id, "continuation": f.continuation, "continuation_ids": f.continuation_ids} for n, f in sorted(done.items())]
        generated = self.out.with_suffix(".generated.jsonl")
        write(generated, "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines).encode())
        return [*self.outputs, generated]

    def _batches(self, numbers: list[int], selector: int):
        for number in numbers:
            with pa.memory_map(str(self.part(number, selector))) as source, pa.ipc.open_file(source) as file:
                for i in range(file.num_record_batches):
                    yield file.get_batch(i)

    def clear(self) -> None:
        """Removes the parts: the outputs are whole, or there are none."""
        shutil.rmtree(self.folder, ignore_errors=True)


def _write_arrow(path: Path, schema: pa.Schema, batches) -> None:
    """Writes an Arrow file, which gets its name only when it is whole."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with pa.OSFile(str(temporary), "wb") as sink, pa.ipc.new_file(sink, schema) as writer:
            for batch in batches:
                writer.write_batch(batch.cast(schema))
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def write(path: Path, data: bytes) -> None:
    """Writes a file, which gets its name only when it is whole."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        temporary.write_bytes(data)
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def file_digest(path: Path) -> str:
    with path.open("rb") as f:
        return "sha256:" + hashlib.file_digest(f, "sha256").hexdigest()

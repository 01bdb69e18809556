"""Writes a model's tokenizer.json, with which `kvreplay datasets make --tokenizer` counts.

python -m kvreplay.captures.tokenizer --model smollm2 --out tokenizer.json
"""

import argparse
import sys
import tempfile
from pathlib import Path

from . import model
from .errors import CaptureError
from .store import write


def main(args: list[str] | None = None) -> int:
    """Runs the program and returns the exit status."""
    flags = argparse.ArgumentParser(prog="python -m kvreplay.captures.tokenizer", description="write a model's tokenizer.json")
    flags.add_argument("--model", required=True, help="as of python -m kvreplay.captures")
    flags.add_argument("--out", required=True, type=Path)
    options = flags.parse_args(args)
    try:
        tokenizer = model.tokenizer(model.resolve(options.model))
        with tempfile.TemporaryDirectory() as folder:
            tokenizer.save_pretrained(folder)
            made = Path(folder, "tokenizer.json")
            if not made.exists():
                raise CaptureError(f"model {options.model}: its tokenizer has no tokenizer.json")
            write(options.out, made.read_bytes())
    except (CaptureError, OSError) as e:
        print(f"capture.tokenizer: {e}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

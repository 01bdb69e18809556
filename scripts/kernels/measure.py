"""Measures kernels of a model on a GPU and writes them as CSV for `kvreplay hardware fit`.

Needs PyTorch 2.6 or newer and nothing else. FlashInfer is used for attention if it is installed.
README.md has the commands.
"""

import argparse
import csv
import importlib.util
import json
import os
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn.functional as F

HEADER = ["operator", "model", "device", "software", "tensor_parallel", "tokens", "sequences", "context", "time_us"]
FIELDS = ["hidden_size", "query_heads", "kv_heads", "head_dim", "ffn_size", "vocabulary"]
PAGE = 16  # tokens of a page of the cache
EPS = 1e-6


class MeasureError(Exception):
    """An error that the user can correct."""


@dataclass(frozen=True)
class Shape:
    """Widths of a model on one of `parallel` GPUs."""

    hidden: int
    heads: int
    kv_heads: int
    dim: int
    ffn: int
    vocabulary: int

    @staticmethod
    def of(model: dict, parallel: int) -> "Shape":
        for field in ["query_heads", "ffn_size", "vocabulary"]:
            if model[field] % parallel:
                raise MeasureError(f"--tensor-parallel {parallel} does not divide {field} {model[field]}: remove it")
        return Shape(model["hidden_size"], model["query_heads"] // parallel, max(1, model["kv_heads"] // parallel),
                     model["head_dim"], model["ffn_size"] // parallel, model["vocabulary"] // parallel)


# ---- kernels ---------------------------------------------------------------------------------
#
# Each function allocates the inputs of one call and returns the call.


def rotate(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    a, b = x.float().chunk(2, dim=-1)
    return torch.cat([a * cos - b * sin, b * cos + a * sin], dim=-1).to(x.dtype)


class Kernels:
    def __init__(self, device: torch.device, flashinfer: bool):
        self.device = device
        self.flashinfer = flashinfer

    def row(self, function):
        """One fused kernel, as engines have for norms, rotary embedding and activation."""
        if self.device.type != "cuda":
            return function
        torch.compiler.reset()  # it gives up after 8 shapes of one function
        return torch.compile(function, dynamic=False)

    def rand(self, *size: int) -> torch.Tensor:
        # values of trained weights are small, and power draw depends on the data
        return torch.randn(*size, device=self.device, dtype=torch.float32).mul_(0.02).to(torch.bfloat16)

    def product(self, tokens: int, out: int, width: int):
        x, w = self.rand(tokens, width), self.rand(out, width)
        return lambda: F.linear(x, w)

    def norm(self, tokens: int, s: Shape):
        x, w = self.rand(tokens, s.hidden), self.rand(s.hidden)
        call = self.row(lambda x, w: F.rms_norm(x, (x.shape[-1],), w, EPS))
        return lambda: call(x, w)

    def add_norm(self, tokens: int, s: Shape):
        x, r, w = self.rand(tokens, s.hidden), self.rand(tokens, s.hidden), self.rand(s.hidden)

        def add_norm(x, r, w):
            r = x + r
            return F.rms_norm(r, (r.shape[-1],), w, EPS), r

        call = self.row(add_norm)
        return lambda: call(x, r, w)

    def activation(self, tokens: int, s: Shape):
        x = self.rand(tokens, 2 * s.ffn)

        def silu_and_mul(x):
            gate, up = x.chunk(2, dim=-1)
            return F.silu(gate) * up

        call = self.row(silu_and_mul)
        return lambda: call(x)

    def rope(self, tokens: int, s: Shape):
        x = self.rand(tokens, s.heads + s.kv_heads, s.dim)
        angle = torch.rand(tokens, 1, s.dim // 2, device=self.device)
        cos, sin = angle.cos(), angle.sin()

        call = self.row(rotate)
        return lambda: call(x, cos, sin)

    def add(self, tokens: int, s: Shape):
        x, y = self.rand(tokens, s.hidden), self.rand(tokens, s.hidden)
        return lambda: x + y

    def embedding(self, tokens: int, s: Shape):
        w = self.rand(s.vocabulary, s.hidden)
        ids = torch.randint(s.vocabulary, (tokens,), device=self.device)
        return lambda: F.embedding(ids, w)

    def sampler(self, sequences: int, s: Shape):
        logits = torch.randn(sequences, s.vocabulary, device=self.device)

        def sample():
            p = logits.softmax(dim=-1)
            return (p / torch.empty_like(p).exponential_()).argmax(dim=-1)

        return sample

    def prefill(self, chunk: int, context: int, s: Shape):
        q = self.rand(chunk, s.heads, s.dim)
        k, v = (self.rand(context + chunk, s.kv_heads, s.dim) for _ in range(2))
        if self.flashinfer:
            import flashinfer

            return lambda: flashinfer.single_prefill_with_kv_cache(q, k, v, causal=True)
        from torch.nn.attention.bias import causal_lower_right

        q, k, v = (x.transpose(0, 1).unsqueeze(0) for x in (q, k, v))
        mask = causal_lower_right(chunk, context + chunk)
        return lambda: F.scaled_dot_product_attention(q, k, v, attn_mask=mask, enable_gqa=s.heads != s.kv_heads)

    def decode(self, sequences: int, context: int, s: Shape):
        if self.flashinfer:
            return self.paged_decode(sequences, context, s)
        q = self.rand(sequences, s.heads, 1, s.dim)
        k, v = self.rand(sequences, s.kv_heads, context, s.dim), self.rand(sequences, s.kv_heads, context, s.dim)
        return lambda: F.scaled_dot_product_attention(q, k, v, enable_gqa=s.heads != s.kv_heads)

    def paged_decode(self, sequences: int, context: int, s: Shape):
        import flashinfer

        each = -(-context // PAGE)
        pages = self.rand(sequences * each, 2, PAGE, s.kv_heads, s.dim)
        q = self.rand(sequences, s.heads, s.dim)
        starts = torch.arange(sequences + 1, device=self.device, dtype=torch.int32) * each
        order = torch.randperm(sequences * each, device=self.device).to(torch.int32)
        last = torch.full((sequences,), (context - 1) % PAGE + 1, device=self.device, dtype=torch.int32)
        workspace = torch.empty(128 << 20, dtype=torch.uint8, device=self.device)
        wrapper = flashinfer.BatchDecodeWithPagedKVCacheWrapper(workspace, "NHD")
        wrapper.plan(starts, order, last, s.heads, s.kv_heads, s.dim, PAGE, q_data_type=q.dtype, kv_data_type=pages.dtype)
        return lambda: wrapper.run(q, pages)


@dataclass(frozen=True)
class Case:
    """One row of the file without its time."""

    operator: str
    parallel: int
    tokens: int
    sequences: int
    context: int

    def build(self, kernels: Kernels, s: Shape):
        n = self.tokens
        widths = {
            "qkv_proj": ((s.heads + 2 * s.kv_heads) * s.dim, s.hidden),
            "out_proj": (s.hidden, s.heads * s.dim),
            "up_proj": (2 * s.ffn, s.hidden),
            "down_proj": (s.hidden, s.ffn),
            "lm_head": (s.vocabulary, s.hidden),
        }
        if self.operator in widths:
            return kernels.product(n, *widths[self.operator])
        if self.operator == "attention_prefill":
            return kernels.prefill(n, self.context, s)
        if self.operator == "attention_decode":
            return kernels.decode(self.sequences, self.context, s)
        return getattr(kernels, self.operator)(n, s)

    def bytes(self, s: Shape) -> int:
        """An upper estimate of the memory that the call needs."""
        n = self.tokens
        if self.operator.startswith("attention"):
            elements = max(1, self.sequences) * (self.context + n) * 2 * s.kv_heads * s.dim + 3 * n * s.heads * s.dim
        else:
            widest = max(2 * s.ffn, (s.heads + 2 * s.kv_heads) * s.dim, s.hidden)
            if self.operator in ("lm_head", "sampler", "embedding"):
                widest = s.vocabulary
            elements = widest * s.hidden + 6 * n * (widest + s.hidden)
        return 6 * elements  # BF16, and FP32 while it is drawn


DENSE = ["qkv_proj", "out_proj", "up_proj", "down_proj", "norm", "add_norm", "activation", "rope", "add", "embedding"]


OPERATORS = [*DENSE, "lm_head", "sampler", "attention_prefill", "attention_decode"]


def cases(quick: bool, degrees: list[int]) -> list[Case]:
    """The grid: rows of dense operators, sequences and contexts of attention."""
    octaves = [n for k in range(4, 12) for n in (1 << k, 3 << (k - 1))]  # 16, 24, 32, 48, …, 3072
    tokens = [1, 16, 64] if quick else [1, 2, 4, 8, *octaves, 4096]
    sequences = [1, 8] if quick else [1, 2, 4, 8, 16, 32, 64, 128, 256]
    contexts = [64, 256] if quick else [128, 512, 1024, 2048, 4096, 8192, 16384, 32768, 65536, 131072]
    chunks = [32, 128] if quick else [16, 64, 128, 256, 512, 1024, 2048, 4096, 8192]
    before = [0, 128] if quick else [0, 512, 2048, 8192, 32768]
    grid = []
    for tp in degrees:
        grid += [Case(name, tp, n, 0, 0) for name in DENSE for n in tokens]
        grid += [Case(name, tp, n, n, 0) for name in ("lm_head", "sampler") for n in sequences]
        grid += [Case("attention_prefill", tp, n, 1, c) for n in chunks for c in before]
        grid += [Case("attention_decode", tp, n, n, c) for n in sequences for c in contexts]
    return grid


# ---- time ------------------------------------------------------------------------------------


class Clock:
    """Median times of calls in µs, each with a cold L2 cache.

    On a GPU a buffer replaces the cache's content right before each call. It is written as often as
    takes twice the time that the CPU needs to submit the call, so that time does not count. Then it
    is read, because the call would wait until changed lines are written back. Two events around
    nothing take time too: their median is subtracted.
    """

    def __init__(self, device: torch.device, repeats: int):
        self.device, self.repeats = device, repeats
        if device.type == "cuda":
            cache = getattr(torch.cuda.get_device_properties(device), "L2_cache_size", 64 << 20)
            self.other = torch.zeros(max(256 << 20, 4 * cache) // 4, dtype=torch.float32, device=device)
            self.write = 1e-3 * self._events(self.other.zero_, 1, 5)  # ms, of one write
            self.empty = 0.0
            self.empty = self.median(lambda: None)

    def median(self, call) -> float:
        submission = statistics.median([self._cpu(call) for _ in range(6)][3:])  # after three to warm up
        if self.device.type != "cuda":
            return statistics.median(self._cpu(call) for _ in range(self.repeats))
        return max(1e-3, self._events(call, 1 + int(2e-3 * submission / self.write), self.repeats) - self.empty)

    def _events(self, call, writes: int, repeats: int) -> float:
        """The median time between two events around a call, in µs, each after some writes."""
        torch.cuda.synchronize()
        pairs = [[torch.cuda.Event(enable_timing=True) for _ in range(2)] for _ in range(repeats)]
        for start, end in pairs:
            for _ in range(writes):
                self.other.zero_()
            self.other.sum()
            start.record()
            call()
            end.record()
        torch.cuda.synchronize()
        return 1e3 * statistics.median(start.elapsed_time(end) for start, end in pairs)

    @staticmethod
    def _cpu(call) -> float:
        begin = time.perf_counter_ns()
        call()
        return (time.perf_counter_ns() - begin) / 1e3


# ---- file ------------------------------------------------------------------------------------


class Rows:
    """The CSV file. Rows that an earlier run measured are kept. A row that it did not finish is cut."""

    def __init__(self, path: Path, comments: list[str]):
        self.path, self.done = path, set()
        if path.exists():
            self._continue()
        else:
            path.write_text("".join(f"# {c}\n" for c in comments) + ",".join(HEADER) + "\n")

    def _continue(self) -> None:
        lines = self.path.read_text().splitlines(keepends=True)
        rows = [line for line in lines if not line.startswith("#")]
        if not rows or rows[0].strip().split(",") != HEADER:
            raise MeasureError(f"{self.path} is no file of kernels: name another with --out")
        if not lines[-1].endswith("\n"):
            whole = self.path.with_name(self.path.name + ".part")
            whole.write_text("".join(lines[:-1]))
            os.replace(whole, self.path)
            rows.pop()
        self.done = {tuple(row[:-1]) for row in csv.reader(rows[1:])}

    def add(self, key: list[str], us: float) -> None:
        with self.path.open("a") as f:
            f.write(",".join([*key, f"{us:.5g}"]) + "\n")
        self.done.add(tuple(key))


# ---- command line ----------------------------------------------------------------------------


def flags() -> argparse.ArgumentParser:
    p = argparse.ArgumentParser(prog="measure.py", formatter_class=argparse.ArgumentDefaultsHelpFormatter,
                                description="Measure the kernels of a model on this machine's GPU, as CSV for `kvreplay hardware fit`.")
    p.add_argument("--model", required=True, help="a model of `kvreplay hardware list`")
    p.add_argument("--gpu", required=True, help="name of this GPU in `kvreplay hardware list`")
    p.add_argument("--out", required=True, type=Path, help="CSV file to write, or to continue")
    p.add_argument("--kvreplay", default="kvreplay", help="the program, which states the model's shape")
    p.add_argument("--tensor-parallel", type=degrees, default="1", help="numbers of GPUs that share heads and widths, such as 1,2,4")
    p.add_argument("--operators", nargs="+", choices=OPERATORS, default=OPERATORS, metavar="NAME", help="what to measure")
    p.add_argument("--device", default="cuda", help="cuda, cuda:1, or cpu to try the script without a GPU")
    p.add_argument("--quick", action="store_true", help="few shapes and 5 repeats")
    p.add_argument("--repeats", type=positive, help="timed calls of each kernel; 50 by default")
    p.add_argument("--software", help="column software; the version of PyTorch, and of FlashInfer if it runs, by default")
    shape_flags(p, FIELDS)
    return p


def shape_flags(p: argparse.ArgumentParser, fields: list[str]) -> None:
    shape = p.add_argument_group("shape of the model, instead of --kvreplay (all of them)")
    for field in fields:
        shape.add_argument("--" + field.replace("_", "-"), type=positive, default=argparse.SUPPRESS)


def positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError("expected a whole number from 1")
    return value


def degrees(text: str) -> list[int]:
    return [positive(part) for part in text.split(",")]


def shape_of(args: argparse.Namespace, fields: list[str] = FIELDS) -> dict:
    """The model's shape, from the flags of all fields or from kvreplay."""
    stated = {field: getattr(args, field) for field in fields if hasattr(args, field)}
    if len(stated) == len(fields):
        return stated
    if stated:
        missing = next(field for field in fields if field not in stated)
        raise MeasureError(f"--{missing.replace('_', '-')} is missing: state the whole shape, or nothing of it")
    try:
        text = subprocess.run([args.kvreplay, "hardware", "show", args.model, "--format", "json"],
                              check=True, capture_output=True, text=True).stdout
    except OSError as e:
        raise MeasureError(f"{args.kvreplay} does not start ({e.strerror}): use --kvreplay, or --hidden-size …") from e
    except subprocess.CalledProcessError as e:
        raise MeasureError(e.stderr.strip()) from e
    item = next((item for item in json.loads(text) if item["kind"] == "model"), None)
    if item is None:
        raise MeasureError(f"{args.model} is no model: choose one of `kvreplay hardware list`")
    lines = {line["field"]: line["value"] for line in item["lines"] if "value" in line}
    if lines.get("bytes_per_parameter", 2) != 2:
        raise MeasureError(f"weights of {args.model} have {lines['bytes_per_parameter']} B each, expected 2 (BF16)")
    if sparse := next((field for field in lines if field.startswith(("moe.", "latent."))), None):
        raise MeasureError(f"{args.model} states {sparse}: the script measures dense models without latent attention")
    if missing := [field for field in fields if field not in lines]:
        raise MeasureError(f"{args.model} states no {missing[0]}: the script measures dense models")
    return {field: int(lines[field]) for field in fields}


def description(device: torch.device, flashinfer: bool) -> tuple[str, list[str]]:
    """The name of the software, and comments for the file."""
    software = "torch-" + torch.__version__.split("+")[0]
    if device.type != "cuda":
        return software, [f"{software} on the CPU: these times only try the script."]
    runtime = torch.version.cuda or torch.version.hip
    lines = [f"{software}, CUDA {runtime}, {torch.cuda.get_device_name(device)}, BF16, medians."]
    if flashinfer:
        import flashinfer as package

        software += f"-flashinfer-{package.__version__}"
        lines.append(f"Attention by FlashInfer {package.__version__} with pages of {PAGE} tokens.")
    else:
        lines.append("Attention by scaled_dot_product_attention over a contiguous cache.")
    return software, lines


def measure(args: argparse.Namespace) -> None:
    device = torch.device(args.device)
    if device.type == "cuda" and not torch.cuda.is_available():
        raise MeasureError("PyTorch finds no GPU: install PyTorch with CUDA, or try the script with --device cpu")
    if device.index is not None and device.type == "cuda":
        torch.cuda.set_device(device)
    flashinfer = device.type == "cuda" and importlib.util.find_spec("flashinfer") is not None
    software, comments = description(device, flashinfer)
    software = args.software or software
    model = shape_of(args)
    shapes = {tp: Shape.of(model, tp) for tp in args.tensor_parallel}
    rows = Rows(args.out, comments)
    torch.manual_seed(0)
    torch.set_grad_enabled(False)
    kernels, clock = Kernels(device, flashinfer), Clock(device, args.repeats or (5 if args.quick else 50))
    todo = []
    for case in cases(args.quick, args.tensor_parallel):
        counts = (case.parallel, case.tokens, case.sequences, case.context)
        key = [case.operator, args.model, args.gpu, software, *map(str, counts)]
        if case.operator in args.operators and tuple(key) not in rows.done:
            todo.append((case, key))
    print(f"measure: {len(todo)} kernels, {len(rows.done)} are already in {args.out}", file=sys.stderr)
    left_out = 0
    for i, (case, key) in enumerate(todo):
        s = shapes[case.parallel]
        if device.type == "cuda" and case.bytes(s) > 0.8 * torch.cuda.mem_get_info(device)[0]:
            left_out += 1
            continue
        try:
            rows.add(key, clock.median(case.build(kernels, s)))
        except (RuntimeError, ImportError) as e:
            raise MeasureError(f"{case.operator} of {case.tokens} tokens: {str(e).strip().splitlines()[0]}") from e
        if sys.stderr.isatty():
            print(f"\r{i + 1}/{len(todo)} {case.operator:20}", end="", file=sys.stderr)
        if device.type == "cuda":
            torch.cuda.empty_cache()
    beyond = f", {left_out} exceed the GPU's memory" if left_out else ""
    print(f"measure: {args.out} has {len(rows.done)} kernels{beyond}", file=sys.stderr)


def main() -> int:
    args = flags().parse_args()
    try:
        measure(args)
    except MeasureError as e:
        print(f"measure: {e}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print(f"\nmeasure: stopped. {args.out} has all rows so far. The same command continues", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())

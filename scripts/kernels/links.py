"""Measures transfers between pinned host memory and a GPU and writes them as CSV for `kvreplay hardware fit`.

Needs PyTorch 2.6 or newer with Triton, and a C compiler. README.md has the commands.
"""

import argparse
import ctypes
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import torch

HEADER = "block_bytes,blocks,microseconds"
PATHS = ["call", "batch", "kernel"]
DIRECTIONS = ["h2d", "d2h"]
KB, MB, GB = 1 << 10, 1 << 20, 1 << 30
WORD = 4  # bytes of the elements that the kernel moves

# A driver call for each block. Python would take longer for a call than the driver does.
CALLS = """
typedef int (*copy_t)(void *, const void *, unsigned long, int, void *);
int calls(copy_t copy, void **to, void **from, unsigned long bytes, long n, void *stream) {
    for (long i = 0; i < n; i++) {
        int error = copy(to[i], from[i], bytes, 4, stream); /* 4: the addresses tell the direction */
        if (error) return error;
    }
    return 0;
}
"""


class LinkError(Exception):
    """An error that the user can correct."""


def points(path: str, quick: bool) -> list[tuple[int, int]]:
    """Bytes of a block and number of blocks of each request."""
    sizes = {
        "call": [512, 4 * KB, 32 * KB, 256 * KB, 2 * MB, 16 * MB, 256 * MB],
        "batch": [512, 2 * KB, 4 * KB, 8 * KB, 16 * KB, 24 * KB, 32 * KB, 64 * KB, 256 * KB, 2 * MB],
        "kernel": [64, 128, 256, 512, 656, 1152, 2 * KB, 4 * KB, 16 * KB, 64 * KB, 2 * MB],
    }[path]
    numbers = {"call": [1, 64, 2048], "batch": [64, 1024, 8192, 50_000], "kernel": [16, 256, 2048, 16_384, 131_072]}[path]
    limit = 1 * GB
    if quick:
        sizes, numbers, limit = sizes[1:4:2], numbers[:2], 8 * MB
    return [(size, n) for size in sizes for n in numbers if size * n <= limit]


# ---- one request -----------------------------------------------------------------------------


def kernel():
    """The kernel that moves rows, each program a tile of rows and words.

    Row i of the list is row `rows[i]` of the host's memory and row i of the GPU's.
    """
    try:
        import triton
        import triton.language as tl
    except ImportError as e:
        raise LinkError("Triton is missing: install PyTorch with CUDA, which has it") from e

    @triton.jit
    def move(to, source, rows, n, words: tl.constexpr, gather: tl.constexpr, aligned: tl.constexpr, ROWS: tl.constexpr, WORDS: tl.constexpr):
        near = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
        far = tl.load(rows + near, mask=near < n, other=0)
        column = tl.program_id(1) * WORDS + tl.arange(0, WORDS)
        valid = (near < n)[:, None] & (column < words)[None, :]
        near, far = near.to(tl.int64) * words, far * words
        if aligned:  # rows begin at multiples of 16 bytes
            near, far = tl.multiple_of(near, 4), tl.multiple_of(far, 4)
        near, far = near[:, None] + column[None, :], far[:, None] + column[None, :]
        if gather:
            tl.store(to + near, tl.load(source + far, mask=valid), mask=valid)
        else:
            tl.store(to + far, tl.load(source + near, mask=valid), mask=valid)

    return triton, move


class Mover:
    """Moves blocks between a pool of host memory and the GPU's memory."""

    def __init__(self, device: torch.device, pool: int):
        self.cuda = device.type == "cuda"
        self.device = device
        self.host = torch.empty(pool, dtype=torch.uint8, pin_memory=self.cuda)
        torch.arange(pool // 8, out=self.host.view(torch.int64))
        self.gpu = torch.empty(2 * GB if self.cuda else pool, dtype=torch.uint8, device=device)
        self.random = np.random.default_rng(0)
        self.sms = torch.cuda.get_device_properties(device).multi_processor_count if self.cuda else 4
        self.triton, self.move = kernel()
        if self.cuda:
            self.stream = torch.cuda.Stream(device)
            self.flush = torch.empty(256 * MB, dtype=torch.uint8, device=device)
            self.writing = statistics.median(self.time("call", self.flush.zero_) for _ in range(5))
            self.runtime = ctypes.CDLL(f"libcudart.so.{torch.version.cuda.split('.')[0]}")
            self.calls = compiled(CALLS).calls
        self.empty = 0.0

    def rows(self, size: int, n: int) -> np.ndarray:
        """n rows of the pool, at random and distinct if there are enough."""
        there = self.host.numel() // size
        return self.random.choice(there, n, replace=False) if n <= there else self.random.integers(there, size=n)

    def request(self, path: str, direction: str, size: int, rows: np.ndarray):
        """The function that submits the request of these rows."""
        n = len(rows)
        if path == "kernel":
            return self._kernel(direction, size, n, torch.from_numpy(rows).to(self.device))
        far = (self.host.data_ptr() + rows * size).astype(np.uint64)
        near = (self.gpu.data_ptr() + np.arange(n) * size).astype(np.uint64)
        to, source = (near, far) if direction == "h2d" else (far, near)
        if not self.cuda:
            return lambda: [ctypes.memmove(int(a), int(b), size) for a, b in zip(to, source)]
        return (self._calls if path == "call" else self._batch)(to, source, size, n)

    def _kernel(self, direction: str, size: int, n: int, rows: torch.Tensor):
        words = size // WORD
        wide = min(2048, self.triton.next_power_of_2(words))
        tall = max(1, min(2048 // wide, self.triton.next_power_of_2(-(-n // (4 * self.sms)))))
        grid = (-(-n // tall), -(-words // wide))
        to, source = (self.gpu, self.host) if direction == "h2d" else (self.host, self.gpu)
        to, source = to.view(torch.int32), source.view(torch.int32)
        return lambda: self.move[grid](to, source, rows, n, words, direction == "h2d", size % 16 == 0, tall, wide)

    def _calls(self, to: np.ndarray, source: np.ndarray, size: int, n: int):
        copy = ctypes.cast(self.runtime.cudaMemcpyAsync, ctypes.c_void_p)
        to_, source_ = (ctypes.c_void_p(a.ctypes.data) for a in (to, source))

        def run(hold=(to, source)):
            check(self.calls(copy, to_, source_, ctypes.c_ulong(size), ctypes.c_long(n), ctypes.c_void_p(self.stream.cuda_stream)))

        return run

    def _batch(self, to: np.ndarray, source: np.ndarray, size: int, n: int):
        if not hasattr(self.runtime, "cudaMemcpyBatchAsync"):
            raise LinkError(f"CUDA {torch.version.cuda} has no batches of copies: use --paths call kernel")
        sizes = np.full(n, size, np.uint64)
        attributes = (ctypes.c_int * 6)(1)  # reads in the order of the stream. The other fields are 0
        first = (ctypes.c_size_t * 1)(0)
        arguments = [ctypes.c_void_p(a.ctypes.data) for a in (to, source, sizes)]
        arguments += [ctypes.c_size_t(n), attributes, first, ctypes.c_size_t(1)]
        if int(torch.version.cuda.split(".")[0]) < 13:
            arguments.append(ctypes.byref(ctypes.c_size_t()))
        arguments.append(ctypes.c_void_p(self.stream.cuda_stream))

        def run(hold=(to, source, sizes)):
            check(self.runtime.cudaMemcpyBatchAsync(*arguments))

        return run

    # ---- time and test ----

    def submission(self, run) -> float:
        """Microseconds that the CPU needs to submit a request."""
        times = []
        for _ in range(6):  # three to warm up
            self.synchronize()
            begin = time.perf_counter_ns()
            with torch.cuda.stream(self.stream):
                run()
            times.append((time.perf_counter_ns() - begin) / 1e3)
        self.synchronize()
        return statistics.median(times[3:])

    def time(self, path: str, run, writes: int = 1) -> float:
        """Microseconds of one request, after some writes.

        Calls and batches begin with their submission. A kernel is submitted while the GPU writes, so
        its time is that of the GPU. A write is larger than the L2 cache.
        """
        if not self.cuda:
            begin = time.perf_counter_ns()
            run()
            return (time.perf_counter_ns() - begin) / 1e3
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        with torch.cuda.stream(self.stream):
            for _ in range(writes):
                self.flush.zero_()
            if path != "kernel":
                self.stream.synchronize()
            start.record()
            run()
            end.record()
        end.synchronize()
        return 1e3 * start.elapsed_time(end)

    def median(self, path: str, direction: str, size: int, n: int, repeats: int) -> float:
        """Microseconds of a request. Each repeat moves other rows, as the steps of a model do."""
        requests = [self.request(path, direction, size, self.rows(size, n)) for _ in range(2 + repeats)]
        writes = 1
        if self.cuda and path == "kernel":  # the writes take at least twice the submission
            writes += int(2 * self.submission(requests[0]) / self.writing)
        times = [self.time(path, request, writes) for request in requests]
        return max(1e-3, statistics.median(times[2:]) - self.empty)

    def test(self, path: str, direction: str, size: int, n: int) -> None:
        """Compares the bytes that arrive with those that left, and fails if they differ."""
        rows = self.rows(size, n)
        run = self.request(path, direction, size, rows)
        far, near = self.host[: self.host.numel() // size * size].view(-1, size), self.gpu[: n * size].view(n, size)
        at = torch.from_numpy(rows)
        if direction == "h2d":
            near.zero_()
        else:
            near.copy_(torch.randint(0, 256, (n, size), dtype=torch.uint8))
        self.synchronize()
        run()
        self.synchronize()
        if not torch.equal(far[at], near.cpu()):
            raise LinkError(f"{path} {direction} of {n} blocks of {size} bytes moved other bytes: report this")

    def synchronize(self) -> None:
        if self.cuda:
            torch.cuda.synchronize()


def compiled(source: str) -> ctypes.CDLL:
    with tempfile.TemporaryDirectory() as folder:
        code, library = Path(folder, "calls.c"), Path(folder, "calls.so")
        code.write_text(source)
        try:
            subprocess.run([os.environ.get("CC", "cc"), "-O2", "-shared", "-fPIC", "-o", library, code], check=True)
        except (OSError, subprocess.CalledProcessError) as e:
            raise LinkError(f"the C compiler does not run ({e}): install one, or name it in CC") from e
        return ctypes.CDLL(library)


def check(error: int) -> None:
    if error:
        raise LinkError(f"the driver refused a copy with error {error}: this GPU or driver cannot run the path")


# ---- command line ----------------------------------------------------------------------------


def flags() -> argparse.ArgumentParser:
    p = argparse.ArgumentParser(prog="links.py", formatter_class=argparse.ArgumentDefaultsHelpFormatter,
                                description="Measure transfers between host and GPU, as CSV for `kvreplay hardware fit`.")
    p.add_argument("--out", required=True, type=Path, help="folder to write, with a file for each path and direction")
    p.add_argument("--paths", nargs="+", choices=PATHS, default=PATHS, metavar="NAME", help="call, batch, kernel")
    p.add_argument("--directions", nargs="+", choices=DIRECTIONS, default=DIRECTIONS, metavar="NAME", help="h2d, d2h")
    p.add_argument("--pool", type=float, default=8, help="GiB of pinned host memory from which blocks are drawn")
    p.add_argument("--device", default="cuda", help="cuda, cuda:1, or cpu to try the script without a GPU")
    p.add_argument("--quick", action="store_true", help="few sizes and 3 repeats")
    p.add_argument("--repeats", type=int, help="timed requests of each point; 15 by default")
    return p


def run(args: argparse.Namespace) -> None:
    device = torch.device(args.device)
    if device.type == "cuda" and not torch.cuda.is_available():
        raise LinkError("PyTorch finds no GPU: try --device cpu, or install PyTorch with CUDA")
    if device.index is not None and device.type == "cuda":
        torch.cuda.set_device(device)
    repeats = args.repeats or (3 if args.quick else 15)
    pool = int((1 / 64 if args.quick else args.pool) * GB) // 16 * 16
    largest = max(size for path in args.paths for size, _ in points(path, args.quick))
    if pool < largest:
        raise LinkError(f"--pool {args.pool:g} is below the largest block of {largest / GB:g} GiB: state more")
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else "a CPU, no link"
    args.out.mkdir(parents=True, exist_ok=True)
    mover = Mover(device, pool)
    mover.empty = statistics.median(mover.time("kernel", lambda: None) for _ in range(repeats)) if mover.cuda else 0.0
    for path in args.paths:
        for direction in args.directions:
            mover.test(path, direction, 656, 100)
            rows = [f"# {name}, PyTorch {torch.__version__}, {pool / GB:g} GiB pinned, median of {repeats}", HEADER]
            for size, n in points(path, args.quick):
                rows.append(f"{size},{n},{mover.median(path, direction, size, n, repeats):.5g}")
            file = args.out / f"{path}-{direction}.csv"
            unfinished = file.with_suffix(".part")
            unfinished.write_text("\n".join(rows) + "\n")
            os.replace(unfinished, file)
            print(f"{file}: {len(rows) - 2} points", flush=True)


def main() -> int:
    args = flags().parse_args()
    if args.device == "cpu":
        os.environ["TRITON_INTERPRET"] = "1"  # runs the kernel without a GPU
    try:
        run(args)
    except KeyboardInterrupt:
        print("links.py: stopped, finished files are kept", file=sys.stderr)
        return 130
    except (LinkError, RuntimeError) as e:  # PyTorch's errors of memory too
        print(f"links.py: {str(e).splitlines()[0]}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

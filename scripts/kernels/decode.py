"""Times decoding steps of a model with random weights on one GPU, to compare with `kvreplay time`.

Needs PyTorch 2.6 or newer and its Triton. The mode `transformers` also needs Transformers.
README.md has the commands.
"""

import argparse
import csv
import gc
import itertools
import math
import os
import statistics
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn.functional as F

from measure import EPS, FIELDS, MeasureError, Shape, positive, rotate, shape_flags, shape_of

try:
    import triton
    import triton.language as tl
except ImportError:  # PyTorch for the CPU may lack it
    triton = None

HEADER = ["mode", "model", "device", "software", "batch", "context", "topk", "misses", "step_us", "p95_us"]
WARMUP = 3  # steps before the timed ones
PARTS = ["gather", "attention", "products"]
BLOCK = 64  # entries that a program of the attention kernel reads at once


# ---- kernels -----------------------------------------------------------------------------------
#
# Every operation exists twice: in plain PyTorch (Plain), and as Triton kernels (Fused). The script
# compares the two on random input before it times anything.
#
# An entry is K and then V of one token and KV head. A stream is a sequence and a KV head. All caches
# of a layer are one pool of slots, an array [slot, 2, head_dim].


@dataclass
class Store:
    """Where K and V of new tokens go: for each stream a row of numbers [row, head_dim], and the row `gap` after it."""

    numbers: torch.Tensor
    rows: torch.Tensor
    gap: int


class Plain:
    """The operations in PyTorch, which may wait for the GPU."""

    def add_norm(self, x, residual, weight):
        """Adds x to residual in place, and returns the RMS norm of the sum."""
        residual += x
        return F.rms_norm(residual, (residual.shape[-1],), weight, EPS)

    def activation(self, x):
        gate, up = x.chunk(2, dim=-1)
        return F.silu(gate.float()).mul(up.float()).to(x.dtype)

    def rope(self, qkv, cos, sin, s: Shape, stores):
        """Returns rotated queries. Writes K and V of the new token to each place of stores."""
        batch = qkv.shape[0]
        x = qkv.view(batch, s.heads + 2 * s.kv_heads, s.dim)
        q, k, v = x.split([s.heads, s.kv_heads, s.kv_heads], dim=1)
        for to in stores:
            numbers, rows = to.numbers.view(-1, s.dim), to.rows.to(to.numbers.device).long()
            numbers[rows] = rotate(k, cos, sin).reshape(-1, s.dim).to(numbers.device)
            numbers[rows + to.gap] = v.reshape(-1, s.dim).to(numbers.device)
        return rotate(q, cos, sin)

    def look_up(self, demand, table, free, tokens, state):
        """Finds the slots of the demanded tokens, and lists the missing entries.

        The list is state.sources and state.targets, its length state.count, which was 0. A missing
        entry takes the next free slot, and the table names it.
        """
        slots = table.gather(1, demand.long())
        stream, column = (slots < 0).nonzero(as_tuple=True)
        n = len(stream)
        token = demand[stream, column].long()
        slots[stream, column] = free[:n]
        table[stream, token] = free[:n]
        state.slots.copy_(slots)
        state.sources[:n] = stream.int() * tokens + token.int()
        state.targets[:n] = free[:n]
        state.count.fill_(n)

    def gather(self, host, pool, state):
        """Copies the listed entries from host memory to their slots."""
        n = int(state.count)
        pool[state.targets[:n].long()] = host[state.sources[:n].to(host.device).long()].to(pool.device)

    def attend(self, q, pool, slots, s: Shape):
        """Attention of each query head to the slots of its stream."""
        batch, group = q.shape[0], s.heads // s.kv_heads
        entries = pool[slots.long()].float().view(batch, s.kv_heads, -1, 2, s.dim)
        q = q.float().view(batch, s.kv_heads, group, s.dim)
        p = (torch.einsum("bhgd,bhnd->bhgn", q, entries[..., 0, :]) * s.dim**-0.5).softmax(dim=-1)
        return torch.einsum("bhgn,bhnd->bhgd", p, entries[..., 1, :]).reshape(batch, -1).to(pool.dtype)


if triton is not None:

    @triton.jit
    def add_norm_kernel(x, residual, weight, out, eps, WIDTH: tl.constexpr, SIZE: tl.constexpr):
        at = tl.arange(0, SIZE)
        inside = at < WIDTH
        row = tl.program_id(0) * WIDTH + at
        total = tl.load(x + row, mask=inside, other=0).to(tl.float32)
        total += tl.load(residual + row, mask=inside, other=0).to(tl.float32)
        total = total.to(tl.bfloat16)
        tl.store(residual + row, total, mask=inside)
        total = total.to(tl.float32)
        scale = 1 / tl.sqrt(tl.sum(total * total) / WIDTH + eps)
        w = tl.load(weight + at, mask=inside, other=0).to(tl.float32)
        tl.store(out + row, (total * scale * w).to(tl.bfloat16), mask=inside)

    @triton.jit
    def activation_kernel(x, out, width, SIZE: tl.constexpr):
        row = tl.program_id(0).to(tl.int64)
        at = tl.program_id(1) * SIZE + tl.arange(0, SIZE)
        inside = at < width
        gate = tl.load(x + row * 2 * width + at, mask=inside, other=0).to(tl.float32)
        up = tl.load(x + row * 2 * width + width + at, mask=inside, other=0).to(tl.float32)
        tl.store(out + row * width + at, (gate * tl.sigmoid(gate) * up).to(tl.bfloat16), mask=inside)

    @triton.jit
    def rope_kernel(qkv, cos, sin, q, first, first_rows, first_gap, second, second_rows, second_gap,
                    HEADS: tl.constexpr, KV: tl.constexpr, DIM: tl.constexpr, HALF: tl.constexpr, STORES: tl.constexpr):
        row, head = tl.program_id(0), tl.program_id(1)
        at = tl.arange(0, HALF)
        inside = at < DIM // 2
        x = qkv + (row * (HEADS + 2 * KV) + head) * DIM
        a = tl.load(x + at, mask=inside, other=0)
        b = tl.load(x + DIM // 2 + at, mask=inside, other=0)
        if head < HEADS + KV:
            c, s = tl.load(cos + at, mask=inside, other=0), tl.load(sin + at, mask=inside, other=0)
            af, bf = a.to(tl.float32), b.to(tl.float32)
            a, b = (af * c - bf * s).to(tl.bfloat16), (bf * c + af * s).to(tl.bfloat16)
        if head < HEADS:
            y = q + (row * HEADS + head) * DIM
            tl.store(y + at, a, mask=inside)
            tl.store(y + DIM // 2 + at, b, mask=inside)
        else:
            of = (head - HEADS) // KV  # 0 is K and 1 is V
            stream = row * KV + (head - HEADS) % KV
            y = first + (tl.load(first_rows + stream).to(tl.int64) + of * first_gap) * DIM
            tl.store(y + at, a, mask=inside)
            tl.store(y + DIM // 2 + at, b, mask=inside)
            if STORES == 2:
                y = second + (tl.load(second_rows + stream).to(tl.int64) + of * second_gap) * DIM
                tl.store(y + at, a, mask=inside)
                tl.store(y + DIM // 2 + at, b, mask=inside)

    @triton.jit
    def look_up_kernel(demand, table, free, slots, sources, targets, count, tokens, topk, SIZE: tl.constexpr):
        stream = tl.program_id(0)
        at = tl.program_id(1) * SIZE + tl.arange(0, SIZE)
        inside = at < topk
        token = tl.load(demand + stream * topk + at, mask=inside, other=0)
        place = table + stream.to(tl.int64) * tokens + token
        slot = tl.load(place, mask=inside, other=0)
        missing = (slot < 0).to(tl.int32)
        n = tl.sum(missing)
        begin = tl.atomic_add(count, n)
        rank = begin + tl.cumsum(missing, 0) - 1
        fetched = slot < 0
        target = tl.load(free + rank, mask=fetched, other=0)
        tl.store(sources + rank, stream * tokens + token, mask=fetched)
        tl.store(targets + rank, target, mask=fetched)
        tl.store(place, target, mask=fetched)
        tl.store(slots + stream * topk + at, tl.where(fetched, target, slot), mask=inside)

    @triton.jit
    def gather_kernel(host, pool, sources, targets, count, WIDTH: tl.constexpr, SIZE: tl.constexpr, ROWS: tl.constexpr):
        n = tl.load(count)
        column = tl.arange(0, SIZE)
        begin = tl.program_id(0) * ROWS
        while begin < n:
            row = begin + tl.arange(0, ROWS)
            source = tl.load(sources + row, mask=row < n, other=0).to(tl.int64)
            target = tl.load(targets + row, mask=row < n, other=0).to(tl.int64)
            mask = (row < n)[:, None] & (column < WIDTH)[None, :]
            x = tl.load(host + source[:, None] * WIDTH + column[None, :], mask=mask, other=0)
            tl.store(pool + target[:, None] * WIDTH + column[None, :], x, mask=mask)
            begin += tl.num_programs(0) * ROWS

    @triton.jit
    def attend_kernel(q, pool, slots, sums, weights, peaks, topk, part, scale, GROUP: tl.constexpr,
                      DIM: tl.constexpr, SIZE: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr, NUMBER: tl.constexpr):
        stream, split = tl.program_id(0), tl.program_id(1)
        head, d = tl.arange(0, ROWS), tl.arange(0, SIZE)
        mask = (head < GROUP)[:, None] & (d < DIM)[None, :]
        query = tl.load(q + (stream * GROUP + head)[:, None] * DIM + d[None, :], mask=mask, other=0)
        peak = tl.full([ROWS], -1e30, tl.float32)
        weight = tl.zeros([ROWS], tl.float32)
        acc = tl.zeros([ROWS, SIZE], tl.float32)
        end = tl.minimum(topk, (split + 1) * part)
        for begin in range(split * part, end, BLOCK):
            at = begin + tl.arange(0, BLOCK)
            slot = tl.load(slots + stream * topk + at, mask=at < end, other=0).to(tl.int64)
            entry = pool + slot[:, None] * (2 * DIM) + d[None, :]
            inside = (at < end)[:, None] & (d < DIM)[None, :]
            k = tl.load(entry, mask=inside, other=0)
            v = tl.load(entry + DIM, mask=inside, other=0)
            score = tl.dot(query.to(NUMBER), tl.trans(k).to(NUMBER)) * scale
            score = tl.where((at < end)[None, :], score, -1e30)
            top = tl.maximum(peak, tl.max(score, 1))
            p = tl.exp(score - top[:, None])
            shrink = tl.exp(peak - top)
            weight = weight * shrink + tl.sum(p, 1)
            acc = acc * shrink[:, None] + tl.dot(p.to(NUMBER), v.to(NUMBER))
            peak = top
        to = (stream * tl.num_programs(1) + split) * GROUP + head
        tl.store(sums + to[:, None] * DIM + d[None, :], acc, mask=mask)
        tl.store(weights + to, weight, mask=head < GROUP)
        tl.store(peaks + to, peak, mask=head < GROUP)

    @triton.jit
    def combine_kernel(sums, weights, peaks, out, splits, GROUP: tl.constexpr, DIM: tl.constexpr,
                       SIZE: tl.constexpr, SPLITS: tl.constexpr):
        stream, head = tl.program_id(0), tl.program_id(1)
        d, split = tl.arange(0, SIZE), tl.arange(0, SPLITS)
        at = (stream * splits + split) * GROUP + head
        peak = tl.load(peaks + at, mask=split < splits, other=-1e30)
        share = tl.exp(peak - tl.max(peak))
        weight = tl.sum(tl.load(weights + at, mask=split < splits, other=0) * share)
        mask = (split < splits)[:, None] & (d < DIM)[None, :]
        x = tl.load(sums + at[:, None] * DIM + d[None, :], mask=mask, other=0)
        y = tl.sum(x * share[:, None], 0) / weight
        tl.store(out + (stream * GROUP + head) * DIM + d, y.to(tl.bfloat16), mask=d < DIM)


def interpreted() -> bool:
    """Whether Triton runs kernels on the CPU. It then multiplies FP32 matrices only."""
    return triton is not None and os.environ.get("TRITON_INTERPRET") == "1"


class Fused:
    """The operations as Triton kernels. They never wait for the GPU."""

    def __init__(self, processors: int):
        self.programs = processors * 8  # of the gather: enough warps to fill the link

    def add_norm(self, x, residual, weight):
        out, width = torch.empty_like(residual), residual.shape[-1]
        add_norm_kernel[(len(x),)](x, residual, weight, out, EPS, WIDTH=width, SIZE=triton.next_power_of_2(width))
        return out

    def activation(self, x):
        width = x.shape[-1] // 2
        out = x.new_empty(len(x), width)
        activation_kernel[(len(x), triton.cdiv(width, 1024))](x, out, width, SIZE=1024)
        return out

    def rope(self, qkv, cos, sin, s: Shape, stores):
        batch = len(qkv)
        q = qkv.new_empty(batch, s.heads, s.dim)
        a, b = stores[0], stores[-1]
        rope_kernel[(batch, s.heads + 2 * s.kv_heads)](
            qkv, cos, sin, q, a.numbers, a.rows, a.gap, b.numbers, b.rows, b.gap, HEADS=s.heads, KV=s.kv_heads, DIM=s.dim,
            HALF=triton.next_power_of_2(s.dim // 2), STORES=len(stores), num_warps=1)
        return q

    def look_up(self, demand, table, free, tokens, state):
        streams, topk = demand.shape
        look_up_kernel[(streams, triton.cdiv(topk, 256))](
            demand, table, free, state.slots, state.sources, state.targets, state.count, tokens, topk, SIZE=256)

    def gather(self, host, pool, state):
        width = 2 * pool.shape[-1]
        gather_kernel[(self.programs,)](host, pool, state.sources, state.targets, state.count, WIDTH=width,
                                        SIZE=triton.next_power_of_2(width), ROWS=8)

    def attend(self, q, pool, slots, s: Shape):
        streams, topk = slots.shape
        group = s.heads // s.kv_heads
        blocks = triton.cdiv(topk, BLOCK)
        part = BLOCK * triton.cdiv(blocks, max(1, min(blocks, triton.cdiv(self.programs // 2, streams))))
        splits = triton.cdiv(topk, part)
        sums = torch.empty(streams, splits, group, s.dim, device=q.device)
        weights, peaks = torch.empty(2, streams, splits, group, device=q.device)
        size = triton.next_power_of_2(s.dim)
        attend_kernel[(streams, splits)](q, pool, slots, sums, weights, peaks, topk, part, s.dim**-0.5, GROUP=group,
                                         DIM=s.dim, SIZE=size, ROWS=max(16, triton.next_power_of_2(group)), BLOCK=BLOCK,
                                         NUMBER=tl.float32 if interpreted() else tl.bfloat16)
        out = q.new_empty(q.shape[0], s.heads * s.dim)
        combine_kernel[(streams, group)](sums, weights, peaks, out, splits, GROUP=group, DIM=s.dim, SIZE=size,
                                         SPLITS=triton.next_power_of_2(splits))
        return out


@dataclass
class State:
    """The result of the last look-up: slots of all demanded entries, and the list of missing ones."""

    slots: torch.Tensor
    sources: torch.Tensor
    targets: torch.Tensor
    count: torch.Tensor

    @staticmethod
    def of(streams: int, topk: int, count: torch.Tensor) -> "State":
        slots = torch.zeros(streams, topk, dtype=torch.int32, device=count.device)
        return State(slots, slots.flatten().clone(), slots.flatten().clone(), count)


def compare(fused: Fused, s: Shape, device: torch.device) -> None:
    """Compares Triton kernels with PyTorch on random input, and raises MeasureError if they differ."""
    plain, torch_rand = Plain(), torch.Generator(device).manual_seed(1)

    def rand(*size):
        return torch.randn(*size, device=device, generator=torch_rand).to(torch.bfloat16)

    def same(name: str, a: torch.Tensor, b: torch.Tensor, error: float = 0.0) -> None:
        difference = (a.double() - b.double().to(a.device)).abs().max().item()
        if not difference <= error * max(1.0, b.double().abs().max().item()):
            raise MeasureError(f"Triton's {name} differs from PyTorch's by {difference:.3g}: report it with your versions")

    rounding = 2.0**-6  # two units in the last place
    batch, tokens, topk = 2, 320, 150  # no multiple of a block
    streams = batch * s.kv_heads
    x, r, w = rand(batch, s.hidden), rand(batch, s.hidden), rand(s.hidden)
    r2 = r.clone()
    same("add_norm", fused.add_norm(x, r, w), plain.add_norm(x, r2, w), rounding)
    same("residual", r, r2, rounding)
    x = rand(batch, 2 * s.ffn)
    same("activation", fused.activation(x), plain.activation(x), rounding)

    host = rand(streams * tokens, 2, s.dim).cpu()
    if device.type == "cuda":
        host = host.pin_memory()
    hosts = [host, host.clone()]
    load = Load(streams, tokens, topk, 2 * topk, device)
    tables = [torch.empty(streams, tokens, dtype=torch.int32, device=device)]
    free = torch.zeros(streams * topk, dtype=torch.int32, device=device)
    demand = load.demand(tables[0], free, streams * topk // 3)
    slots = tables[0].gather(1, demand.long())
    kept = slots >= 0
    pools = [torch.zeros(streams * load.slots, 2, s.dim, device=device, dtype=torch.bfloat16) for _ in range(2)]
    entries = host.view(streams, tokens, 2, s.dim)[torch.arange(streams)[:, None], demand.cpu().long()].to(device)
    for pool in pools:
        pool[slots[kept].long()] = entries[kept]
    tables.append(tables[0].clone())
    cos, sin = torch.rand(2, s.dim // 2, device=device)
    qkv = rand(batch, (s.heads + 2 * s.kv_heads) * s.dim)
    new = load.newest()
    states = [State.of(streams, topk, torch.zeros(1, dtype=torch.int32, device=device)) for _ in range(2)]
    q, out = [], []
    for ops, host, pool, table, state in zip((fused, plain), hosts, pools, tables, states, strict=True):
        q.append(ops.rope(qkv, cos, sin, s, [Store(pool, 2 * slots[:, 0], 1), Store(host, 2 * new, 1)]))
        ops.look_up(demand, table, free, tokens, state)
        ops.gather(host, pool, state)
        out.append(ops.attend(q[-1], pool, state.slots, s))
    if device.type == "cuda":
        torch.cuda.synchronize()
    same("rotated queries", *q, rounding)
    same("entries in host memory", *hosts, rounding)
    same("number of misses", states[0].count, states[1].count)
    if int(states[0].count) != streams * topk // 3:
        raise MeasureError(f"{int(states[0].count)} entries miss instead of {streams * topk // 3}: report it")
    for name, table, state, pool in zip(("Triton", "PyTorch"), tables, states, pools, strict=True):
        same(f"table ({name})", table.gather(1, demand.long()), state.slots)
        same(f"gather ({name})", pool[state.slots.long()][:, 1:], entries[:, 1:])
    same("attention", *out, rounding)


# ---- load --------------------------------------------------------------------------------------


class Load:
    """Random demands: which tokens each stream reads, and where the cache has them.

    The first demanded token of a stream is the newest one, which is always resident.
    """

    def __init__(self, streams: int, tokens: int, topk: int, slots: int, device: torch.device):
        self.streams, self.tokens, self.topk, self.slots, self.device = streams, tokens, topk, slots, device

    def newest(self) -> torch.Tensor:
        """Rows of the new tokens in host memory."""
        return (torch.arange(1, self.streams + 1, device=self.device) * self.tokens - 1).int()

    def demand(self, table: torch.Tensor, free: torch.Tensor, misses: int) -> torch.Tensor:
        """Draws tokens [stream, topk] so that `misses` of all streams together are missing from table."""
        n, k, device = self.streams, self.topk, self.device
        newest = torch.full((n, 1), self.tokens - 1, device=device)
        demand = torch.cat([newest, self.draw(k - 1, self.tokens - 1)], dim=1)
        counts = torch.full((n, 1), misses // n, device=device)
        counts[: misses % n] += 1
        column = torch.arange(k, device=device)  # tokens are in random order, so the first ones miss
        missing = (column > 0) & (column <= counts)
        slot = self.draw(k, self.slots) + torch.arange(n, device=device)[:, None] * self.slots
        slot = slot.int()
        table.fill_(-1)
        table.scatter_(1, demand, slot.masked_fill(missing, -1))
        free[:misses] = slot[missing]
        return demand.int()

    def draw(self, k: int, limit: int) -> torch.Tensor:
        """Draws [stream, k] different numbers below limit: one from each of k equal ranges, in random order."""
        width = limit // k if k else 0
        low = torch.randperm(k, device=self.device) * width
        return low + torch.randint(max(1, width), (self.streams, k), device=self.device)


def read_misses(path: Path, layers: int) -> list[list[int]]:
    """Misses of each step and layer, summed over sequences and KV heads."""
    try:
        with path.open(newline="") as f:
            rows = [(int(r["step"]), int(r["layer"]), int(r["misses"])) for r in csv.DictReader(f)]
    except OSError as e:
        raise MeasureError(f"{path} is not readable ({e.strerror}): state another file with --misses") from e
    except (KeyError, TypeError, ValueError) as e:
        raise MeasureError(f"{path} has no whole numbers step,layer,misses in each row: write these columns") from e
    found = {(step, layer): misses for step, layer, misses in rows}
    steps = sorted({step for step, _ in found})
    for step, layer in itertools.product(steps, range(layers)):
        if found.get((step, layer), -1) < 0:
            raise MeasureError(f"{path} has no misses of step {step}, layer {layer}: state all {layers} layers")
    if not steps or len(found) != len(steps) * layers:
        raise MeasureError(f"{path} has {len(found)} rows, expected {layers} layers of each step: correct it")
    return [[found[step, layer] for layer in range(layers)] for step in steps]


# ---- model -------------------------------------------------------------------------------------


class Model:
    """Random weights, and the part of a step that does not depend on the cache."""

    def __init__(self, s: Shape, layers: int, device: torch.device, ops):
        self.s, self.layers, self.device, self.ops = s, layers, device, ops
        widths = [((s.heads + 2 * s.kv_heads) * s.dim, s.hidden), (s.hidden, s.heads * s.dim),
                  (2 * s.ffn, s.hidden), (s.hidden, s.ffn)]
        self.weights = [[self.rand(*w) for w in widths] for _ in range(layers)]
        self.embedding, self.head = self.rand(s.vocabulary, s.hidden), self.rand(s.vocabulary, s.hidden)
        self.norm = torch.ones(s.hidden, device=device, dtype=torch.bfloat16)
        angle = torch.rand(s.dim // 2, device=device)
        self.cos, self.sin = angle.cos(), angle.sin()
        self.without: set[str] = set()  # parts of a step that are left out
        self.outputs: dict = {}

    def rand(self, *size: int) -> torch.Tensor:
        # values of trained weights are small, and power draw depends on the data
        return torch.empty(*size, device=self.device, dtype=torch.bfloat16).normal_(std=0.02)

    def product(self, x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        if "products" not in self.without:
            return F.linear(x, w)
        key = (len(x), len(w))
        if key not in self.outputs:
            self.outputs[key] = torch.zeros(key, device=self.device, dtype=torch.bfloat16)
        return self.outputs[key]

    def step(self, ids: torch.Tensor, attention) -> torch.Tensor:
        """A decoding step of ids [batch]: the next ids. attention(layer, qkv) is a layer's attention."""
        residual = torch.zeros(len(ids), self.s.hidden, device=self.device, dtype=torch.bfloat16)
        x = F.embedding(ids, self.embedding)
        for layer, (qkv, out, up, down) in enumerate(self.weights):
            x = self.ops.add_norm(x, residual, self.norm)
            x = self.product(attention(layer, self.product(x, qkv)), out)
            x = self.ops.add_norm(x, residual, self.norm)
            x = self.product(self.ops.activation(self.product(x, up)), down)
        logits = self.product(self.ops.add_norm(x, residual, self.norm), self.head)
        p = logits.float().softmax(dim=-1)
        return (p / torch.empty_like(p).exponential_()).argmax(dim=-1)


class Dense:
    """Attention to the whole context, which the GPU has."""

    def __init__(self, m: Model, batch: int, context: int):
        self.m, s = m, m.s
        self.cache = [m.rand(2, batch, s.kv_heads, context, s.dim) for _ in range(m.layers)]
        streams = batch * s.kv_heads
        self.rows = (torch.arange(1, streams + 1, device=m.device) * context - 1).int()  # of the new tokens

    def prepare(self, step: int) -> None:
        pass

    check = prepare

    def attention(self, layer: int, qkv: torch.Tensor) -> torch.Tensor:
        m, s = self.m, self.m.s
        batch, cache = len(qkv), self.cache[layer]
        q = m.ops.rope(qkv, m.cos, m.sin, s, [Store(cache, self.rows, cache[0].numel() // s.dim)])
        if "attention" in m.without:
            return q.view(batch, -1)
        out = F.scaled_dot_product_attention(q.unsqueeze(2), cache[0], cache[1], enable_gqa=s.heads != s.kv_heads)
        return out.reshape(batch, -1)


class Offloaded:
    """Attention to topk tokens of each stream. Host memory has all entries, the GPU some of them."""

    def __init__(self, m: Model, batch: int, context: int, topk: int, slots: int, misses: list[list[int]], host: "Host"):
        self.m, self.misses, s = m, misses, m.s
        streams = batch * s.kv_heads
        self.load = Load(streams, context, topk, slots, m.device)
        self.most = streams * (topk - 1)  # the newest token never misses
        if (worst := max(map(max, misses))) > self.most:
            raise MeasureError(f"{worst} misses of a layer exceed {self.most}: the newest tokens never miss")
        self.host = host.layers(m.layers, streams * context)
        self.pools = [m.rand(streams * slots, 2, s.dim) for _ in range(m.layers)]
        self.new = 2 * self.load.newest()

        def ints(*size):
            return torch.zeros(m.layers, *size, dtype=torch.int32, device=m.device)

        self.tables, self.demands, self.free = ints(streams, context), ints(streams, topk), ints(streams * topk)
        self.newest, self.counts = ints(streams), ints(1)
        self.state = State.of(streams, topk, self.counts[0])

    def prepare(self, step: int) -> None:
        """Draws the demands of a step."""
        self.counts.zero_()
        for layer, misses in enumerate(self.misses[step % len(self.misses)]):
            self.demands[layer] = self.load.demand(self.tables[layer], self.free[layer], misses)
            self.newest[layer] = 2 * self.tables[layer][:, -1]  # row of the slot in the pool

    def check(self, step: int) -> None:
        """Raises MeasureError unless the last step, number `step`, fetched as many entries as it should."""
        expected = self.misses[step % len(self.misses)]
        if (found := self.counts.flatten().tolist()) != expected:
            raise MeasureError(f"layers fetched {found} entries instead of {expected}: report it with your versions")

    def attention(self, layer: int, qkv: torch.Tensor) -> torch.Tensor:
        m, ops, pool, host = self.m, self.m.ops, self.pools[layer], self.host[layer]
        self.state.count = self.counts[layer]
        q = ops.rope(qkv, m.cos, m.sin, m.s, [Store(pool, self.newest[layer], 1), Store(host, self.new, 1)])
        ops.look_up(self.demands[layer], self.tables[layer], self.free[layer], self.load.tokens, self.state)
        if "gather" not in m.without:
            ops.gather(host, pool, self.state)
        if "attention" in m.without:
            return q.view(len(qkv), -1)
        return ops.attend(q, pool, self.state.slots, m.s)


class Host:
    """Pinned host memory, which all configurations share.

    Layers share buffers if there are fewer than layers. Pinning takes seconds, so the memory only
    grows.
    """

    def __init__(self, device: torch.device, dim: int, buffers: int):
        self.device, self.dim, self.buffers = device, dim, buffers
        self.entries = torch.empty(0, 2, dim, dtype=torch.bfloat16)

    def layers(self, layers: int, rows: int) -> list[torch.Tensor]:
        n = min(layers, self.buffers)
        if len(self.entries) < n * rows:
            cuda = self.device.type == "cuda"
            self.entries = self.entries[:0].clone()
            self.entries = torch.empty(n * rows, 2, self.dim, dtype=torch.bfloat16, pin_memory=cuda)
            for part in self.entries.split(1 << 20):
                part.copy_(torch.empty_like(part, device=self.device).normal_(std=0.02))
        return [self.entries[i % n * rows : (i % n + 1) * rows] for i in range(layers)]


# ---- time --------------------------------------------------------------------------------------


class Clock:
    """Times of steps in µs."""

    def __init__(self, device: torch.device, steps: int, eager: bool):
        self.device, self.steps, self.graph = device, steps, device.type == "cuda" and not eager
        if self.graph:
            self.other = torch.empty(256 << 20, dtype=torch.uint8, device=device)

    def time(self, prepare, step) -> list[float]:
        """Calls prepare(i) and then step(), WARMUP + steps times. Only step counts.

        With a graph the GPU writes other memory while the CPU submits the step, so the CPU's time
        does not count. Without one the GPU is idle when a step begins, and the CPU's time counts.
        """
        if self.device.type != "cuda":
            return [self._cpu(prepare, step, i) for i in range(WARMUP + self.steps)][WARMUP:]
        prepare(0)
        if self.graph:
            step = self.capture(step)
            writes = self.writes(step)
        events = []
        for i in range(WARMUP + self.steps):
            prepare(i)
            if self.graph:
                for _ in range(writes):
                    self.other.zero_()
            else:
                torch.cuda.synchronize()
            pair = [torch.cuda.Event(enable_timing=True) for _ in range(2)]
            pair[0].record()
            step()
            pair[1].record()
            events.append(pair)
        torch.cuda.synchronize()
        return [1e3 * a.elapsed_time(b) for a, b in events[WARMUP:]]

    def writes(self, step) -> int:
        """The number of writes that take at least twice the time that the CPU needs to submit a step."""
        submission = []
        for _ in range(3):
            torch.cuda.synchronize()
            begin = time.perf_counter_ns()
            step()
            submission.append((time.perf_counter_ns() - begin) / 1e6)
        pair = [torch.cuda.Event(enable_timing=True) for _ in range(2)]
        pair[0].record()
        for _ in range(16):
            self.other.zero_()
        pair[1].record()
        torch.cuda.synchronize()
        return max(16, math.ceil(2 * max(submission) / (pair[0].elapsed_time(pair[1]) / 16)))

    @staticmethod
    def capture(step):
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            step()  # compiles kernels
        torch.cuda.current_stream().wait_stream(side)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            step()
        return graph.replay

    @staticmethod
    def _cpu(prepare, step, i: int) -> float:
        prepare(i)
        begin = time.perf_counter_ns()
        step()
        return (time.perf_counter_ns() - begin) / 1e3


def transformers_times(args, shape: dict, batch: int, context: int, offload: bool, model) -> list[float]:
    """Times of greedy steps of Transformers after a prompt of `context` tokens."""
    from transformers import DynamicCache

    device = torch.device(args.device)
    cache = DynamicCache(config=model.config, offloading=True) if offload else DynamicCache(config=model.config)
    ids = torch.randint(shape["vocabulary"], (batch, context), device=device)
    for part in ids.split(max(1, 16384 // batch), dim=1):  # a prefill in chunks
        logits = model(input_ids=part, past_key_values=cache, use_cache=True, logits_to_keep=1).logits
    ids = logits[:, -1:].argmax(dim=-1)

    def step():
        nonlocal ids
        ids = model(input_ids=ids, past_key_values=cache, use_cache=True, logits_to_keep=1).logits[:, -1:].argmax(dim=-1)

    return Clock(device, args.steps, eager=True).time(lambda i: None, step)


def transformers_model(shape: dict, device: torch.device):
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(vocab_size=shape["vocabulary"], hidden_size=shape["hidden_size"], intermediate_size=shape["ffn_size"],
                         num_hidden_layers=shape["layers"], num_attention_heads=shape["query_heads"],
                         num_key_value_heads=shape["kv_heads"], head_dim=shape["head_dim"],
                         max_position_embeddings=1 << 20, dtype=torch.bfloat16, attn_implementation="sdpa")
    default = torch.get_default_dtype()
    torch.set_default_dtype(torch.bfloat16)
    try:
        with device:
            return LlamaForCausalLM(config).eval()
    finally:
        torch.set_default_dtype(default)


# ---- command line ------------------------------------------------------------------------------


def flags() -> argparse.ArgumentParser:
    p = argparse.ArgumentParser(prog="decode.py", description="Time decoding steps of a model with random weights on one GPU.")
    p.add_argument("mode", choices=["dense", "offloaded", "transformers"],
                   help="dense: all KV on the GPU. offloaded: KV in host memory, Top-K attention. transformers: Hugging Face's model")
    p.add_argument("--model", required=True, help="a model of `kvreplay hardware list`")
    p.add_argument("--gpu", required=True, help="column device: name of this GPU")
    p.add_argument("--out", required=True, type=Path, help="CSV file to write, or to append to")
    p.add_argument("--kvreplay", default="kvreplay", help="the program, which states the model's shape")
    p.add_argument("--batch", type=whole, default="1", help="numbers of sequences, such as 1,8 (default 1)")
    p.add_argument("--context", type=whole, default="2048", help="tokens of context, such as 2048,8192 (default 2048)")
    p.add_argument("--topk", type=positive, default=1024, help="offloaded: tokens that a KV head attends to (default 1024)")
    p.add_argument("--slots", type=positive, help="offloaded: cache of a sequence, KV head and layer in tokens (default 2 × topk)")
    p.add_argument("--miss", type=whole, default="0", help="offloaded: misses of each sequence, KV head and layer, such as 0,64 (default 0)")
    p.add_argument("--misses", type=Path, help="offloaded: CSV file with step,layer,misses of all sequences and KV heads, instead of --miss")
    p.add_argument("--host-buffers", type=positive, default=1 << 20,
                   help="offloaded: layers with their own host memory, the others share it (default all)")
    p.add_argument("--steps", type=positive, help="timed steps (default 20, or those of --misses)")
    p.add_argument("--parts", action="store_true", help="also time gather, attention and products: the step minus the step without them")
    p.add_argument("--eager", action="store_true", help="launch kernel by kernel, without a CUDA graph")
    p.add_argument("--device", default="cuda", help="cuda, cuda:1, or cpu to try the script without a GPU")
    p.add_argument("--software", help="column software (default: the version of PyTorch)")
    shape_flags(p, [*FIELDS, "layers"])
    return p


def whole(text: str) -> list[int]:
    values = [int(part) for part in text.split(",")]
    if min(values) < 0:
        raise argparse.ArgumentTypeError("expected whole numbers from 0")
    return values


class Rows:
    """The CSV file. Rows are added at its end."""

    def __init__(self, path: Path):
        self.path = path
        if not path.exists():
            path.write_text(",".join(HEADER) + "\n")
        elif path.read_text().split("\n")[0] != ",".join(HEADER):
            raise MeasureError(f"{path} is no file of steps: name another with --out")

    def add(self, *values) -> None:
        with self.path.open("a") as f:
            f.write(",".join(map(str, values)) + "\n")
        print("decode:", *values, file=sys.stderr)


def p95(times: list[float]) -> float:
    return sorted(times)[math.ceil(0.95 * len(times)) - 1]


def run(args: argparse.Namespace) -> None:
    device = torch.device(args.device)
    if device.type == "cuda" and not torch.cuda.is_available():
        raise MeasureError("PyTorch finds no GPU: install PyTorch with CUDA, or try the script with --device cpu")
    if device.index is not None and device.type == "cuda":
        torch.cuda.set_device(device)
    shape = shape_of(args, [*FIELDS, "layers"])
    s, layers = Shape.of(shape, 1), shape["layers"]
    torch.manual_seed(0)
    torch.set_grad_enabled(False)
    rows = Rows(args.out)
    software = args.software or "torch-" + torch.__version__.split("+")[0]
    misses = read_misses(args.misses, layers) if args.misses else None
    args.steps = args.steps or (len(misses) if misses else 20)
    label = (args.model, args.gpu, software)

    if args.mode == "transformers":
        try:
            import transformers
        except ImportError:
            print("decode: Transformers is missing, so its mode is left out: install it", file=sys.stderr)
            return
        label = (*label[:2], args.software or f"{software}-transformers-{transformers.__version__}")
        model = transformers_model(shape, device)
        for batch, context, offload in itertools.product(args.batch, args.context, (False, True)):
            if offload and device.type != "cuda":
                continue  # there it needs a GPU
            mode = "transformers-offloaded" if offload else "transformers"
            with spare(f"{mode}, batch {batch}, context {context}"):
                times = transformers_times(args, shape, batch, context, offload, model)
                rows.add(mode, *label, batch, context, "", "", f"{statistics.median(times):.1f}", f"{p95(times):.1f}")
        return

    if device.type == "cuda" or interpreted():
        if triton is None:
            raise MeasureError("Triton is missing: install it, or try the script with --device cpu")
        processors = torch.cuda.get_device_properties(device).multi_processor_count if device.type == "cuda" else 1
        ops = Fused(processors)
        compare(ops, s, device)
        print("decode: Triton's kernels equal PyTorch's", file=sys.stderr)
    else:
        ops = Plain()
    model = Model(s, layers, device, ops)
    clock, host = Clock(device, args.steps, args.eager), Host(device, s.dim, args.host_buffers)
    suffix = "-eager" if args.eager else ""
    if args.mode == "dense":
        for batch, context in itertools.product(args.batch, args.context):
            with spare(f"dense, batch {batch}, context {context}"):
                time_step(args, rows, clock, model, Dense(model, batch, context), ("dense" + suffix, *label, batch, context, "", ""))
        return
    for batch, context in sorted(itertools.product(args.batch, args.context), reverse=True):  # largest host memory first
        streams = batch * s.kv_heads
        if args.topk > context:
            raise MeasureError(f"--topk {args.topk} exceeds --context {context}: state a smaller one")
        if (slots := args.slots or 2 * args.topk) < args.topk:
            raise MeasureError(f"--slots {slots} is below --topk {args.topk}: state at least as many")
        for counts in [misses] if misses else [[[miss * streams] * layers] for miss in args.miss]:
            timed = (counts[i % len(counts)] for i in range(WARMUP, WARMUP + args.steps))
            mean = statistics.mean(itertools.chain.from_iterable(timed))
            with spare(f"offloaded, batch {batch}, context {context}"):
                time_step(args, rows, clock, model, Offloaded(model, batch, context, args.topk, slots, counts, host),
                          ("offloaded" + suffix, *label, batch, context, args.topk, f"{mean:.15g}"))


def time_step(args, rows: Rows, clock: Clock, model: Model, load, key: tuple) -> None:
    """Adds the row of a configuration, and with --parts those of its parts."""
    ids = torch.zeros(key[4], dtype=torch.long, device=model.device)
    model.without = set()
    times = clock.time(load.prepare, lambda: model.step(ids, load.attention))
    load.check(WARMUP + clock.steps - 1)
    median = statistics.median(times)
    rows.add(*key, f"{median:.1f}", f"{p95(times):.1f}")
    for part in PARTS if args.parts else []:
        if part == "gather" and args.mode == "dense":
            continue
        model.without = {part}
        try:
            rest = statistics.median(clock.time(load.prepare, lambda: model.step(ids, load.attention)))
        finally:
            model.without = set()
        rows.add(f"{key[0]}:{part}", *key[1:], f"{median - rest:.1f}", "")


class spare:
    """Leaves out a configuration that exceeds memory, and frees what it used."""

    def __init__(self, name: str):
        self.name = name

    def __enter__(self):
        self._free()

    def __exit__(self, kind, error, trace) -> bool:
        if error is None or not isinstance(error, RuntimeError) or "out of memory" not in str(error).lower():
            return False
        print(f"decode: {self.name} is left out, because it exceeds memory", file=sys.stderr)
        return True

    @staticmethod
    def _free() -> None:
        gc.collect()
        if torch.cuda.is_available():
            torch.cuda.empty_cache()


def main() -> int:
    args = flags().parse_args()
    try:
        run(args)
    except MeasureError as e:
        print(f"decode: {e}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print(f"\ndecode: stopped. {args.out} has all rows so far", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Chooses the next token."""

import hashlib
from dataclasses import dataclass

import torch

from .errors import CaptureError


@dataclass
class Decoding:
    """Greedy, sampled with a seed, or forced along a given continuation."""

    kind: str = "greedy"  # greedy, sample, forced
    temperature: float = 1.0
    top_p: float = 1.0
    seed: int = 0
    stop: bool = True  # end at the model's end-of-sequence token, which is otherwise never chosen

    def __post_init__(self):
        if self.kind == "sample" and not (self.temperature > 0 and 0 < self.top_p <= 1):
            raise CaptureError(f"temperature {self.temperature} and top-p {self.top_p}, expected one above 0 and one in (0, 1]")

    def __str__(self) -> str:
        end = "ends at end-of-sequence" if self.stop else "end-of-sequence never chosen"
        if self.kind == "sample":
            return f"sampled, seed {self.seed}, temperature {self.temperature:g}, top_p {self.top_p:g}, {end}"
        return "forced along a given continuation" if self.kind == "forced" else f"greedy, {end}"

    def chooser(self, request: str, forced: list[int] | None, ends: set[int]):
        """A function from (step, logits) to the token fed at that step, or None at the end."""
        if self.kind == "forced":
            return lambda step, logits: forced[step] if step < len(forced) else None
        ends = sorted(ends)
        draw = self._uniform(request)

        def choose(step: int, logits: torch.Tensor) -> int | None:
            logits = logits.detach().to("cpu", torch.float64)
            if not self.stop:
                logits[ends] = -torch.inf
            token = self._sample(logits, draw()) if self.kind == "sample" else int(logits.argmax())
            return None if self.stop and token in ends else token

        return choose

    def _uniform(self, request: str):
        """Uniform numbers that depend only on the seed and the request's name, not on its place in the file."""
        generator = torch.Generator()
        generator.manual_seed(int.from_bytes(hashlib.sha256(f"{self.seed} {request}".encode()).digest()[:7], "little"))
        return lambda: float(torch.rand((), generator=generator, dtype=torch.float64))

    def _sample(self, logits: torch.Tensor, u: float) -> int:
        """Nucleus sampling (Holtzman et al. 2020, arXiv:1904.09751): the smallest set of best
        tokens with at least top_p of the probability, drawn from by inverting its sum."""
        p, order = torch.softmax(logits / self.temperature, -1).sort(descending=True, stable=True)
        total = p.cumsum(-1)
        kept = min(int((total < self.top_p).sum()) + 1, len(p))
        at = int(torch.searchsorted(total[:kept], u * total[kept - 1], right=True))
        return int(order[min(at, kept - 1)])

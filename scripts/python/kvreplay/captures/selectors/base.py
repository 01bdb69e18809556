"""The interface of selectors, and their input."""

from dataclasses import dataclass
from functools import cached_property

import torch


@dataclass
class Step:
    """One or more queries of one layer, with the keys that they may attend to.

    Shapes: H KV heads, G query heads per KV head, Q queries, N tokens, D head dimension.
    All tensors are float32.
    """

    layer: int
    queries: torch.Tensor  # (H, G, Q, D), position embedding applied
    keys: torch.Tensor  # (H, N, D), position embedding applied
    lengths: torch.Tensor  # (Q): context of each query in tokens, its own included
    scale: float  # of the softmax, mostly 1/√D
    sink: int
    local: int
    ahead: "Step | None" = None  # the same with queries made from the layer before's input

    @cached_property
    def probs(self) -> torch.Tensor:
        """The attention itself: softmax over the context, (H, G, Q, N)."""
        h, g, q, d = self.queries.shape
        logits = (self.queries.reshape(h, g * q, d) @ self.keys.mT).reshape(h, g, q, -1) * self.scale
        if q > 1:  # a single query sees every key
            future = torch.arange(logits.shape[-1], device=logits.device) >= self.lengths[:, None]
            logits = logits.masked_fill(future, -torch.inf)
        return torch.softmax(logits, -1)

    @cached_property
    def mass(self) -> torch.Tensor:
        """Attention mass of each token in each KV head, the mean over its query heads: (H, Q, N)."""
        return self.probs.mean(1)

    def eligible(self, block: int = 1) -> torch.Tensor:
        """The blocks that may be listed, (Q, blocks): those in the context without a token of
        the sinks or of the local window, which are kept anyway."""
        first = -(-self.sink // block)
        units = torch.arange(-(-self.keys.shape[1] // block), device=self.keys.device)
        last = (self.lengths - self.local).clamp(min=0) // block
        return (units >= first) & (units < last[:, None])


class Selector:
    """Ranks blocks for each query. A subclass is one published method.

    One object serves one capture. Its state of a layer is self.index[layer], which the next
    prompt replaces.
    """

    name: str  # as on the command line and in the trace's metadata
    defaults: dict[str, int | float] = {}  # parameters, with the method's own values
    score_kind: str  # the meaning of a score, for the metadata
    reducer: str  # the reduction of the query heads of a KV head to one list
    ahead = False  # whether it needs Step.ahead
    probability = False  # whether a score is an attention probability

    def __init__(self, params: dict[str, int | float]):
        self.params = self.defaults | params
        self.index: dict = {}

    @property
    def block(self) -> int:
        """Number of tokens per index."""
        return 1

    def shortest(self) -> int:
        """Least number of tokens outside sinks and local window for a ranking."""
        return 2 * self.block

    def prompt(self, step: Step) -> None:
        """Builds the index of a prompt. step holds all its queries and keys."""

    def grow(self, step: Step) -> None:
        """Adds a generated token: step.keys has one more than before."""

    def scores(self, step: Step, per: str) -> torch.Tensor:
        """(H, Q, blocks), higher is better, -inf for blocks that the method never retrieves.
        If per is "layer", a selector may reduce all heads of a layer and return (1, Q, blocks).
        The scores of other selectors are averaged."""
        raise NotImplementedError

    def kept(self, layer: int) -> torch.Tensor | None:
        """(H, blocks) that the method keeps on the GPU in addition to sinks and local window."""
        return None


def tokens(blocks: torch.Tensor, block: int, n: int) -> torch.Tensor:
    """A boolean row of blocks as one of n tokens."""
    return blocks.repeat_interleave(block, -1)[..., :n] if block > 1 else blocks[..., :n]


def per_block(values: torch.Tensor, block: int) -> torch.Tensor:
    """Values of tokens summed over blocks. The last block may be short."""
    if block == 1:
        return values
    short = -values.shape[-1] % block
    return torch.nn.functional.pad(values, (0, short)).unflatten(-1, (-1, block)).sum(-1)

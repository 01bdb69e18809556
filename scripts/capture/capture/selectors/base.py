"""What a selector is, and what it is shown."""

from dataclasses import dataclass
from functools import cached_property

import torch


@dataclass
class Step:
    """One or more queries of one layer, with the keys that they may attend to.

    Shapes: H KV heads, G query heads a KV head, Q queries, N tokens, D head dimension.
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
        """Which blocks may be listed, (Q, blocks): those in the context without a token of
        the sinks or of the local window, which are kept anyway."""
        first = -(-self.sink // block)
        units = torch.arange(-(-self.keys.shape[1] // block), device=self.keys.device)
        last = (self.lengths - self.local).clamp(min=0) // block
        return (units >= first) & (units < last[:, None])


class Selector:
    """Ranks blocks for each query. A subclass is one published method.

    One object serves one capture; what it keeps of a layer lies in self.index[layer] and
    is replaced by the next prompt.
    """

    name: str  # as on the command line and in the trace's metadata
    defaults: dict[str, int | float] = {}  # parameters, with the method's own values
    score_kind: str  # what a score is, for the metadata
    reducer: str  # how the query heads of a KV head became one list
    ahead = False  # whether it needs Step.ahead
    probability = False  # whether a score is an attention probability

    def __init__(self, params: dict[str, int | float]):
        self.params = self.defaults | params
        self.index: dict = {}

    @property
    def block(self) -> int:
        """Tokens that one index stands for."""
        return 1

    def shortest(self) -> int:
        """Tokens outside sinks and local window without which there is nothing to rank."""
        return 2 * self.block

    def prompt(self, step: Step) -> None:
        """Builds the index of a prompt. step holds all its queries and keys."""

    def grow(self, step: Step) -> None:
        """Takes up a generated token: step.keys has one more than before."""

    def scores(self, step: Step, per: str) -> torch.Tensor:
        """(H, Q, blocks), higher is better, -inf for what the method never retrieves.
        A selector that reduces all heads of a layer in its own way returns (1, Q, blocks)
        if per is "layer"; the scores of others are averaged."""
        raise NotImplementedError

    def kept(self, layer: int) -> torch.Tensor | None:
        """(H, blocks) that the method keeps on the GPU besides sinks and local window."""
        return None


def tokens(blocks: torch.Tensor, block: int, n: int) -> torch.Tensor:
    """A boolean row of blocks as one of n tokens."""
    return blocks.repeat_interleave(block, -1)[..., :n] if block > 1 else blocks[..., :n]


def per_block(values: torch.Tensor, block: int) -> torch.Tensor:
    """Values of tokens summed over blocks; the last block may be short."""
    if block == 1:
        return values
    short = -values.shape[-1] % block
    return torch.nn.functional.pad(values, (0, short)).unflatten(-1, (-1, block)).sum(-1)

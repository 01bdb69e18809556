"""Records a request while the model runs."""

from dataclasses import dataclass, field

import torch

from .attention import full
from .ranking import mask, top
from .selectors import Selector, Step, per_block, tokens
from .selectors.exact import Exact

_ELEMENTS = 1 << 26  # of a temporary, which limits the queries of windows per pass


@dataclass
class Settings:
    """The extent of a recording, in tokens. A selector of blocks divides it by its block size."""

    topk: int = 64
    candidates: int = 80
    windows: int = 32
    sink: int = 4
    local: int = 64
    per: str = "head"  # or "layer"
    layers: tuple[int, ...] | None = None  # None: all
    predict: bool = False
    prompt_mass: bool = True

    def budgets(self) -> list[int]:
        """The budgets at which recall is measured, in tokens: K, and 2 K and 4 K if lists are that long."""
        return [n * self.topk for n in (1, 2, 4) if n == 1 or n * self.topk <= self.candidates]

    def blocks(self, selector: Selector) -> tuple[int, int]:
        """K and M in the selector's blocks."""
        return -(-self.topk // selector.block), -(-self.candidates // selector.block)


@dataclass
class Lists:
    """One selector's lists in one layer: one tensor per call, (heads, queries, M). Index -1 is no entry."""

    index: list = field(default_factory=list)
    score: list = field(default_factory=list)
    mass: list = field(default_factory=list)
    covered: list = field(default_factory=list)  # (heads, queries)
    predicted: list = field(default_factory=list)  # (heads, queries, K)


@dataclass
class Recall:
    """The exact Top-K entries among a selector's first K, over counted steps."""

    exact: int = 0  # entries of the exact Top-K
    listed: int = 0  # of them in the selector's first K
    resident: int = 0  # of them there or among the entries that the selector keeps anyway
    exact_mass: float = 0  # attention mass of the exact Top-K
    mass: float = 0  # of the selector's first K and other entries that it keeps, without sinks and local window


class Observer:
    """Receives each layer's queries and keys, lets the selectors rank, and keeps the lists.

    It serves one request after another: take() returns the recording and forgets it.
    """

    def __init__(self, settings: Settings, selectors: list[Selector]):
        self.settings, self.selectors = settings, selectors
        self.reference = Exact({})
        self.ahead = settings.predict or any(s.ahead for s in selectors)
        self.inputs: dict = {}  # the attention module's arguments in the current layer, with its number
        self.last: dict = {}  # and in the one that ran before it
        self.probed: torch.Tensor | None = None
        self.probing = False
        self.take()

    def take(self):
        """(lists by (selector number, layer), attention mass of the prompt by layer, recall by selector and budget)."""
        out = getattr(self, "lists", {}), getattr(self, "prompt_mass", {}), getattr(self, "recalls", [])
        self.lists: dict[tuple[int, int], Lists] = {}
        self.prompt_mass: dict[int, torch.Tensor] = {}
        self.recalls = [[Recall() for _ in self.settings.budgets()] for _ in self.selectors]
        return out

    def watch(self, modules: dict[int, torch.nn.Module]) -> list:
        """Stores each attention module's input, from which the next one's query is predicted.
        Returns handles to remove."""
        def remember(module, args, kwargs):
            if not self.probing:
                self.last, self.inputs = self.inputs, {"layer": module.layer_idx, "args": args, "kwargs": kwargs}
        return [m.register_forward_pre_hook(remember, with_kwargs=True) for m in modules.values()] if self.ahead else []

    def attend(self, module, query, key, value, scaling):
        if self.probing:
            self.probed = query
            return torch.zeros_like(query[..., : value.shape[-1]])
        prefill = query.shape[1] > 1
        layer = module.layer_idx
        if self.settings.layers is not None and layer not in self.settings.layers:
            return full(query, key, value, scaling)
        ahead = self._ahead(module, layer) if self.ahead else None
        if prefill:
            self._prompt(layer, query, key, scaling, ahead)
            return full(query, key, value, scaling)
        step = self._step(layer, query, key, scaling, slice(None), ahead)
        for selector in self.selectors:
            selector.grow(step)
        self._record(step, counted=True)
        h, g, _, n = step.probs.shape
        return (step.probs.view(h, g, n).to(value.dtype) @ value).reshape(h * g, 1, -1)

    def _ahead(self, module, layer) -> torch.Tensor | None:
        """The query that this layer's own projections make of the input of the layer before."""
        if self.last.get("layer") != layer - 1:
            return None
        return self.probe(module, self.last["args"], self.last["kwargs"])

    def probe(self, module, args, kwargs) -> torch.Tensor:
        """The query that module computes from a layer's input, (heads, N, D)."""
        self.probing = True
        try:
            module(*args, **(kwargs | {"past_key_values": None}))
        finally:
            self.probing = False
        return self.probed

    def _step(self, layer, query, key, scaling, which: slice, ahead=None) -> Step:
        h, n, d = key.shape
        keys = key.float()
        positions = torch.arange(n - query.shape[1], n, device=key.device)[which]
        def step(q, guess=None):
            return Step(layer=layer, queries=q.unflatten(0, (h, -1))[:, :, which].float(), keys=keys, lengths=positions + 1,
                        scale=scaling, sink=self.settings.sink, local=self.settings.local, ahead=guess)
        return step(query, None if ahead is None else step(ahead))

    def _prompt(self, layer, query, key, scaling, ahead) -> None:
        whole = self._step(layer, query, key, scaling, slice(None))
        for selector in self.selectors:
            selector.prompt(whole)
        n = key.shape[1]
        rows = max(1, _ELEMENTS // (query.shape[0] * n))
        for start in range(n - self.settings.windows, n, rows):
            step = self._step(layer, query, key, scaling, slice(start, min(start + rows, n)), ahead)
            self._record(step, counted=False)
            if self.settings.prompt_mass:
                given = self._heads(step.mass).sum(1)
                self.prompt_mass[layer] = self.prompt_mass.get(layer, 0) + given

    def _heads(self, mass: torch.Tensor) -> torch.Tensor:
        """A value of each KV head, or the mean over them if a layer has one list."""
        return mass.mean(0, keepdim=True) if self.settings.per == "layer" else mass

    def _scores(self, selector: Selector, step: Step) -> torch.Tensor:
        """The selector's scores of blocks that may be listed, -inf for others: (heads, queries, blocks)."""
        scores = selector.scores(step, self.settings.per)
        if self.settings.per == "layer" and scores.shape[0] > 1:
            found = scores != -torch.inf
            scores = torch.where(found, scores, 0).mean(0, keepdim=True).masked_fill(~found.any(0, keepdim=True), -torch.inf)
        return scores.masked_fill(~step.eligible(selector.block), -torch.inf)

    def _record(self, step: Step, counted: bool) -> None:
        mass = self._heads(step.mass)
        if counted:
            best, _ = top(self._scores(self.reference, step), self.settings.budgets()[-1])
        for i, selector in enumerate(self.selectors):
            k, m = self.settings.blocks(selector)
            index, score = top(self._scores(selector, step), m)
            lists = self.lists.setdefault((i, step.layer), Lists())
            share = per_block(mass, selector.block).gather(-1, index.clamp(min=0)).masked_fill(index < 0, 0).clamp(0, 1)
            lists.index.append(index.int().cpu())
            lists.score.append(score.cpu())
            lists.mass.append(share.cpu())
            lists.covered.append(share.sum(-1).clamp(max=1).cpu())
            if self.settings.predict:
                lists.predicted.append(self._predict(selector, step, k))
            if counted:
                for recall, budget in zip(self.recalls[i], self.settings.budgets()):
                    self._recall(recall, selector, step, index[..., : -(-budget // selector.block)], best[..., :budget], mass)

    def _predict(self, selector: Selector, step: Step, k: int) -> torch.Tensor:
        """The selection with the query predicted one layer ahead. The first layer has none."""
        if step.ahead is None:
            return torch.full((1 if self.settings.per == "layer" else step.keys.shape[0], len(step.lengths), 1), -1, dtype=torch.int32)
        return top(self._scores(selector, step.ahead), k)[0].int().cpu()

    def _recall(self, recall: Recall, selector: Selector, step: Step, index: torch.Tensor, best: torch.Tensor, mass: torch.Tensor) -> None:
        units, n = -(-step.keys.shape[1] // selector.block), step.keys.shape[1]
        open_, listed = step.eligible(selector.block), mask(index, units)
        chosen, kept = listed, selector.kept(step.layer)
        if kept is not None:
            kept = torch.nn.functional.pad(kept, (0, units - kept.shape[1]))
            chosen = listed | (kept.all(0, keepdim=True) if self.settings.per == "layer" else kept)[:, None]
        wanted, place = best >= 0, best.clamp(min=0)
        def hits(blocks):
            return int((tokens(blocks, selector.block, n).gather(-1, place) & wanted).sum())
        recall.exact += int(wanted.sum())
        recall.listed += hits(listed)
        recall.resident += hits(chosen | ~open_)
        recall.exact_mass += float((mass.gather(-1, place) * wanted).sum())
        recall.mass += float((mass * tokens(chosen & open_, selector.block, n)).sum())

"""InfiniGen: tokens ranked one layer ahead, with some columns of query and key.

Lee et al. 2024, "InfiniGen: Efficient Generative Inference of Large Language Models with
Dynamic KV Cache Management", OSDI, arXiv:2406.19707, section 4:

    q̂        = the layer's own query projection of the input of the layer before
    A         = V of the singular value decomposition Q = U Σ Vᵀ (skewing, section 4.2)
    columns   = those with the largest Σ|Q·A| and those with the largest Σ|K·A|,
                30 % of the head dimension each, per query head (section 4.3)
    score(i)  = max over the group's query heads of (q̂A)[columns] · (k_i A)[columns] / √d

As A is orthogonal, the last line is (P q̂)·k_i with P = A diag(columns) Aᵀ. A comes from
the prompt's own queries. The paper takes it from one sample text. The first layer has no
layer before it, so its own query is used (the paper loads all of it). In the paper a
threshold α below the best score sets the number of fetched tokens. Here K is the replay's.
"""

import torch

from .base import Selector, Step


class InfiniGen(Selector):
    name = "infinigen"
    defaults = {"columns": 0.3}
    score_kind = "partial_logit"
    reducer = "max"
    ahead = True

    def prompt(self, step: Step) -> None:
        h, g, n, d = step.queries.shape
        _, vectors = torch.linalg.eigh(step.queries.mT @ step.queries)  # V of Q, (H, G, D, D)
        some = max(1, int(d * self.params["columns"]))
        chosen = torch.zeros((h, g, d), dtype=torch.bool, device=vectors.device)
        for skewed in (step.queries @ vectors, step.keys[:, None] @ vectors):
            chosen.scatter_(-1, skewed.abs().sum(-2).topk(some, -1).indices, True)
        self.index[step.layer] = (vectors * chosen[:, :, None].float()) @ vectors.mT

    def scores(self, step: Step, per: str):
        queries = (step.ahead or step).queries @ self.index[step.layer]
        h, g, q, d = queries.shape
        return ((queries.reshape(h, g * q, d) @ step.keys.mT).reshape(h, g, q, -1) * step.scale).amax(1)

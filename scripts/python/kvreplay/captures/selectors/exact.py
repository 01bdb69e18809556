"""Exact Top-K of the attention probabilities.

Per KV head: score(i) = max over the query heads h of the group of softmax(q_h·K/√d)_i,
so that a token that one head needs is not outvoted by the others (the reduction that
ShadowKV uses, Sun et al. 2025, arXiv:2410.21465).

Per layer: the mean over all query heads, which is what the indexer of DeepSeek Sparse
Attention is trained to imitate (DeepSeek-V3.2-Exp, section 2: the main attention summed
over heads and normalised).
"""

from .base import Selector, Step


class Exact(Selector):
    name = "exact"
    score_kind = "softmax"
    reducer = "max"
    probability = True

    def scores(self, step: Step, per: str):
        return step.probs.mean((0, 1))[None] if per == "layer" else step.probs.amax(1)

"""RetroInfer: tokens in clusters of similar keys, clusters ranked by their centroid.

Chen et al. 2025, "RetroInfer: A Vector-Storage Approach for Scalable Long-Context LLM
Inference", arXiv:2505.02922, sections 4.1 and 4.2:

    score(cluster) = Σ over the group's query heads of softmax(q·centroid/√d)

and all tokens of the best clusters are retrieved. One centroid per 16 tokens. Generated
tokens enter 1,024 at a time. Until then they stay on the GPU and are not listed. The
estimation zone, which replaces values by averages, retrieves nothing and is left out.

A list holds the clusters' tokens in order of rank, ascending within a cluster. Its first
K tokens may cut the last cluster, which the method would fetch whole.
"""

import torch

from . import kmeans
from .base import Selector, Step


class RetroInfer(Selector):
    name = "retroinfer"
    defaults = {"tokens_per_centroid": 16, "update": 1024}
    score_kind = "centroid_softmax"
    reducer = "sum"

    def clusters(self, keys: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Centroids, the centroid of each token, tokens per centroid."""
        return kmeans.spherical(keys, keys.shape[1] // int(self.params["tokens_per_centroid"]))

    def prompt(self, step: Step) -> None:
        self.index[step.layer] = None
        self._take(step, step.sink, step.keys.shape[1] - step.local)

    def grow(self, step: Step) -> None:
        end = self.index[step.layer][3]
        ready = step.keys.shape[1] - step.local - end
        if ready >= int(self.params["update"]):
            self._take(step, end, end + ready)

    def _take(self, step: Step, start: int, end: int) -> None:
        centroids, where, count = self.clusters(step.keys[:, start:end])
        if self.index[step.layer] is not None:
            old, before, counts, _ = self.index[step.layer]
            where = torch.cat((before, where + old.shape[1]), 1)
            centroids, count = torch.cat((old, centroids), 1), torch.cat((counts, count), 1)
        self.index[step.layer] = centroids, where, count, end

    def scores(self, step: Step, per: str):
        centroids, where, count, end = self.index[step.layer]
        h, g, q, d = step.queries.shape
        logits = (step.queries.reshape(h, g * q, d) @ centroids.mT).reshape(h, g, q, -1) * step.scale
        logits = logits.masked_fill((count == 0)[:, None, None], -torch.inf)
        ranked = torch.softmax(logits, -1).sum(1)  # (H, Q, C)
        scores = torch.full((h, q, step.keys.shape[1]), -torch.inf, device=ranked.device)
        scores[..., step.sink : end] = ranked.gather(-1, where[:, None].expand(h, q, -1))
        return scores

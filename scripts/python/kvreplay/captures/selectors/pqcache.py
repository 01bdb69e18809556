"""PQCache: tokens ranked by the attention to product-quantised keys.

Zhang et al. 2025, "PQCache: Product Quantization-based KVCache for Long Context LLM
Inference", SIGMOD, arXiv:2407.12820, section 3: each key is cut into m parts, each part
is replaced by the nearest of 2^b centroids (k-means, Euclidean), and

    score(i) = Σ over the group's query heads of softmax(Σ_p q_p · centroid_p(i) / √d)

m = 2, b = 6 (section 4.1). Sinks are not in the index. A generated token is encoded with
the prompt's centroids when it leaves the local window. The paper bounds the iterations of
k-means by the time of prefill. Here there are 20, from keys at equal distances.
"""

import torch

from .base import Selector, Step
from .kmeans import means


class PQCache(Selector):
    name = "pqcache"
    defaults = {"parts": 2, "bits": 6, "iterations": 20}
    score_kind = "pq_softmax"
    reducer = "sum"

    def _parts(self, vectors: torch.Tensor) -> torch.Tensor:
        """(H, N, D) as (H·parts, N, D/parts)."""
        parts = int(self.params["parts"])
        return vectors.unflatten(-1, (parts, -1)).transpose(1, 2).flatten(0, 1)

    def prompt(self, step: Step) -> None:
        points = self._parts(step.keys[:, step.sink :])
        count = min(2 ** int(self.params["bits"]), points.shape[1])
        centroids = points[:, ((torch.arange(count, device=points.device) + 0.5) * (points.shape[1] / count)).long()]
        for _ in range(int(self.params["iterations"])):
            centroids, _ = means(points, nearest(points, centroids), centroids)
        self.index[step.layer] = centroids, nearest(points, centroids)

    def grow(self, step: Step) -> None:
        centroids, codes = self.index[step.layer]
        self.index[step.layer] = centroids, torch.cat((codes, nearest(self._parts(step.keys[:, -1:]), centroids)), 1)

    def scores(self, step: Step, per: str):
        centroids, codes = self.index[step.layer]
        h, g, q, d = step.queries.shape
        parts = int(self.params["parts"])
        table = self._parts(step.queries.reshape(h, g * q, d)) @ centroids.mT  # (H·parts, G·Q, 2^b)
        logits = table.gather(-1, codes[:, None].expand(-1, g * q, -1)).reshape(h, parts, g, q, -1).sum(1) * step.scale
        allowed = step.eligible()
        closed = ~allowed[:, step.sink :]
        chances = torch.softmax(logits.masked_fill(closed, -torch.inf), -1).sum(1)
        scores = torch.full((h, q, step.keys.shape[1]), -torch.inf, device=logits.device)
        scores[..., step.sink :] = chances
        return scores


def nearest(points: torch.Tensor, centroids: torch.Tensor) -> torch.Tensor:
    """The centroid at the smallest Euclidean distance from each point."""
    rows = max(1, (1 << 26) // (centroids.shape[0] * centroids.shape[1]))
    length = (centroids * centroids).sum(-1)[:, None] / 2
    return torch.cat([(part @ centroids.mT - length).argmax(-1) for part in points.split(rows, 1)], 1)

"""k-means as in RetroInfer's index. It is not a selector.

Chen et al. 2025, "RetroInfer: A Vector-Storage Approach for Scalable Long-Context LLM
Inference", arXiv:2505.02922, section 4.2, and its repository's segment_k_means: keys are
centred. The first centroids are keys at equal distances. In all iterations but the last,
each segment of 8,192 keys has its own centroids, keys are assigned by inner product, and
the normalised mean replaces a centroid. The last iteration assigns over all segments and
takes the plain mean. There are 10 iterations and 16 tokens per centroid.
"""

import torch

SEGMENT = 8192
ITERATIONS = 10


def assign(points: torch.Tensor, centroids: torch.Tensor) -> torch.Tensor:
    """The centroid with the largest inner product for each point, (H, N). It takes a few points at a time."""
    rows = max(1, (1 << 26) // (centroids.shape[0] * centroids.shape[1]))
    return torch.cat([(part @ centroids.mT).argmax(-1) for part in points.split(rows, 1)], 1)


def means(points: torch.Tensor, where: torch.Tensor, centroids: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The mean of each centroid's points, or the old centroid if it has none, and the counts."""
    total = torch.zeros_like(centroids).scatter_add_(1, where[..., None].expand_as(points), points)
    count = torch.zeros(centroids.shape[:2], device=points.device).scatter_add_(1, where, torch.ones_like(where, dtype=torch.float32))
    return torch.where(count[..., None] > 0, total / count.clamp(min=1)[..., None], centroids), count


def spherical(points: torch.Tensor, clusters: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Clusters (H, N, D) points: centroids (H, C, D), the centroid of each point (H, N) and counts (H, C)."""
    h, n, d = points.shape
    clusters = max(1, min(clusters, n))
    centre = points.mean(1, keepdim=True)
    points = points - centre
    first = ((torch.arange(clusters, device=points.device) + 0.5) * (n / clusters)).long()
    centroids = points[:, first]
    segment = torch.div(first, SEGMENT, rounding_mode="floor")
    for s in segment.unique().tolist():
        own = segment == s
        part, some = points[:, s * SEGMENT : (s + 1) * SEGMENT], centroids[:, own]
        for _ in range(ITERATIONS - 1):
            some = torch.nn.functional.normalize(means(part, assign(part, some), some)[0], dim=-1)
        centroids[:, own] = some
    where = assign(points, centroids)
    centroids, count = means(points, where, centroids)
    return centroids + centre, where, count

"""KVDrive's index: chunks in clusters of similar mean keys, clusters ranked by their centroid.

KVDrive, section 4 and figures 17 to 19: the cache is cut into chunks. The mean of a
chunk's keys represents it, and chunks with similar means share a centroid. Chunks of 4
tokens are fastest (figure 17). There are 8,192 centroids for 120K tokens, and in proportion
for others (figure 18). That is one per 15 tokens, taken as 16 like RetroInfer's, whose
k-means the authors use. Clusters are ranked as RetroInfer ranks them.
"""

import torch

from . import kmeans
from .retroinfer import RetroInfer


class KVDrive(RetroInfer):
    name = "kvdrive"
    defaults = RetroInfer.defaults | {"chunk": 4}

    def clusters(self, keys):
        h, n, d = keys.shape
        chunk = int(self.params["chunk"])
        whole = n // chunk * chunk
        chunks = keys[:, :whole].reshape(h, -1, chunk, d).mean(2)
        if whole < n:  # the last chunk may be short
            chunks = torch.cat((chunks, keys[:, whole:].mean(1, keepdim=True)), 1)
        centroids, where, _ = kmeans.spherical(chunks, n // int(self.params["tokens_per_centroid"]))
        where = where.repeat_interleave(chunk, 1)[:, :n]
        count = torch.zeros(centroids.shape[:2], device=keys.device).scatter_add_(1, where, torch.ones_like(where, dtype=keys.dtype))
        return centroids, where, count

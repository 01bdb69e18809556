"""MagicPIG: tokens sampled by locality-sensitive hashing.

Chen et al. 2025, "MagicPIG: LSH Sampling for Efficient LLM Generation", ICLR,
arXiv:2410.16179, section 4 and Algorithm 1: L hash tables of K random hyperplanes each
(SimHash, the same for all layers and heads). Keys are centred by their mean. A query head
samples a token if the token falls into the query's bucket in at least two tables.

    score(i) = max over the group's query heads of the number of tables that agree

K = 10, L = 150 (section 5). The method samples and has no ranks. Here more collisions
rank higher, and a list has fewer than K entries if fewer are sampled. The best token is
listed even if it collides less than twice, so a step's list is never empty. Generated tokens
stay on the GPU, as in the authors' code, and are not listed. The paper's dense layers (0
and every 16th) are not treated apart.
"""

import torch

from .base import Selector, Step


class MagicPIG(Selector):
    name = "magicpig"
    defaults = {"K": 10, "L": 150, "seed": 0}
    score_kind = "collisions"
    reducer = "max"

    def _codes(self, vectors: torch.Tensor) -> torch.Tensor:
        """Bucket numbers (…, L) of vectors (…, D). A product of floats sums the bits several times faster
        than integers do, and is exact."""
        k, tables = int(self.params["K"]), int(self.params["L"])
        generator = torch.Generator().manual_seed(int(self.params["seed"]))
        planes = torch.randn((vectors.shape[-1], tables * k), generator=generator).to(vectors.device)
        bits = (vectors @ planes > 0).unflatten(-1, (tables, k))
        return (bits.float() @ 2.0 ** torch.arange(k, device=vectors.device)).to(torch.int16)

    def prompt(self, step: Step) -> None:
        end = step.keys.shape[1] - step.local
        keys = step.keys[:, step.sink : end]
        codes = self._codes(keys - keys.mean(1, keepdim=True))
        self.index[step.layer] = codes.mT.contiguous(), end  # (H, L, N), along whose N sums are fast

    def scores(self, step: Step, per: str):
        codes, end = self.index[step.layer]
        queries = self._codes(step.queries)  # (H, G, Q, L)
        h, g, q, tables = queries.shape
        few = torch.uint8 if tables < 256 else torch.int32  # the type of a count
        counts = torch.zeros((h, q, step.keys.shape[1]), device=codes.device)
        for i in range(q):
            agree = (queries[:, :, i, :, None] == codes[:, None]).view(torch.uint8).sum(2, dtype=few)  # (H, G, N)
            counts[:, i, step.sink : end] = agree.amax(1).float()
        counts = counts.masked_fill(~step.eligible(), -torch.inf)
        sampled = (counts >= 2) | (counts == counts.amax(-1, keepdim=True))
        return counts.masked_fill(~sampled, -torch.inf)

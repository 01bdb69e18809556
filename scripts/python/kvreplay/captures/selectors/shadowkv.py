"""ShadowKV: chunks ranked by the attention to their mean key.

Sun et al. 2025, "ShadowKV: KV Cache in Shadows for High-Throughput Long-Context LLM
Inference", ICML, arXiv:2410.21465, section 4 and Algorithms 1 and 2:

    landmark(chunk) = mean of its keys, position embedding applied
    outliers        = the chunks in which the smallest cosine between a key and the
                      landmark is lowest; they stay on the GPU
    score(chunk)    = max over the group's query heads of softmax(q·landmark/√d)

Chunk size 8, 48 outlier chunks (section 5). Outliers are neither listed nor in the
softmax. The same holds for generated tokens, which the method keeps on the GPU. The
low-rank keys change the computation with a chunk, not the choice, and are left out.
"""

import torch

from ..ranking import mask, top
from .base import Selector, Step


class ShadowKV(Selector):
    name = "shadowkv"
    defaults = {"chunk": 8, "outliers": 48}
    score_kind = "landmark_softmax"
    reducer = "max"

    @property
    def block(self) -> int:
        return int(self.params["chunk"])

    def shortest(self) -> int:
        return (int(self.params["outliers"]) + 2) * self.block

    def prompt(self, step: Step) -> None:
        h, n, d = step.keys.shape
        chunks = n // self.block
        keys = step.keys[:, : chunks * self.block].reshape(h, chunks, self.block, d)
        landmarks = keys.mean(2)
        cosine = torch.nn.functional.cosine_similarity(keys, landmarks[:, :, None], dim=-1).amin(-1)
        allowed = step.eligible(self.block)[-1, :chunks]  # by the prompt's last query
        worst, _ = top((-cosine).masked_fill(~allowed, -torch.inf), int(self.params["outliers"]))
        self.index[step.layer] = landmarks, mask(worst, chunks)

    def scores(self, step: Step, per: str):
        landmarks, outlier = self.index[step.layer]
        h, chunks, d = landmarks.shape
        g, q = step.queries.shape[1:3]
        logits = (step.queries.reshape(h, g * q, d) @ landmarks.mT).reshape(h, g, q, chunks) * step.scale
        allowed = step.eligible(self.block)
        scores = torch.full((h, q, allowed.shape[1]), -torch.inf, device=logits.device)
        closed = ~allowed[:, :chunks] | outlier[:, None]  # (H, Q, chunks)
        chances = torch.softmax(logits.masked_fill(closed[:, None], -torch.inf), -1).amax(1)
        scores[..., :chunks] = chances.masked_fill(closed, -torch.inf)
        return scores

    def kept(self, layer: int):
        return self.index[layer][1]

"""Quest: pages ranked by an upper bound of their attention logits.

Tang et al. 2024, "Quest: Query-Aware Sparsity for Efficient Long-Context LLM Inference",
ICML, arXiv:2406.10774, section 3.3 and Algorithm 1:

    score(page) = Σ_c max(q_c · m_c, q_c · M_c)

with m and M the minimum and maximum of the page's keys in channel c. No key of the page
has a larger dot product with q. Page size 16 (section 4.1). The paper's models have one
query head per KV head. With grouped queries the bounds are summed over the group, as in
the Quest baseline of MagicPIG's repository.

A page enters when its last token leaves the local window, generated ones too.
"""

import torch

from .base import Selector, Step


class Quest(Selector):
    name = "quest"
    defaults = {"page": 16}
    score_kind = "bound"
    reducer = "sum"

    @property
    def block(self) -> int:
        return int(self.params["page"])

    def prompt(self, step: Step) -> None:
        h, n, d = step.keys.shape
        short = -n % self.block
        low = torch.nn.functional.pad(step.keys, (0, 0, 0, short), value=torch.inf).reshape(h, -1, self.block, d).amin(2)
        high = torch.nn.functional.pad(step.keys, (0, 0, 0, short), value=-torch.inf).reshape(h, -1, self.block, d).amax(2)
        self.index[step.layer] = low, high

    def grow(self, step: Step) -> None:
        low, high = self.index[step.layer]
        key, page = step.keys[:, -1], (step.keys.shape[1] - 1) // self.block
        if page == low.shape[1]:
            self.index[step.layer] = torch.cat((low, key[:, None]), 1), torch.cat((high, key[:, None]), 1)
            return
        low[:, page] = torch.minimum(low[:, page], key)
        high[:, page] = torch.maximum(high[:, page], key)

    def scores(self, step: Step, per: str):
        low, high = self.index[step.layer]
        # max(q·m, q·M) in a channel is q·M if q > 0, otherwise q·m. The sum over the group is
        # that of the positive and of the negative parts.
        positive, negative = step.queries.clamp(min=0).sum(1), step.queries.clamp(max=0).sum(1)
        return positive @ high.mT + negative @ low.mT

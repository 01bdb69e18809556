import torch

from kvreplay.captures.ranking import mask, top


def test_order_ties_and_holes():
    scores = torch.tensor([[0.0, -1.5, 3.0, -0.0, 3.0, -torch.inf, 1e-40, -7.0]])
    index, value = top(scores, 8)
    assert index.tolist() == [[2, 4, 6, 0, 3, 1, 7, -1]]
    assert value[0, :7].tolist() == scores[0, index[0, :7]].tolist()


def test_like_sorting():
    generator = torch.Generator().manual_seed(1)
    for m in (1, 5, 40, 90):
        scores = torch.randint(-9, 9, (3, 4, 40), generator=generator) / 4
        index, value = top(scores, m)
        slow = [[sorted(range(40), key=lambda i: (-row[i], i))[:m] for row in block] for block in scores.tolist()]
        assert index.tolist() == slow
        assert torch.equal(value, scores.gather(-1, index))


def test_mask():
    assert mask(torch.tensor([[2, -1], [0, 1]]), 3).tolist() == [[False, False, True], [True, True, False]]

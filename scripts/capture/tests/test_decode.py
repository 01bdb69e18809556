import collections

import pytest
import torch

from kvreplay.captures.decode import Decoding
from kvreplay.captures.errors import CaptureError


def test_greedy_and_end():
    logits = torch.tensor([0.0, 3.0, 9.0])
    assert Decoding().chooser("r", None, {2})(0, logits) is None
    assert Decoding(stop=False).chooser("r", None, {2})(0, logits) == 1
    assert Decoding().chooser("r", None, set())(0, logits) == 2


def test_forced_ends_with_its_text():
    choose = Decoding("forced").chooser("r", [5, 6], {5})
    assert [choose(i, torch.zeros(9)) for i in range(3)] == [5, 6, None]


def test_nucleus():
    """Frequencies follow the renormalised probabilities of the best tokens that make up top_p."""
    p = torch.tensor([0.1, 0.5, 0.05, 0.3, 0.05])
    choose = Decoding("sample", top_p=0.7, seed=3).chooser("r", None, set())
    seen = collections.Counter(choose(i, p.log()) for i in range(4000))
    assert set(seen) == {1, 3}
    assert abs(seen[1] / 4000 - 0.5 / 0.8) < 0.03


def test_temperature():
    choose = Decoding("sample", temperature=0.5, seed=3).chooser("r", None, set())
    seen = collections.Counter(choose(i, torch.tensor([0.0, 1.0])) for i in range(4000))
    assert abs(seen[1] / 4000 - 1 / (1 + 2.718281828 ** -2)) < 0.02


def test_seed_and_name_decide():
    def draw(seed, name):
        choose = Decoding("sample", seed=seed).chooser(name, None, set())
        return [choose(i, torch.zeros(50)) for i in range(8)]
    assert draw(1, "a") == draw(1, "a")
    assert draw(1, "a") != draw(2, "a") != draw(2, "b")


def test_bad_values():
    for bad in (dict(temperature=0), dict(top_p=0), dict(top_p=1.1)):
        with pytest.raises(CaptureError, match="temperature"):
            Decoding("sample", **bad)

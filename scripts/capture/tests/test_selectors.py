"""Compares each selector with a twin in plain loops, and with the limit at which it is exact."""

import math

import numpy
import pytest
import torch

from kvreplay.captures import selectors
from kvreplay.captures.errors import CaptureError
from kvreplay.captures.ranking import top
from kvreplay.captures.selectors import Step
from kvreplay.captures.selectors.exact import Exact

H, G, N, D = 2, 3, 70, 8
SINK, LOCAL = 4, 10


def random(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def step(n=N, queries=None, keys=None, lengths=None, **more):
    """One query at the end of n keys, of a random layer of 90."""
    keys = random(H, 90, D, seed=1) if keys is None else keys
    queries = random(H, G, 1, D, seed=2) if queries is None else queries
    lengths = [n] if lengths is None else lengths
    return Step(layer=5, queries=queries, keys=keys[:, :n], lengths=torch.tensor(lengths), scale=D ** -0.5, sink=SINK, local=LOCAL, **more)


def prompt_step(n=N):
    return step(n, queries=random(H, G, n, D, seed=3), lengths=list(range(1, n + 1)))


def ready(text, n=N):
    """A selector with the prompt's index."""
    selector = selectors.parse(text)
    selector.prompt(prompt_step(n))
    return selector


def softmax(values):
    high = max(values)
    weights = [math.exp(v - high) for v in values]
    return [w / sum(weights) for w in weights]


def dot(a, b):
    return sum(x * y for x, y in zip(a, b))


def close(tensor, rows):
    return torch.allclose(tensor, torch.tensor(rows), rtol=1e-4, atol=1e-6)


def test_exact():
    s = step()
    q, k = s.queries.tolist(), s.keys.tolist()
    probs = [[softmax([dot(q[h][g][0], key) * s.scale for key in k[h]]) for g in range(G)] for h in range(H)]
    assert close(Exact({}).scores(s, "head"), [[[max(p[i] for p in probs[h]) for i in range(N)]] for h in range(H)])
    assert close(Exact({}).scores(s, "layer"), [[[sum(p[i] for ps in probs for p in ps) / (H * G) for i in range(N)]]])
    assert torch.allclose(s.mass.sum(-1), torch.ones(H, 1))


def test_causal_queries():
    """Several queries at once give the same as each alone with its context."""
    both = step(queries=random(H, G, 2, D, seed=4), lengths=[50, 51])
    for i, n in enumerate((50, 51)):
        alone = step(n, queries=random(H, G, 2, D, seed=4)[:, :, i : i + 1])
        assert torch.allclose(both.probs[:, :, i, :n], alone.probs[:, :, 0], atol=1e-6)
        assert (both.probs[:, :, i, n:] == 0).all()


def test_eligible():
    for block in (1, 4, 8, 16):
        for n in (15, 40, 64, 65):
            s = step(n)
            slow = [all(SINK <= t < n - LOCAL for t in range(b * block, (b + 1) * block)) for b in range(-(-n // block))]
            assert s.eligible(block).tolist() == [slow]


@pytest.mark.parametrize("page", [4, 16])
def test_quest(page):
    selector, s = ready(f"quest:page={page}"), step()
    q, k = s.queries.tolist(), s.keys.tolist()
    bound = []
    for h in range(H):
        row = []
        for start in range(0, N, page):
            keys = k[h][start : start + page]
            row.append(sum(max(q[h][g][0][c] * min(key[c] for key in keys), q[h][g][0][c] * max(key[c] for key in keys))
                           for g in range(G) for c in range(D)))
        bound.append([row])
    assert close(selector.scores(s, "head"), bound)
    logits = (s.queries[:, :, 0] @ s.keys.mT).sum(1)  # no key of a page exceeds its bound
    assert (logits <= selector.scores(s, "head")[:, 0].repeat_interleave(page, -1)[:, :N] + 1e-4).all()


def test_quest_grows_as_if_built_anew():
    selector = ready("quest:page=8")
    for n in range(N + 1, 85):
        selector.grow(step(n))
        assert torch.equal(selector.scores(step(n), "head"), ready("quest:page=8", n).scores(step(n), "head"))


def test_shadowkv():
    chunk, count = 4, 3
    selector, s = ready(f"shadowkv:chunk={chunk},outliers={count}"), step()
    q, k = s.queries.tolist(), s.keys.tolist()
    chunks = N // chunk
    rows, outliers = [], []
    for h in range(H):
        keys = [k[h][c * chunk : (c + 1) * chunk] for c in range(chunks)]
        mean = [[sum(key[i] for key in group) / chunk for i in range(D)] for group in keys]
        cosine = [min(dot(key, mean[c]) / math.sqrt(dot(key, key) * dot(mean[c], mean[c])) for key in keys[c]) for c in range(chunks)]
        open_ = [c for c in range(chunks) if c * chunk >= SINK and (c + 1) * chunk <= N - LOCAL]
        out = sorted(open_, key=lambda c: cosine[c])[:count]
        left = [c for c in open_ if c not in out]
        probs = [softmax([dot(q[h][g][0], mean[c]) * s.scale for c in left]) for g in range(G)]
        row = [-math.inf] * -(-N // chunk)
        for i, c in enumerate(left):
            row[c] = max(p[i] for p in probs)
        rows.append([row])
        outliers.append([c in out for c in range(chunks)])
    assert close(selector.scores(s, "head"), rows)
    assert selector.kept(5).tolist() == outliers


def slow_kmeans(points, clusters, iterations):
    """Spherical k-means on one head, as the module's docstring defines it."""
    points = numpy.array(points, dtype=numpy.float64)
    centre = points.mean(0)
    points = points - centre
    n = len(points)
    centroids = points[[int((i + 0.5) * n / clusters) for i in range(clusters)]]
    for i in range(iterations):
        where = (points @ centroids.T).argmax(1)
        for c in range(clusters):
            if (where == c).any():
                centroids[c] = points[where == c].mean(0)
                if i < iterations - 1:
                    centroids[c] /= numpy.linalg.norm(centroids[c])
            elif i < iterations - 1:
                centroids[c] /= numpy.linalg.norm(centroids[c])
    return centroids + centre, where


@pytest.mark.parametrize("name, chunk", [("retroinfer", 1), ("kvdrive", 4)])
def test_clusters(name, chunk):
    selector, s = ready(f"{name}:tokens_per_centroid=8" + (f",chunk={chunk}" if chunk > 1 else "")), step()
    end = N - LOCAL
    for h in range(H):
        keys = s.keys[h, SINK:end].double().numpy()
        points = [keys[i : i + chunk].mean(0) for i in range(0, len(keys), chunk)]
        centroids, where = slow_kmeans(points, (end - SINK) // 8, 10)
        alive = [c for c in range(len(centroids)) if (where == c).any()]
        probs = [softmax([float(s.queries[h, g, 0].double().numpy() @ centroids[c]) * s.scale for c in alive]) for g in range(G)]
        expected = [-math.inf] * N
        for i in range(SINK, end):
            at = alive.index(where[(i - SINK) // chunk])
            expected[i] = sum(p[at] for p in probs)
        assert close(selector.scores(s, "head")[h, 0], expected)


def test_clusters_take_up_generated_tokens():
    selector = ready("retroinfer:update=16")
    for n in range(N + 1, N + 16):
        selector.grow(step(n))
    assert not torch.isfinite(selector.scores(step(N + 15), "head")[..., N - LOCAL :]).any()
    selector.grow(step(N + 16))
    found = selector.scores(step(N + 16), "head")
    assert torch.isfinite(found[..., SINK : N + 16 - LOCAL]).all() and not torch.isfinite(found[..., N + 16 - LOCAL :]).any()


def test_pqcache():
    selector, s = ready("pqcache:bits=3,iterations=5"), step()
    for h in range(H):
        table = []
        for part in range(2):
            keys = s.keys[h, SINK:, part * D // 2 : (part + 1) * D // 2].double().numpy()
            centroids = keys[[int((i + 0.5) * len(keys) / 8) for i in range(8)]]
            for _ in range(5):
                where = ((keys[:, None] - centroids) ** 2).sum(-1).argmin(1)
                centroids = numpy.array([keys[where == c].mean(0) if (where == c).any() else centroids[c] for c in range(8)])
            table.append(centroids[((keys[:, None] - centroids) ** 2).sum(-1).argmin(1)])
        quantised = numpy.concatenate(table, 1)
        open_ = range(N - LOCAL - SINK)
        probs = [softmax([float(quantised[i] @ s.queries[h, g, 0].double().numpy()) * s.scale for i in open_]) for g in range(G)]
        assert close(selector.scores(s, "head")[h, 0, SINK : N - LOCAL], [sum(p[i] for p in probs) for i in open_])
    grown = selectors.parse("pqcache:bits=3")
    grown.prompt(prompt_step())
    codes = grown.index[5][1]
    grown.grow(step(N + 1))
    assert grown.index[5][1].shape[1] == codes.shape[1] + 1 and torch.equal(grown.index[5][1][:, :-1], codes)


@pytest.mark.parametrize("tables", [20, 300])  # counts of one byte, and of more
def test_magicpig(tables):
    selector, s = ready(f"magicpig:K=3,L={tables}"), step()
    planes = torch.randn((D, 3 * tables), generator=torch.Generator().manual_seed(0)).double().numpy()
    end = N - LOCAL
    def buckets(v):
        return [tuple(float(v @ planes[:, t * 3 + b]) > 0 for b in range(3)) for t in range(tables)]
    for h in range(H):
        keys = s.keys[h, SINK:end].double().numpy()
        keys = keys - keys.mean(0)
        asked = [buckets(s.queries[h, g, 0].double().numpy()) for g in range(G)]
        counts = [max(sum(a == b for a, b in zip(q, buckets(key))) for q in asked) for key in keys]
        expected = [-math.inf] * N
        for i, c in enumerate(counts):
            if c >= 2 or c == max(counts):
                expected[SINK + i] = c
        assert selector.scores(s, "head")[h, 0].tolist() == expected


def test_magicpig_always_lists_one():
    selector, s = ready("magicpig:K=14,L=1"), step()
    index, _ = top(selector.scores(s, "head").masked_fill(~s.eligible(), -torch.inf), 5)
    assert (index[..., 0] >= 0).all()


def test_infinigen():
    ahead = step(queries=random(H, G, 1, D, seed=9))
    selector, s = ready("infinigen:columns=0.3"), step(ahead=ahead)
    asked = prompt_step()
    for h in range(H):
        rows = []
        for g in range(G):
            _, _, v = numpy.linalg.svd(asked.queries[h, g].double().numpy(), full_matrices=False)
            a = v.T
            q, k = asked.queries[h, g].double().numpy() @ a, s.keys[h].double().numpy() @ a
            columns = set(numpy.argsort(-abs(q).sum(0))[:2]) | set(numpy.argsort(-abs(k).sum(0))[:2])
            guess = ahead.queries[h, g, 0].double().numpy() @ a
            rows.append([sum(guess[c] * key[c] for c in columns) * s.scale for key in k])
        assert close(selector.scores(s, "head")[h, 0], [float(max(r[i] for r in rows)) for i in range(N)])


@pytest.mark.parametrize("text", ["quest:page=1", "shadowkv:chunk=1,outliers=0", "retroinfer:tokens_per_centroid=1", "pqcache:parts=1,bits=7", "infinigen:columns=1"])
def test_exact_at_the_limit(text):
    """With an index as fine as the keys and one head per group, each ranks like the exact selector."""
    keys = torch.nn.functional.normalize(random(1, 90, D, seed=5), dim=-1)
    queries = random(1, 1, N, D, seed=6)
    selector = selectors.parse(text)
    whole = step(queries=queries, keys=keys, lengths=list(range(1, N + 1)))
    selector.prompt(whole)
    s = step(queries=queries[:, :, -1:], keys=keys)
    def ranks(which):
        return top(which.scores(s, "head").masked_fill(~s.eligible(), -torch.inf), 12)[0]
    if text.startswith("retroinfer"):  # with normalised centroids the nearest may be another's
        assert len(set(ranks(selector).flatten().tolist()) & set(ranks(Exact({})).flatten().tolist())) >= 9
    else:
        assert torch.equal(ranks(selector), ranks(Exact({})))


@pytest.mark.parametrize("text, message", [
    ("qest", "did you mean quest"), ("quest:pages=3", "did you mean page"), ("quest:page=x", "expected int"),
    ("quest:page=0", "out of range"), ("infinigen:columns=2", "out of range"),
])
def test_bad_selectors(text, message):
    with pytest.raises(CaptureError, match=message):
        selectors.parse(text)


def test_labels():
    assert [selectors.label(selectors.parse(t)) for t in ("quest", "quest:page=8", "quest:page=16", "shadowkv:outliers=0,chunk=4")] == \
        ["quest", "quest-page8", "quest", "shadowkv-chunk4-outliers0"]


def test_kvdrive_of_single_tokens_is_retroinfer():
    s = step()
    assert torch.equal(ready("kvdrive:chunk=1").scores(s, "head"), ready("retroinfer").scores(s, "head"))

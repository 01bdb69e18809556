"""A learned policy: keeps the blocks that a logistic model expects back within HORIZON steps.

The model learns online from the stream. It sees the time since the last use, the number of uses and
the mean time between uses of each block. Until it has seen both kinds of blocks, it evicts as LRU.
It needs scikit-learn.
"""

from collections import deque

import numpy as np
from sklearn.linear_model import SGDClassifier

import kvreplay

HORIZON = 16  # steps in which a block is expected back
EVERY = 8  # steps between lessons


class Learned(kvreplay.Policy):
    streams = 8  # all state is in self, so kvreplay may replay several streams in turn

    def reset(self, scope):
        self.outside = np.zeros(scope.blocks, bool)  # the set E
        self.first = np.full(scope.blocks, -1, np.int64)  # the first use
        self.last = np.zeros(scope.blocks, np.int64)  # the last use, or the present one
        self.uses = np.zeros(scope.blocks, np.int64)
        self.shift, self.now = scope.windows + 1, 0
        self.lessons = deque()
        self.model = SGDClassifier(loss="log_loss", random_state=scope.seed % 2**32)
        self.trained = False

    def features(self, blocks):
        age = self.now - self.last[blocks]
        gap = np.maximum(self.last[blocks] - self.first[blocks], 0) / np.maximum(self.uses[blocks] - 1, 1)
        return np.log1p(np.stack([age, self.uses[blocks], gap], axis=1))

    def update(self, step):
        self.now = step.t + self.shift
        for blocks in (step.exit, step.offered):
            self.last[blocks] = self.now - 1
            self.outside[blocks] = True
        for blocks in (step.offered, step.hit, step.miss):
            self.first[blocks] = np.where(self.first[blocks] < 0, self.now, self.first[blocks])
            self.uses[blocks] += 1
        for blocks in (step.hit, step.miss):
            self.last[blocks] = self.now
        self.outside[step.hit] = False
        if self.now % EVERY == 0:
            self.watch()

    def watch(self):
        """Remember the features of E, and learn from those of HORIZON steps ago, which are known to be back or not."""
        blocks = np.flatnonzero(self.outside)
        if len(blocks):
            self.lessons.append((self.now, blocks, self.features(blocks)))
        while self.lessons and self.lessons[0][0] <= self.now - HORIZON:
            at, blocks, features = self.lessons.popleft()
            self.learn(features, self.last[blocks] >= at)

    def learn(self, features, back):
        self.model.partial_fit(features, back, classes=[False, True])
        self.trained = self.trained or back.any() and not back.all()

    def value(self, blocks):
        return self.model.decision_function(self.features(blocks)) if self.trained else self.last[blocks]

    def evict(self, n):
        blocks = np.flatnonzero(self.outside)
        victims = blocks[np.lexsort((blocks, self.last[blocks], self.value(blocks)))[:n]]
        self.outside[victims] = False
        return victims


if __name__ == "__main__":
    kvreplay.serve(Learned())

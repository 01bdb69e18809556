"""A learned policy: learned.py with a decision tree in the place of the logistic model.

The tree is fitted again every few lessons, to the latest ones. It needs scikit-learn.
"""

from collections import deque

import numpy as np
from learned import Learned
from sklearn.tree import DecisionTreeClassifier

import kvreplay

LESSONS = 64  # that the tree is fitted to
EVERY = 4  # lessons between fits


class Tree(Learned):
    def reset(self, scope):
        super().reset(scope)
        self.tree, self.latest, self.heard = None, deque(maxlen=LESSONS), 0

    def learn(self, features, back):
        self.latest.append((features, back))
        self.heard += 1
        if self.heard % EVERY == 0:
            x, y = (np.concatenate(parts) for parts in zip(*self.latest, strict=True))
            if y.any() and not y.all():
                self.tree = DecisionTreeClassifier(max_depth=6, min_samples_leaf=8, random_state=0).fit(x, y)

    def value(self, blocks):
        return self.tree.predict_proba(self.features(blocks))[:, 1] if self.tree else self.last[blocks]


if __name__ == "__main__":
    kvreplay.serve(Tree())

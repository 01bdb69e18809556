"""LFU: evicts the block with the fewest demanded steps since it was fetched or born."""

import numpy as np

import kvreplay


class LFU(kvreplay.Policy):
    streams = 8  # all state is in self, so kvreplay may replay several streams in turn

    def reset(self, scope):
        self.uses = np.zeros(scope.blocks, np.int64)  # steps in the demand, of finished stays
        self.since = np.zeros(scope.blocks, np.int64)  # first step of the present stay
        self.last = np.zeros(scope.blocks, np.int64)  # last demanded step
        self.outside = np.zeros(scope.blocks, bool)  # the set E
        self.shift = scope.windows + 1  # makes steps positive

    def update(self, step):
        now = step.t + self.shift
        self.uses[step.exit] += now - self.since[step.exit]
        for blocks in (step.exit, step.offered):
            self.last[blocks] = now - 1
            self.outside[blocks] = True
        self.uses[step.offered] = 0
        self.uses[step.miss] = 0
        for blocks in (step.hit, step.miss):
            self.since[blocks] = now
            self.outside[blocks] = False

    def evict(self, n):
        blocks = np.flatnonzero(self.outside)
        first = np.lexsort((blocks, self.last[blocks], self.uses[blocks]))[:n]
        self.outside[blocks[first]] = False
        return blocks[first]


if __name__ == "__main__":
    kvreplay.serve(LFU())

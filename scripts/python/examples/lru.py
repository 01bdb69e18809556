"""LRU: evicts the block demanded longest ago. The same rule as kvreplay's own lru."""

import kvreplay


class LRU(kvreplay.Policy):
    streams = 8  # all state is in self, so kvreplay may replay several streams in turn

    def reset(self, scope):
        self.queue = kvreplay.Queue(scope.blocks)

    def update(self, step):
        self.queue.push(step.exit)  # used until the step before, so they join in the order of use
        self.queue.push(step.offered)
        self.queue.remove(step.hit)

    def evict(self, n):
        return self.queue.pop(n)


if __name__ == "__main__":
    kvreplay.serve(LRU())

"""LRU over an OrderedDict, the usual first implementation. It reads int32 accesses from a
file, replays them one by one, and prints the seconds of the loop.

    python3 ordereddict.py ACCESSES CAPACITY
"""

import array
import sys
import time
from collections import OrderedDict


def replay(accesses, capacity):
    cache = OrderedDict()
    hits = 0
    for x in accesses:
        if x in cache:
            cache.move_to_end(x)
            hits += 1
        else:
            cache[x] = True
            if len(cache) > capacity:
                cache.popitem(last=False)
    return hits


def main(path, capacity):
    accesses = array.array("i")
    with open(path, "rb") as f:
        accesses.frombytes(f.read())
    began = time.perf_counter()
    replay(accesses.tolist(), int(capacity))
    print(time.perf_counter() - began)


if __name__ == "__main__":
    main(*sys.argv[1:])

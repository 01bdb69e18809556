"""A policy's program that drops the changes of steps: the cost of the protocol alone. It names no victim."""

import os
import sys

greeting = b'H{"protocol": 1, "streams": 8, "version": "1"}'
os.read(0, 1 << 16)
os.write(1, len(greeting).to_bytes(4, "little") + greeting)
while data := os.read(0, 1 << 20):
    if data[-9:-4] == b"\5\0\0\0E":  # a question
        sys.exit("nothing: no victims")

"""Serve a policy: python -m kvreplay FILE.py:CLASS."""

import sys

from .policy import load, serve

if len(sys.argv) != 2:
    raise SystemExit("usage: python -m kvreplay FILE.py:CLASS")
serve(load(sys.argv[1])())

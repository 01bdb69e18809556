"""Records which KV-cache entries each decoding step of a model selects.

The command is `python -m kvreplay.captures`; scripts/capture/README.md explains it.
"""

__version__ = "1.0"

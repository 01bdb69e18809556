"""Records which KV-cache entries each decoding step of a model selects.

The command is `python -m capture`; README.md beside this package explains it.
"""

__version__ = "1.0"

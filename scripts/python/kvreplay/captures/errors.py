"""Errors of the user's input, as opposed to bugs."""


class CaptureError(Exception):
    """An error whose message states the action, the finding and the expectation."""


def nearest(name: str, known) -> str:
    """The end of a message on an unknown name: the nearest name and the existing names."""
    import difflib

    known = sorted(known)
    close = difflib.get_close_matches(name, known, n=1)
    return (f"did you mean {close[0]}? " if close else "") + "known: " + ", ".join(known)

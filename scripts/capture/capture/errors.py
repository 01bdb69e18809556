"""What is wrong with what a user gave, as opposed to a bug of ours."""


class CaptureError(Exception):
    """Its message tells the user what was being done, what was found and what was expected."""


def nearest(name: str, known) -> str:
    """The end of a message on an unknown name: what was perhaps meant, and what there is."""
    import difflib

    known = sorted(known)
    close = difflib.get_close_matches(name, known, n=1)
    return (f"did you mean {close[0]}? " if close else "") + "known: " + ", ".join(known)

"""placeholder"""

SHORTEST = 3


def fold(text: bytes) -> bytes:
    """UTF-8 with ASCII in lower case, and with the two letters beyond ASCII that are others of
    the same: the long s and the sign for kelvin."""
    folded = text.lower()
    if b"\xc5\xbf" in folded or b"\xe2\x84\xaa" in folded:
        folded = folded.replace(b"\xc5\xbf", b"s").replace(b"\xe2\x84\xaa", b"k")
    return folded

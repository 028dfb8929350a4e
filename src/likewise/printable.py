"""Text that a terminal shows, and does not obey."""

import re

UNPRINTABLE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
"""What a terminal obeys instead of showing it, or shows in another order than it stands in."""


def printable(text: str) -> str:
    r"""Return text in which characters that a terminal would obey are spelled out.

    Examples
    --------
    >>> print(printable("red" + chr(27) + "[31m"))
    red\x1b[31m
    """
    return UNPRINTABLE.sub(lambda found: ascii(found[0])[1:-1], text)

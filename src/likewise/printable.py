"""Text as it may be printed: nothing a terminal obeys, and no keys within an address."""

import hashlib
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


_SECRET = re.compile(r"([a-z][a-z0-9+.-]*://[^?#]*)([?#].*)", re.DOTALL | re.IGNORECASE)


def without_query(text: str) -> str:
    """Return text in which the query of an address, where keys are put, is only a hash.

    Two addresses that differ can still be told apart.

    Examples
    --------
    >>> without_query("http://host/predict?api_key=abc")
    'http://host/predict?sha256=42ce800d865e'
    """

    def hide(found: re.Match[str]) -> str:
        return f"{found[1]}?sha256={hashlib.sha256(found[2].encode()).hexdigest()[:12]}"

    return _SECRET.sub(hide, text)

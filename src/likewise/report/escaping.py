"""Text from outside, made safe for each place it is shown in: one function a place.

A web page escapes by itself (`likewise.report.page`), whatever is put into it.
"""

import math
import re
from typing import Any

from likewise.record.json_text import printable

FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")
"""What makes a spreadsheet run a cell, the wide characters of Asian keyboards included."""

# XML 1.0 has no place for these, not even escaped.
_NOT_XML = re.compile("[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
LONGEST = 600


def for_terminal(text: str) -> str:
    """Return text that a terminal shows and does not obey; lines stay lines."""
    return printable(text)


def on_one_line(text: str) -> str:
    """Return a name that cannot pretend to be lines of its own in a table at a terminal."""
    return " ".join(text.split())


def cut(text: str, most: int) -> str:
    """Return a name on one line, shortened to a column of a table at a terminal."""
    text = on_one_line(text)
    return text if len(text) <= most else f"{text[: most - 1]}…"


def for_csv(value: Any) -> Any:
    """Return a value for a cell. Text that a spreadsheet would run as a formula gets a quote.

    Examples
    --------
    >>> for_csv("=1+1"), for_csv(-1.5)
    ("'=1+1", -1.5)
    """
    if isinstance(value, float):
        return "" if math.isnan(value) else value
    text = str(value)
    quote = "'" if text.lstrip(" ").startswith(FORMULA) else ""
    return quote + printable(text)


def for_markdown(text: str) -> str:
    """Return text that Markdown shows as it is: no markup, no link, no mention, one line."""
    cut = text if len(text) <= LONGEST else f"{text[:LONGEST]}… ({len(text):,} characters)"
    flat = printable(" ".join(cut.split()))
    plain = flat.replace("&", "&amp;").replace("<", "&lt;").replace("@", "@\u200b")
    return re.sub(r"([\\`*_\[\]#|~])", r"\\\1", plain).replace("://", ":\u200b//")


def for_xml(text: str) -> str:
    """Return text that XML can hold; the library that writes it escapes markup."""
    return _NOT_XML.sub("\ufffd", printable(text))

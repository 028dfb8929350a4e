"""Output encoding: text from outside made safe for each place it is shown in.

A web page escapes by itself (`likewise.report.html`), whatever is put into it.
"""

import re
from typing import Any

from likewise.errors import printable

# What makes a spreadsheet run a cell, the wide characters of Asian keyboards included: at the
# start, and after whatever another locale takes for the end of a cell.
_FORMULA = re.compile(r"(^|[;,|\t\r\n])([\s\"']*)(?=[=+\-@＝＋－＠])")
# XML 1.0 has no place for these, not even escaped.
_NOT_XML = re.compile("[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
LONGEST = 600
"""Characters of a text that are shown in Markdown."""


def on_one_line(text: str) -> str:
    """Return a name that cannot pretend to be lines of its own in a table at a terminal."""
    return " ".join(text.split())


def cut(text: str, most: int) -> str:
    """Return a name on one line, shortened to a column of a table at a terminal."""
    text = on_one_line(text)
    return text if len(text) <= most else f"{text[: max(most - 1, 0)]}…"


def for_csv(value: Any) -> Any:
    """Return a value for a cell. Text that a spreadsheet would run as a formula gets a quote.

    Examples
    --------
    >>> for_csv("=1+1"), for_csv("a;=1+1"), for_csv(-1.5)
    ("'=1+1", "a;'=1+1", -1.5)
    """
    if value is None or value != value:  # unknown
        return ""
    if isinstance(value, int | float):
        return value
    # A tab or the end of a line ends a cell in some locales, so that none is left.
    return printable(on_one_line(_FORMULA.sub(r"\1\2'", str(value))))


def for_markdown(text: str) -> str:
    """Return text that Markdown shows as it is: no markup, no link, no mention, one line."""
    cut = text if len(text) <= LONGEST else f"{text[:LONGEST]}… ({len(text):,} characters)"
    plain = printable(on_one_line(cut)).replace("&", "&amp;").replace("<", "&lt;")
    plain = plain.replace("@", "@\u200b")
    return re.sub(r"([\\`*_\[\]#|~])", r"\\\1", plain).replace("://", ":\u200b//")


def for_xml(text: str) -> str:
    """Return text that XML can hold; the library that writes it escapes markup."""
    return _NOT_XML.sub("\ufffd", printable(text))

"""Everything raised, or warned about, on purpose.

A message says what is wrong, gives the offending number or name, and says what to do.
The command line prints it as one sentence and exits with the code of its class.
"""

import difflib
import hashlib
import importlib
import re
from collections.abc import Iterable
from pathlib import PurePath
from typing import Any, ClassVar


class LikewiseError(Exception):
    """Base of all errors raised on purpose."""

    exit_code: ClassVar[int] = 2


class InvalidData(LikewiseError, ValueError):
    """The table cannot be audited as it is."""


class MissingValues(InvalidData):
    """Values are missing where the model, as far as is known, needs them."""


class InvalidModel(LikewiseError, ValueError):
    """The model cannot be read, converted or trusted to treat rows one by one."""


class NoAnswer(InvalidModel):
    """A model behind an address does not answer."""


class InvalidMetric(LikewiseError, ValueError):
    """The fair metric is not a metric, or does not belong to this model."""


class InvalidSettings(LikewiseError, ValueError):
    """A choice is out of its range, or refused because it would give a wrong answer."""


class InvalidSample(LikewiseError, ValueError):
    """Outcomes that no statistic can be computed from."""


class InvalidFile(LikewiseError, ValueError):
    """A saved file is missing, damaged, or from a newer version."""


class TrustRequired(LikewiseError, ValueError):
    """Opening this file can run code that is in it; the user has to say yes first."""


class MissingExtra(LikewiseError, ImportError):
    """An optional dependency is needed and not installed."""


class Untrustworthy(LikewiseError, ArithmeticError):
    """The audit ran, but its result must not be used."""

    exit_code: ClassVar[int] = 3


class LikewiseWarning(UserWarning):
    """Base of all warnings given on purpose."""


class StatisticalWarning(LikewiseWarning):
    """The numbers are right, but an assumption behind their interpretation is doubtful."""


def import_optional(library: str, extra: str, what: str) -> Any:
    """Import a library, or say in one sentence what needs it and which extra installs it."""
    try:
        return importlib.import_module(library)
    except ImportError as error:
        missing = (error.name or library).partition(".")[0]
        refusal = MissingExtra(
            f"{what} needs {missing}, which is not installed: pip install 'likewise[{extra}]'."
        )
        refusal.name = missing  # as every ImportError has it
        raise refusal from None


def nearest(name: str, names: Iterable[str]) -> str:
    """Return a hint naming the entry of ``names`` closest to ``name``, or an empty string.

    Case does not count, nor does an ending (``.csv``) that both have.
    """
    ending = PurePath(name).suffix.lower()
    known = {one.lower().removesuffix(ending): one for one in names}
    close = difflib.get_close_matches(name.lower().removesuffix(ending), known, n=1, cutoff=0.65)
    return f" Did you mean {known[close[0]]!r}?" if close else ""


def few(names: Iterable[str], most: int = 5, last: str = "and") -> str:
    """Return names as a list in words, of which ``most`` are shown.

    Examples
    --------
    >>> few(["a", "b", "c"]), few("abcdef", 3)
    ('a, b and c', 'a, b and 4 others')
    """
    shown = list(names)
    if len(shown) > most:
        shown[most - 1 :] = [f"{len(shown) - most + 1} others"]
    return f" {last} ".join(filter(None, (", ".join(shown[:-1]), *shown[-1:])))


def in_short(error: BaseException) -> str:
    """Return what another library complained about, short enough to stand in a sentence.

    Of what pydantic says, the first place and what is wrong there.
    """
    lines = str(error).strip().splitlines()
    more = f" {lines[1].strip()}" if lines and lines[0].endswith(":") and lines[1:] else ""
    text = f"{type(error).__name__}: {lines[0].strip()}{more}" if lines else type(error).__name__
    if callable(known := getattr(error, "errors", None)):
        first = known()[0]
        place, reason = ".".join(map(str, first["loc"])), first["msg"].removeprefix("Value error, ")
        text = f"{place[:100]}: {reason}".removeprefix(": ")
    text = text if len(text) <= 200 else text[:199] + "…"
    return text.rstrip(".:")


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


_ESCAPE = re.compile(r"\\(?:r|x[0-9a-f]{2}|u[0-9a-f]{4})")


def printable_name(text: str) -> str:
    r"""Return a name that can be shown and written anywhere; different ones stay different.

    Examples
    --------
    >>> print(printable_name("red" + chr(13)), printable_name(r"red\r"), printable_name("red"))
    red\r red\\r red
    """
    if not (UNPRINTABLE.search(text) or _ESCAPE.search(text)):
        return text
    return printable(text.replace("\\", "\\\\"))

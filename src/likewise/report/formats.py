"""Number formats and display names: every number and name as all outputs write it."""

import dataclasses
import math
import re
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

from likewise.record import Record
from likewise.report.escaping import cut

NOT_KNOWN = "—"
LONGEST_NAME = 40
"""Characters of a name or value that are shown; the rest is cut."""

_WORDS_WITHOUT_A_SUBJECT = {"yes", "no", "true", "false", "none", "missing", "unknown", "other"}


def number(value: float, digits: int = 3) -> str:
    """Return a number to three significant digits, with separators and a minus sign.

    Examples
    --------
    >>> number(2.2136), number(0.5), number(-12345.6), number(1e-7)
    ('2.21', '0.500', '−12,346', '1.00e−7')
    """
    if math.isnan(value):
        return NOT_KNOWN
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    value += 0.0  # no minus before zero
    # Rounding may add a digit in front: 9.996 is 10.0.
    mantissa, _, power = f"{value:.{digits - 1}e}".partition("e")
    if value and not 1e-4 <= abs(value) < 1e9:
        return f"{mantissa}e{int(power)}".replace("-", "−")
    return f"{value:,.{max(digits - 1 - int(power), 0)}f}".replace("-", "−")


def percent(share: float) -> str:
    """Return a share in per cent, to three significant digits, with at most two decimals."""
    if not math.isfinite(share):
        return number(share)
    value = 100 * share
    decimals = 0 if abs(value) >= 99.95 or value == 0 else 1 if abs(value) >= 9.995 else 2
    return f"{value:.{decimals}f} %".replace("-", "−")


def points(difference: float) -> str:
    """Return a difference of shares in percentage points."""
    if not math.isfinite(difference):
        return number(difference)
    return f"{round(100 * difference, 1) + 0.0:.1f} points".replace("-", "−")


def level(alpha: float) -> str:
    """Return the confidence level that belongs to ``alpha``: ``95 %``."""
    return f"{100 * (1 - alpha):.4g} %"


def p_value(value: float) -> str:
    """Return a p-value to two significant digits; below one in ten thousand only that is said."""
    if math.isnan(value):
        return NOT_KNOWN
    return "<0.0001" if value < 1e-4 else f"{value:.2g}" if value < 0.995 else "1.0"


def interval(ends: tuple[float, float], between: str = " – ") -> str:
    """Return the two ends of an interval; a dash alone does not stand beside a minus."""
    between = " to " if between == "–" and ends[0] < 0 else between
    return f"{number(ends[0])}{between}{number(ends[1])}"


def limit(delta: float) -> str:
    """Return a limit as it was given, or its inverse: ``1.25``, ``0.8``."""
    return f"{delta:.4g}".replace("-", "−")


def capital(text: str) -> str:
    """Return text with a capital letter, unless a name of the data stands first."""
    named = " → " in text.partition(", CI")[0] or " follows what may matter in " in text
    return text if named else text[:1].upper() + text[1:]


def sentence_case(text: str) -> str:
    """Return text with a capital first letter and a full stop."""
    return capital(text) + ("" if text.endswith((".", "?", "!")) else ".")


def listed(names: Sequence[str], *, most: int = 0, last: str = "and") -> str:
    """Return names as a sentence lists them; beyond ``most`` they are counted."""
    names = list(names)
    if most and len(names) > most:
        names = [*names[:most], f"{len(names) - most} more"]
    return "".join(names) if len(names) < 2 else f"{', '.join(names[:-1])} {last} {names[-1]}"


def wrap(text: str, indent: str = "", width: int = 80, hanging: str | None = None) -> list[str]:
    """Break text at the width of the page; ``hanging`` indents what follows the first line."""
    # A number keeps its per cent sign; only spaces are broken at.
    kept = text.strip().replace(" %", "\u00a0%")
    after = indent if hanging is None else hanging
    wrapper = textwrap.TextWrapper(width, indent, after, break_on_hyphens=False)
    return [line.replace("\u00a0%", " %") for line in wrapper.wrap(kept)]


def shown(value: Any, most: int = LONGEST_NAME) -> str:
    """Return a person's value as text of a card or table."""
    if value is None:
        return "missing"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:,.5g}".replace("-", "−")
    large = isinstance(value, int) and abs(value) >= 10_000
    return cut(f"{value:,}" if large else str(value), most)


@dataclasses.dataclass(frozen=True)
class Names:
    """Display names of columns, groups and decisions.

    A value that says nothing without its column (yes, 0, 25–45) is written with it.

    ``labels`` are display names from the settings: by column, or by ``column = value``. ``label``
    is the column of the true outcome, of which decisions are values.
    """

    labels: Mapping[str, str]
    label: str = ""

    @classmethod
    def from_record(cls, record: Record) -> "Names":
        """Return the names that a record's settings give.

        Without a label, decisions are values of the column that holds them, or scores on one side
        of the threshold.
        """
        decide, given = record.settings.decide, record.settings.labels
        if record.data.label or decide.score is None:
            return cls(given, record.data.label or decide.decision or "decision")
        cut_at = f"{0.5 if decide.threshold is None else decide.threshold:g}"
        sides = {f"{decide.score} = 1": f"{decide.score} above {cut_at}"}
        sides[f"{decide.score} = 0"] = f"{decide.score} up to {cut_at}"
        return cls(sides | given, decide.score)

    def column(self, name: str) -> str:
        """Return the name of a column."""
        return cut(self.labels.get(name, name), LONGEST_NAME)

    def columns(self, names: Sequence[str], most: int = 0, last: str = "and") -> str:
        """Return names of columns as a sentence lists them."""
        return listed([self.column(name) for name in names], most=most, last=last)

    def group(self, attribute: str, value: str) -> str:
        """Return the name of a group, for a table: ``Female``, ``black = yes``."""
        named = f"{self.column(attribute)} = {value}" if _needs_column(value) else value
        return cut(self.labels.get(f"{attribute} = {value}", named), LONGEST_NAME)

    def people(self, attribute: str, value: str) -> str:
        """Return the name of a group, for a sentence: ``women``, ``people with sex = Female``.

        Whether a value of the data can stand for people in the plural is not known.
        """
        if f"{attribute} = {value}" in self.labels:
            return self.group(attribute, value)
        return cut(f"people with {self.column(attribute)} = {value}", LONGEST_NAME + 12)

    def both(self, row: Any) -> tuple[str, str]:
        """Return the two groups of a comparison, for a sentence."""
        return self.people(row.attribute, row.group), self.people(row.attribute, row.other)

    def decision(self, value: str) -> str:
        """Return the name of a decision in quotes: ``'>50K'``, ``'deny = no'``."""
        given = self.labels.get(f"{self.label} = {value}")
        if given is None and self.label and _needs_column(value):
            given = f"{self.column(self.label)} = {value}"
        return f"'{cut(given or value, LONGEST_NAME)}'"


def _needs_column(value: str) -> bool:
    word = value.strip().lower()
    bare = len(word) < 2 or not re.search(r"[^\W\d_]", word)
    cut_number = re.fullmatch(r"(\S+ to )?under \S+|\S+ or over", word) is not None  # of --bins
    return bare or cut_number or word in _WORDS_WITHOUT_A_SUBJECT

"""The lines of the calibration table: one function a line, found by their decorator."""

import dataclasses
import math
from collections.abc import Callable, Iterable, Iterator

import numpy as np

DELTA, ALPHA, CAP = 1.25, 0.05, 10.0
BEYOND = 1.75
"""Where power is measured: a ratio clearly above the tolerance."""


@dataclasses.dataclass(frozen=True)
class Effort:
    """How many samples to draw, by the cost of a method."""

    repetitions: int = 2000
    inversions: int = 2000
    bootstrap: int = 500
    refits: int = 300

    @classmethod
    def quick(cls) -> "Effort":
        """Return what fits in a minute or two."""
        return cls(repetitions=1000, inversions=100, bootstrap=20, refits=10)

    def times(self, share: float) -> "Effort":
        """Return so many times as many samples of everything."""
        counts = dataclasses.astuple(self)
        return Effort(*(max(10, round(share * count)) for count in counts))


@dataclasses.dataclass(frozen=True)
class Bar:
    """A promise: a column of the row stays within limits."""

    column: str
    low: float = -math.inf
    high: float = math.inf


@dataclasses.dataclass(frozen=True)
class Row:
    """Error rates of one method on one population.

    Parameters
    ----------
    repetitions
        Number of samples drawn; 0 if all samples were enumerated, with their probabilities.
    size
        How often the lower bound exceeds the truth: a model at the tolerance is accused.
    false_certification
        How often a model at the tolerance is found within it.
    upper_miss
        How often the upper bound lies below the truth: what certification would suffer from if
        neither cap nor numbers of people held it back.
    coverage
        How often the two-sided interval holds the truth.
    power
        How often a model whose value is 1.75 is accused.
    """

    method: str
    population: str
    n: int
    repetitions: int
    size: float = math.nan
    false_certification: float = math.nan
    upper_miss: float = math.nan
    coverage: float = math.nan
    power: float = math.nan
    note: str = ""
    bars: tuple[Bar, ...] = ()

    def error(self, column: str) -> float:
        """Return the Monte-Carlo standard error of a column."""
        rate = getattr(self, column)
        return math.sqrt(rate * (1 - rate) / self.repetitions) if self.repetitions else 0.0

    def missed(self) -> list[Bar]:
        """Return the promises that are broken by more than chance.

        A rate may lie outside its limits by three Monte-Carlo standard errors of the limit itself,
        so that a method exactly at its limit is not blamed for luck.
        """
        return [bar for bar in self.bars if not _holds(getattr(self, bar.column), bar, self)]

    def to_dict(self) -> dict[str, object]:
        """Return the row for JSON; what was not measured is null."""
        values = {k: v for k, v in dataclasses.asdict(self).items() if k != "bars"}
        errors = {f"{c}_error": self.error(c) for c in COLUMNS}
        plain = {
            k: None if isinstance(v, float) and math.isnan(v) else v for k, v in values.items()
        }
        return {**plain, **{k: None if math.isnan(v) else v for k, v in errors.items()}}


COLUMNS = ("size", "false_certification", "upper_miss", "coverage", "power")
Line = Callable[[Effort, np.random.Generator], Iterable[Row]]
LINES: dict[str, Line] = {}


def line(function: Line) -> Line:
    """Add a function to the table under its own name."""
    LINES[function.__name__] = function
    return function


def run(names: Iterable[str], effort: Effort, seed: int) -> Iterator[Row]:
    """Yield the rows of some lines; each has its own stream of random numbers."""
    for name in names:
        stream = np.random.default_rng([seed, *name.encode()])
        yield from LINES[name](effort, stream)


def _holds(rate: float, bar: Bar, row: Row) -> bool:
    def slack(limit: float) -> float:
        inside = min(max(limit, 0.0), 1.0)
        return 3 * math.sqrt(inside * (1 - inside) / row.repetitions) if row.repetitions else 0.0

    return bar.low - slack(bar.low) <= rate <= bar.high + slack(bar.high)

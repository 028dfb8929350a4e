"""Tables that fit a terminal and a Markdown page."""

import dataclasses
from collections.abc import Sequence

from rich.cells import cell_len


@dataclasses.dataclass(frozen=True)
class Table:
    """A small table of ready-made texts.

    Rows that are ``ruled`` have a rule above them; so many columns are aligned ``left``.
    """

    title: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    ruled: frozenset[int] = frozenset()
    left: int = 1

    def text(self) -> str:
        """Return the table for a terminal."""
        widths = [max(map(cell_len, column)) for column in zip(self.head, *self.rows, strict=True)]
        rule = "─" * (sum(widths) + 2 * (len(widths) - 1))
        lines = [self.title, rule, self._line(self.head, widths), rule]
        for index, row in enumerate(self.rows):
            lines += [rule] * (index in self.ruled) + [self._line(row, widths)]
        return "\n".join([*lines, rule])

    def markdown(self) -> str:
        """Return the table for a Markdown page."""
        marks = ["---" if i < self.left else "---:" for i in range(len(self.head))]
        lines = [self.head, marks, *self.rows]
        return "\n".join("| " + " | ".join(line) + " |" for line in lines)

    def _line(self, row: Sequence[str], widths: Sequence[int]) -> str:
        # A combining tilde takes no room of its own, so characters are not columns.
        pads = [" " * (w - cell_len(cell)) for cell, w in zip(row, widths, strict=True)]
        cells = [
            cell + pad if i < self.left else pad + cell
            for i, (cell, pad) in enumerate(zip(row, pads, strict=True))
        ]
        return "  ".join(cells).rstrip()


def number(value: float, digits: int = 3) -> str:
    """Return a number as it is printed in a paper."""
    return f"{value:.{digits}f}".replace("-", "−")


def spread(mean: float, sd: float | None) -> str:
    """Return mean ± standard deviation, where that is known."""
    return number(mean, 2) if sd is None else f"{number(mean, 2)} ± {number(sd, 2)}"

"""From finished pieces to the record: one sweep over the outcomes on disk."""

import contextlib
import dataclasses
import heapq
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from jaxtyping import Float

from likewise.checks.gather import Case, Progress
from likewise.checks.introduce import Introduced
from likewise.checks.pieces import Piece, cases_of, read_piece, read_sums
from likewise.checks.survey import Survey
from likewise.checks.writing import SHOWN_CASES
from likewise.errors import Untrustworthy
from likewise.files import replacing
from likewise.outcomes import Outcomes
from likewise.report.redact import redact_outcomes
from likewise.scale.journal import IF_FULL, Journal
from likewise.settings import Settings
from likewise.statistics.frame import Frame
from likewise.statistics.quantile_sketch import QuantileSketch
from likewise.statistics.tally import Tally
from likewise.statistics.trait_levels import TraitLevels

BINS = 40
SHARES = (0.0, 0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99, 1.0)


@dataclasses.dataclass(frozen=True)
class Joined:
    """What all pieces together say.

    Parameters
    ----------
    tally
        The sums of everyone: all that the tests and the tables need.
    worst
        The people harmed most, and their outcomes in the same order.
    distribution
        Quantiles (to one per cent) and the histogram of the loss ratios.
    """

    n: int
    about: Mapping[str, Any]
    tally: Tally
    below_one: int
    clipped: int
    evaluations: int
    shift: Float[np.ndarray, " d"]
    absolute_shift: Float[np.ndarray, " d"]
    distribution: Mapping[str, tuple[float, ...]]
    worst: tuple[Case, ...]
    worst_outcomes: Outcomes


def join(
    book: Journal,
    known: Survey,
    who: Introduced,
    settings: Settings,
    outcomes: Path | None,
    provenance: Mapping[str, str],
    *,
    redacted: bool = False,
    progress: Progress | None = None,
) -> Joined:
    """Read all pieces in their order, add them up, and write the outcomes of everyone.

    Parameters
    ----------
    outcomes, provenance, redacted
        Where to write them, what is noted there beside what the pieces say, and whether to hide
        what identifies single people.
    """
    numbers = sorted(book.done())
    heads = [head for number in numbers if (head := read_sums(book.path(number))) is not None]
    n = sum(head["n"] for head in heads)
    if n != known.n:
        raise Untrustworthy(
            f"The journal holds {n} people, but there are {known.n}. Remove {str(book.folder)!r} "
            "and begin again."
        )
    levels = {name: TraitLevels.of(counts) for name, counts in known.traits.items()}
    weight = sum(head["weight"] for head in heads)
    frame = Frame(
        n=n,
        task=who.model.card.task,
        classes=max(2, len(who.classes)),
        weighted=known.weighted,
        total_weight=weight,
        cap=settings.cap,
        limit=settings.cap * sum(head["loss_before"] for head in heads) / weight,
        traits=levels,
    )
    tallies: list[Tally] = []
    edges, histogram = _edges(heads), np.zeros(BINS)
    worst = heapq.nlargest(
        SHOWN_CASES,
        (case for head in heads for case in cases_of(head)),
        key=lambda case: (case.harm, -case.row),
    )
    found: dict[int, Outcomes] = {}
    about: Mapping[str, Any] = {}
    with _outcomes_file(outcomes, provenance, redacted) as write:
        for done, number in enumerate(numbers, start=1):
            piece = read_piece(book.path(number), levels)
            block = piece.outcomes
            about = block.about
            if not tallies:
                frame = dataclasses.replace(
                    frame,
                    monotone=block.monotone,
                    clustered=block.cluster is not None,
                    horizons=tuple(sorted(block.horizons)),
                )
            own = Tally.of(block, frame, piece.levels)
            tallies = [tallies[0] + own] if tallies else [own]
            if edges is not None:
                ratio = block.ratio
                usable = ratio[np.isfinite(ratio) & (ratio > 0)]
                histogram += np.histogram(np.log10(usable), edges)[0]
            for i in np.flatnonzero(np.isin(block.row, [case.row for case in worst])):
                found[int(block.row[i])] = named(piece, levels).take(np.array([i]))
            write(piece, levels)
            if progress is not None:
                progress("adding up", done, len(numbers))
    share = np.array([head["n"] for head in heads]) / n
    return Joined(
        n=n,
        about=about,
        tally=tallies[0],
        below_one=sum(head["below_one"] for head in heads),
        clipped=sum(head["clipped"] for head in heads),
        evaluations=max(head["evaluations"] for head in heads),
        shift=share @ np.array([head["shift"] for head in heads]),
        absolute_shift=share @ np.array([head["absolute_shift"] for head in heads]),
        distribution=_distribution(tallies[0].spread, edges, histogram),
        worst=tuple(worst),
        worst_outcomes=Outcomes.concat([found[case.row] for case in worst]),
    )


def _edges(heads: list[dict[str, Any]]) -> Float[np.ndarray, " m"] | None:
    least = [head["least"] for head in heads if head["least"] is not None]
    greatest = [head["greatest"] for head in heads if head["greatest"] is not None]
    if not least:
        return None
    low, high = np.log10(min(least)), np.log10(max(greatest))
    return np.linspace(low, max(high, low + 1e-6), BINS + 1)


def _distribution(
    sketch: QuantileSketch,
    edges: Float[np.ndarray, " m"] | None,
    histogram: Float[np.ndarray, " k"],
) -> dict[str, tuple[float, ...]]:
    if edges is None:
        return {}
    return {
        "shares": SHARES,
        "quantiles": tuple(sketch.quantile(share) for share in SHARES),
        "edges": tuple(map(float, 10**edges)),
        "counts": tuple(map(float, histogram)),
    }


def named(piece: Piece, levels: Mapping[str, TraitLevels]) -> Outcomes:
    """Return the outcomes of a piece with its groups as text."""
    groups = {
        name: levels[name].named(codes).to_numpy(zero_copy_only=False)
        for name, codes in piece.levels.items()
    }
    return dataclasses.replace(piece.outcomes, groups=groups)


@contextlib.contextmanager
def _outcomes_file(
    path: Path | None, provenance: Mapping[str, str], redacted: bool
) -> Iterator[Any]:
    """Yield what appends a piece to a Parquet file, which is there whole at the end or not."""
    if path is None:
        yield lambda piece, levels: None
        return
    writer: pq.ParquetWriter | None = None
    numbers: dict[Any, int] = {}
    with replacing(path, if_full=IF_FULL) as file:

        def write(piece: Piece, levels: Mapping[str, TraitLevels]) -> None:
            nonlocal writer
            about = {**piece.outcomes.about, **provenance}
            block = dataclasses.replace(piece.outcomes, about=about)
            table = (_hidden(block, numbers) if redacted else block).to_arrow()
            for name, codes in piece.levels.items() if not redacted else ():
                column = levels[name].named(codes)
                table = table.append_column(pa.field(f"group:{name}", pa.string()), column)
            if writer is None:
                writer = pq.ParquetWriter(file, table.schema)
            writer.write_table(table)

        yield write
        if writer is not None:
            writer.close()


def _hidden(block: Outcomes, numbers: dict[Any, int]) -> Outcomes:
    """Hide what identifies people; a cluster keeps its number in all pieces."""
    hidden = redact_outcomes(block)
    if block.cluster is None:
        return hidden
    cluster = [numbers.setdefault(name, len(numbers)) for name in block.cluster.tolist()]
    return dataclasses.replace(hidden, cluster=np.array(cluster))

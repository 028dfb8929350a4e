"""Models side by side: how good they are, how they treat groups, and what the audits say."""

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from likewise.errors import InvalidSample
from likewise.inference.paired import PairedModels
from likewise.inference.simultaneous import holm
from likewise.record import Measure, Record, TestRecord
from likewise.report import paired_words
from likewise.report.escaping import cut, for_terminal, on_one_line
from likewise.report.layout import WIDTH, number, p_value, wrap
from likewise.report.verdict_words import TITLES, not_below_zero

SHOWN = ("accuracy", "balanced_accuracy", "average_odds_difference", "impact_ratio")


@dataclasses.dataclass(frozen=True)
class Comparison:
    """Several audits, and their tests corrected for their number.

    Parameters
    ----------
    records
        The audits by the name of the model.
    adjusted
        p-values after Holm's correction over all models and tests, by ``(model, test)``.
    alpha
        How often *any* model within the tolerance may be accused by chance.
    caveats
        In what the audits differ beside their model, in sentences.
    paired
        The first model with each of the others on the same people, if outcomes were given.
    """

    records: Mapping[str, Record]
    adjusted: Mapping[tuple[str, str], float]
    alpha: float
    caveats: tuple[str, ...]
    paired: tuple[PairedModels, ...] = ()

    def __str__(self) -> str:
        return words(self)

    @property
    def tests(self) -> list[str]:
        """Names of the tests that occur, in their order."""
        return list(dict.fromkeys(test for _, test in self.adjusted))

    def rejected(self, model: str, test: str) -> bool:
        """Tell whether a test that accuses still does so after the correction."""
        found = self.records[model].tests[test]
        return found.rejected and self.adjusted[model, test] <= self.alpha

    def measures(self) -> dict[tuple[str, str], dict[str, Measure]]:
        """Return performance and group metrics: by name and group, then by model."""
        table: dict[tuple[str, str], dict[str, Measure]] = {}
        for model, record in self.records.items():
            for measure in record.measures:
                if measure.name in SHOWN:
                    row = table.setdefault((measure.name, measure.group), {})
                    row[model] = measure
        order = {name: rank for rank, name in enumerate(SHOWN)}
        return dict(sorted(table.items(), key=lambda item: order[item[0][0]]))


def compare(records: Mapping[str, Record]) -> Comparison:
    """Put audits side by side. Their p-values are corrected together (Holm 1979)."""
    if len(records) < 2:
        raise InvalidSample("A comparison needs at least two results.")
    raw = {
        (name, test.test): 1.0 if math.isnan(test.p_value) else test.p_value
        for name, record in records.items()
        for test in record.tests.values()
    }
    keys = list(raw)
    alpha = min(record.settings.alpha for record in records.values())
    corrected = holm({str(i): raw[key] for i, key in enumerate(keys)}, alpha).adjusted
    adjusted = {key: corrected[str(i)] for i, key in enumerate(keys)}
    return Comparison(dict(records), adjusted, alpha, tuple(_caveats(records)))


def _caveats(records: Mapping[str, Record]) -> list[str]:
    same: dict[str, Callable[[Record], str]] = {
        "people": lambda r: r.data.sha256,
        "fair metric": lambda r: r.metric.sha256,
        "tolerance": lambda r: str(r.settings.delta),
        "deciding map": lambda r: r.decided_by.map,
    }
    lines = [
        f"The audits of {pair} do not share their {what}."
        for what, of in same.items()
        if (pair := _differing(records, of))
    ]
    if not lines and (pair := _differing(records, lambda r: r.settings_hash)):
        lines.append(f"The audits of {pair} were made with different settings.")
    lines += [
        f"The audit of {name} is not trustworthy."
        for name, r in records.items()
        if not r.trustworthy
    ]
    return lines


def _differing(records: Mapping[str, Record], of: Callable[[Record], str]) -> str:
    """Return the first model and the first that differs from it, in words; empty if none does."""
    (first, one), *others = records.items()
    found = next((name for name, other in others if of(other) != of(one)), None)
    return "" if found is None else f"{first} and {found}"


def read_all(paths: Sequence[Path]) -> dict[str, Record]:
    """Read result files, named by file where that tells them apart, else by folder and file."""
    stems = [path.stem for path in paths]
    names = stems if len(set(stems)) == len(stems) else [str(path) for path in paths]
    if len(set(names)) < len(names):
        raise InvalidSample("The same result is named twice.")
    return {name: Record.read(path) for name, path in zip(names, paths, strict=True)}


def words(comparison: Comparison) -> str:
    """Return the comparison as text within 80 columns."""
    deltas = sorted({r.settings.delta for r in comparison.records.values()})
    told = ", ".join(f"{delta:g}" for delta in deltas)
    hashes = ", ".join(dict.fromkeys(r.settings_hash[:12] for r in comparison.records.values()))
    lines = ["Models side by side".center(WIDTH).rstrip(), "=" * WIDTH]
    for test in comparison.tests:
        head = on_one_line(TITLES.get(test, test))
        if len(head) > 29:
            lines += wrap(head, "")
            head = ""
        lines.append(f"{head:30}{'estimate':>9}{'lower':>9}{'upper':>9}{'Holm p':>9}  evidence")
        lines.append("-" * WIDTH)
        for model, record in comparison.records.items():
            if test in record.tests:
                lines.append(_line(comparison, model, record.tests[test]))
        lines.append("-" * WIDTH)
    lines += _measure_lines(comparison)
    lines.append("=" * WIDTH)
    if comparison.paired:
        lines += [*paired_words.words(comparison.paired, comparison.alpha), "=" * WIDTH]
    lines += wrap(
        f"Tolerance δ = {told}. Evidence: the test still rejects at α = {comparison.alpha:g} after "
        f"Holm's correction for {len(comparison.adjusted)} tests (held: its own audit holds it "
        f"back). Settings {hashes}.",
        "",
    )
    for caveat in comparison.caveats:
        lines += wrap(f"Warning: {caveat}", "")
    return for_terminal("\n".join(lines))


def _line(comparison: Comparison, model: str, test: TestRecord) -> str:
    said = "yes" if comparison.rejected(model, test.test) else "held" if test.held_back else "no"
    return (
        f"{cut(model, 29):30}{number(test.estimate):>9}{not_below_zero(test.lower_bound):>9}"
        f"{number(test.upper_bound):>9}{p_value(comparison.adjusted[model, test.test]):>9}  {said}"
    )


def _measure_lines(comparison: Comparison, columns: int = 4) -> list[str]:
    models = list(comparison.records) if comparison.measures() else []
    lines: list[str] = []
    for start in range(0, len(models), columns):
        part = models[start : start + columns]
        lines.append(" " * 30 + "".join(f"{cut(model, 11):>12}" for model in part))
        lines.append("-" * WIDTH)
        for (name, group), row in comparison.measures().items():
            title = name.replace("_", " ") if not group else f"{_SHORT.get(name, name)} {group}"
            values = [number(row[m].value) if m in row else "–" for m in part]
            lines.append(f"{cut(title, 29):30}" + "".join(f"{v:>12}" for v in values))
    return lines


_SHORT = {"average_odds_difference": "odds diff.", "impact_ratio": "impact ratio"}

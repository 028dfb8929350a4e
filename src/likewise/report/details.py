"""What the summary leaves out, as text: groups, other methods, measures, other choices, origins."""

from collections.abc import Iterable

from likewise.record import Record
from likewise.report.escaping import on_one_line
from likewise.report.layout import WIDTH, facts, number
from likewise.report.verdict_words import tests_table

HEAD = f"{'estimate':>10}{'lower':>10}{'upper':>10}"


def details(record: Record) -> list[str]:
    """Return the lines that ``--verbose`` puts before the verdict."""
    lines: list[str] = []
    if record.groups:
        rows = (
            (
                f"{g.trait}: {g.group} ({g.n}{', few' if g.small else ''})",
                g.estimate,
                g.lower,
                g.upper,
            )
            for g in record.groups
        )
        lines += _table("Loss ratio by group, all intervals at once", rows)
    if record.measures:
        rows = ((_named(m.name, m.group), m.value, m.lower, m.upper) for m in record.measures)
        lines += _table("Measures", rows)
    if record.sensitivity:
        rows = (
            (_named(s.what, s.change, ": "), s.estimate, s.lower_bound, s.upper_bound)
            for s in record.sensitivity
        )
        lines += _table("Under other choices", rows)
    if record.beside:
        lines += ["By other methods", *tests_table(record.beside).splitlines()]
    versions = ", ".join(f"{name} {version}" for name, version in record.versions.items())
    seconds = ", ".join(f"{what} {spent:.1f}" for what, spent in record.seconds.items())
    known = {
        "Model": record.model.sha256,
        "Data": record.data.sha256,
        "Metric": record.metric.sha256,
        "Settings": record.settings_hash,
        "Versions": versions,
        "Seconds": seconds,
        "Command": record.command,
    }
    return [*lines, *facts((name, text) for name, text in known.items() if text)]


def _named(name: str, group: str, between: str = ", ") -> str:
    words = name.replace("_", " ")
    return f"{words}{between}{group}" if group else words


def _table(title: str, rows: Iterable[tuple[str, float, float, float]]) -> list[str]:
    width = WIDTH - len(HEAD)
    lines = [f"{title[: width - 1]:{width}}{HEAD}", "-" * WIDTH]
    for name, *values in rows:
        name = on_one_line(name)
        shown = name if len(name) < width else f"{name[: width - 2]}…"
        lines.append(f"{shown:{width}}" + "".join(f"{number(value):>10}" for value in values))
    return [*lines, "-" * WIDTH]

"""What a paired comparison says, in sentences and in a table."""

import math

from likewise.inference.paired import PairedMeasure, PairedModels
from likewise.report.escaping import cut, on_one_line
from likewise.report.layout import WIDTH, number, p_value, percent, wrap


def sentences(pair: PairedModels, alpha: float) -> list[str]:
    """Say how much fairer the second model is, and how much less accurate it can be."""
    said = [_fairer(pair, m) for m in pair.measures if m.name == "audit value" and m.claimed]
    said += [_not_inferior(pair, m, alpha) for m in pair.measures if m.name != "audit value"]
    return said


def _fairer(pair: PairedModels, m: PairedMeasure) -> str:
    of = f" ({m.of})" if m.of else ""
    if m.lower_bound > 0:
        return f"{pair.second} is fairer than {pair.first} by at least {number(m.lower_bound)}{of}."
    if m.upper_bound < 0:
        worse = number(-m.upper_bound)
        return f"{pair.second} is less fair than {pair.first} by at least {worse}{of}."
    if not all(map(math.isfinite, m.interval)):
        return f"The audit values of {pair.second} and {pair.first} do not differ{of}."
    low, high = m.interval
    return (
        f"Which of {pair.second} and {pair.first} is fairer is open: the audit value falls by "
        f"{number(m.difference)} ({number(low)} to {number(high)}){of}."
    )


def _not_inferior(pair: PairedModels, m: PairedMeasure, alpha: float) -> str:
    points = m.name != "loss"
    if not math.isfinite(m.lower_bound):
        return f"Nobody's {m.name} differs."
    bound = f"{100 * abs(m.lower_bound):.2g} points" if points else number(abs(m.lower_bound))
    allowed = f"{100 * m.margin:.2g} points" if points else number(m.margin)
    much = "higher" if points else "lower"
    if m.lower_bound > 0:
        return f"Its {m.name} is {much} by at least {bound}."
    verdict = "not inferior" if m.shown(alpha) else "not shown to be within"
    corrected = f"{verdict} {allowed} after correction for all claims"
    ending = f"{verdict} (margin {allowed})" if m.shown(alpha) else corrected
    worse = "lower" if points else "larger"
    return f"Its {m.name} is at most {bound} {worse}: {ending}."


def table(pair: PairedModels) -> list[str]:
    """Return all measures of two models side by side."""
    lines = [
        f"{cut(f'{pair.second} against {pair.first}', 31):32}{'first':>9}{'second':>9}"
        f"{'better by':>10}{'lower':>9}{'Holm p':>9}",
        "-" * WIDTH,
    ]
    for m in pair.measures:
        name = f"{m.name}, {m.of}" if m.of else m.name
        p = p_value(m.adjusted) if m.claimed else ""
        lines.append(
            f"{cut(name, 31):32}{number(m.first):>9}{number(m.second):>9}"
            f"{number(m.difference):>10}{number(m.lower_bound):>9}{p:>9}"
        )
    return [*lines, "-" * WIDTH]


def words(pairs: tuple[PairedModels, ...], alpha: float) -> list[str]:
    """Return everything about pairs of models as text within 80 columns."""
    lines: list[str] = []
    for pair in pairs:
        lines += table(pair)
        for said in sentences(pair, alpha):
            lines += wrap(on_one_line(said), "")
        if pair.left_out:
            lines += wrap(f"{pair.left_out} people without a ratio under one of them are left out.")
        lines.append("")
    many = " for all models together" if len(pairs) > 1 else ""
    lines += wrap(
        f"The same {pairs[0].n} people under every model; bounds of {percent(1 - alpha)} "
        f"confidence each{many}; p: worse by the margin or more, corrected (Holm) over all claims. "
        "Margins count if they were set beforehand.",
        "",
    )
    return lines

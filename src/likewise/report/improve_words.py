"""What looking for a fairer model found, as text."""

from typing import Any

from likewise.report.layout import WIDTH, number, wrap
from likewise.report.paired_words import sentences


def words(found: Any) -> str:
    """Return what was tried, what was chosen, and how that was judged, within 80 columns."""
    lines = ["Looking for a fairer model as accurate".center(WIDTH).rstrip(), "=" * WIDTH]
    lines.append(
        f"{'on the choosing quarter':42}{'bal. acc.':>10}{'audit value':>12}{'interval':>16}"
    )
    lines.append("-" * WIDTH)
    for k, one in enumerate(found.tried):
        if k and one.stage < found.tried[k - 1].stage:
            lines.append("at a first look, on fewer people")
        span = f"{number(one.lower)} – {number(one.upper)}" if one.lower == one.lower else "exact"
        lines.append(
            f"{one.remedy[:41]:42}{one.balanced_accuracy:>10.3f}{number(one.value):>12}{span:>16}"
        )
    lines.append("=" * WIDTH)
    if not found.trained:
        lines += wrap(
            "The model cannot be trained again, so that averages of its answers over counterparts "
            "are all that was tried.",
            "",
        )
    if not found.chosen:
        lines += wrap("Nothing tried was fairer and as accurate on the choosing quarter.", "")
    else:
        lines += wrap(f"Chosen: {found.chosen}. On people who had no part in choosing:", "")
        for name, result in found.audits.items():
            part = result.record.counterparts
            groups = [group for trait in part.traits for group in trait.groups]
            told = ", ".join(f"{g.trait} {g.group} {number(g.estimate)}" for g in groups)
            lines += wrap(f"{name}: {told}; {result.outcome.replace('_', ' ')}")
        for said in sentences(found.comparison.paired[0], found.comparison.alpha):
            lines += wrap(said)
        if not found.better:
            lines += wrap("It is not shown to be better: the model written is the old one.", "")
    lines += wrap(
        f"{found.seconds:.0f} s. Intervals of the choosing quarter are not corrected for choosing; "
        "those of the judging quarter need no correction.",
        "",
    )
    return "\n".join(lines)

"""An audit as a comment on a pull request."""

from likewise.record import GroupRecord, Record, TestRecord
from likewise.report.escaping import for_markdown
from likewise.report.layout import number, p_value
from likewise.report.next_steps import next_steps
from likewise.report.verdict_words import METHODS, TITLES, capped, certifies

SIGNS = {"evidence_of_unfairness": "🔴", "within_tolerance": "🟢", "inconclusive": "🟡"}
MOST_GROUPS = 40


def to_markdown(record: Record) -> str:
    """Return the summary in GitHub's Markdown; names from the data are shown as they are."""
    lines = [
        f"### {SIGNS[record.outcome]} Individual fairness audit",
        "",
        for_markdown(record.sentence),
        "",
        *(f"- {for_markdown(step)}" for step in next_steps(record)),
    ]
    if not record.trustworthy:
        lines += ["", "> **Do not use this result.**"]
        lines += [f"> {for_markdown(reason)}" for reason in record.reasons]
    lines += ["", *_tests(list(record.tests.values()), record.decided_by.test)]
    if record.judged_groups():
        lines += [
            "",
            "<details><summary>By group</summary>",
            "",
            *_groups(record),
            "",
            "</details>",
        ]
    lines += [f"\n**Warning:** {for_markdown(warning)}" for warning in record.warnings]
    lines += [
        "",
        f"<sub>{for_markdown(record.model.kind)}, {record.data.n:,} people, "
        f"δ = {record.settings.delta:g}, α = {record.settings.alpha:g}, "
        f"cap {record.settings.cap:g}, settings `{record.settings_hash[:12]}`, "
        f"likewise {for_markdown(record.likewise_version)}</sub>",
    ]
    return "\n".join(lines) + "\n"


def _tests(tests: list[TestRecord], decider: str) -> list[str]:
    lines = ["| test | estimate | lower | upper | p-value |", "|---|--:|--:|--:|--:|"]
    for test in tests:
        method = METHODS.get(test.method, test.method)
        name = for_markdown(f"{TITLES.get(test.test, test.test)} ({method})")
        held = f"; {number(test.capped_upper_bound)}, {capped(test)}" if certifies(test) else ""
        cells = [
            f"**{name}**" if test.test == decider else name,
            number(test.estimate),
            number(test.lower_bound),
            number(test.upper_bound) + held,
            p_value(test.p_value),
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def _groups(record: Record) -> list[str]:
    groups = record.judged_groups()
    what = "loss ratio" if record.counterparts is None else "ratio"
    lines = [f"| group | people | {what} | interval | adjusted p |", "|---|--:|--:|--:|--:|"]
    lines += [_group(group) for group in groups[:MOST_GROUPS]]
    if len(groups) > MOST_GROUPS:
        lines.append(f"\nand {len(groups) - MOST_GROUPS} more")
    accuses = record.outcome == "evidence_of_unfairness" or record.counterparts is not None
    if record.metric.learned and not accuses:
        lines.append("\nThe metric is taken as given here. The audit itself accuses no group.")
    return lines


def _group(group: GroupRecord) -> str:
    few = " (few people)" if group.small else ""
    cells = [
        for_markdown(f"{group.trait}: {group.group}") + few,
        f"{group.n:,}",
        number(group.estimate),
        f"{number(group.lower)} – {number(group.upper)}",
        p_value(group.p_adjusted),
    ]
    return f"| {' | '.join(cells)} |"

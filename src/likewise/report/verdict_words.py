"""One test in words: the sentence that follows from it, and a table of several."""

import math
from collections.abc import Iterable

from likewise.record import PlaceboRecord, TestRecord
from likewise.report.layout import WIDTH, number, p_value, percent, title_case, wrap

TITLES = {
    "loss_ratio": "loss ratio",
    "error_rate_ratio": "error-rate ratio",
    "mean_loss_ratio": "ratio of mean losses",
}
SUBJECTS = {
    "loss_ratio": "the loss of people moved to a similar place is, on average, {} times their own",
    "error_rate_ratio": "the error rate of people moved to a similar place is {} times their own",
    "mean_loss_ratio": "the mean loss of people moved to a similar place is {} times their own",
}
METHODS = {
    "hall": "Hall's interval",
    "bootstrap_t": "bootstrap-t",
    "paper": "the paper's normal limit",
    "midp": "mid-P",
    "exact": "exact",
    "score": "score test",
}


def sentence(test: TestRecord, this_metric: bool = False) -> str:
    """Say what follows from the deciding test, and with which bound. Never calls a model fair."""
    sure = percent(1 - test.alpha)
    where = "under this metric " if this_metric else ""
    own = test.claim.replace("{", "").replace("}", "") or "the ratio"
    subject = where + SUBJECTS.get(test.test, f"{own} is {{}}")
    if test.outcome == "evidence_of_unfairness":
        claim = subject.format(f"more than {number(test.lower_bound)}")
        return (
            f"Evidence of unfairness: {claim} ({sure} confidence), "
            f"above the tolerance {test.delta:g}."
        )
    if test.outcome == "within_tolerance" and test.std_error == 0:
        what = "loss" if certifies(test) else "decision"
        cap = f", {capped(test)}" if certifies(test) else ""
        return (
            f"Within tolerance (nothing moves it): {where}nobody's {what} changes, and what is too "
            f"rare to be seen in {test.n} people keeps the ratio at most "
            f"{number(test.upper_bound)} ({sure} confidence{cap})."
        )
    if test.outcome == "within_tolerance":
        bound = test.capped_upper_bound if certifies(test) else test.upper_bound
        claim = subject.format(f"at most {number(bound)}")
        cap = f", {capped(test)}" if certifies(test) and math.isfinite(test.cap) else ""
        return (
            f"Within tolerance: {claim} ({sure} confidence{cap}), "
            f"which the tolerance {test.delta:g} allows."
        )
    if test.held_back:
        claim = subject.format(f"more than {number(test.lower_bound)}")
        return f"Inconclusive: {claim} ({sure} confidence), but {test.held_back}."
    if math.isnan(test.lower_bound):
        return f"Inconclusive: no ratio can be computed. {_last_note(test)}".rstrip()
    if test.std_error == 0 and math.isfinite(test.upper_bound):
        return (
            f"Inconclusive: {where}nobody's loss changes, which may be chance. {_last_note(test)}"
        )
    if test.std_error == 0:
        return (
            "Inconclusive: nobody's loss differs from anybody's, so nothing can be said of others."
        )
    claim = subject.format(span(test.lower_bound, test.upper_bound))
    return (
        f"Inconclusive: {claim} (bounds of {sure} confidence each); "
        f"neither more nor at most {test.delta:g} can be claimed."
    )


def _last_note(test: TestRecord) -> str:
    return title_case(test.notes[-1]) if test.notes else ""


def span(low: float, high: float) -> str:
    """Say between which bounds a ratio lies: it is never below zero, and may have none above."""
    if not math.isfinite(high):
        return f"at least {number(max(low, 0.0))}, without an upper bound,"
    if low <= 0:
        return f"anything up to {number(high)}"
    return f"between {number(low)} and {number(high)}"


def not_below_zero(value: float) -> str:
    """Return a bound of a ratio."""
    return number(max(value, 0.0) if not math.isnan(value) else value)


def placebo_words(placebo: PlaceboRecord) -> str:
    """Say what a trait that means nothing gives."""
    drawn, shown = placebo.placebos, "" if placebo.used else "; shown only"
    return (
        f"With the traits shuffled: {number(min(drawn))} to {number(max(drawn))}, as they are "
        f"{number(placebo.estimate)}; p = {placebo.p_value:.2g} "
        f"({len(drawn)} placebos, {placebo.n} people{shown})."
    )


def certifies(test: TestRecord) -> bool:
    """Tell whether a bound with a cap is what finds this model within tolerance, or does not."""
    accused = test.outcome == "evidence_of_unfairness"
    return not accused and not math.isnan(test.capped_upper_bound)


def capped(test: TestRecord) -> str:
    """Say what a test caps where it finds a model within tolerance."""
    if test.test == "mean_loss_ratio":
        return f"losses capped at {test.cap:g} times their mean"
    return f"ratios capped at {test.cap:g}"


def tests_table(tests: Iterable[TestRecord]) -> str:
    """Return a table of tests within 80 columns."""
    head = f"{'':22}{'estimate':>9}{'std err':>9}{'lower':>9}{'upper':>9}{'p-value':>10}"
    lines = [head, "-" * WIDTH]
    notes: list[str] = []
    for test in tests:
        name = TITLES.get(test.test, test.test)[:21]
        lines.append(
            f"{name:22}{number(test.estimate):>9}{number(test.std_error):>9}"
            f"{not_below_zero(test.lower_bound):>9}{not_below_zero(test.upper_bound):>9}"
            f"{p_value(test.p_value):>10}"
        )
        low, high = test.interval
        method = METHODS.get(test.method, test.method)
        lines.append(
            f"  {method}; {percent(1 - test.alpha)} interval {not_below_zero(low)} to "
            f"{not_below_zero(high)}"
        )
        if certifies(test):
            lines.append(f"  upper bound {number(test.capped_upper_bound)}, {capped(test)}")
        notes += [f"  {title_case(note)}" for note in test.notes]
    lines.append("-" * WIDTH)
    return "\n".join(lines + [line for note in notes for line in wrap(note)])

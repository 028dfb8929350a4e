"""What decides among perturbation tests: which test, and everyone with every group."""

import dataclasses
import functools
import math
from collections.abc import Mapping, Sequence
from typing import Any

from likewise.errors import InvalidSettings, nearest
from likewise.models.base import ModelCard
from likewise.record import DeltaCurveRecord, GroupRecord, TestRecord, VerdictName
from likewise.settings import Choice, Settings
from likewise.settings.choices import METHODS, TESTS, note, parameters
from likewise.stats.decision import holm_adjusted
from likewise.stats.estimate import hall, scheffe_tail
from likewise.stats.ratio_test import Evidence, RatioTest
from likewise.stats.tally import Sample, Tally, groups_of


@dataclasses.dataclass(frozen=True)
class Judgement:
    """The tests of one map's people, what the people say to each, and the one that decides.

    ``map`` is the name of the method that people were moved by; ``against_tolerance`` says why the
    model is not found within tolerance, whatever the bounds say.
    """

    tests: Mapping[str, RatioTest]
    evidence: Mapping[str, Evidence]
    decider: str
    map: str
    against_tolerance: tuple[str, ...] = ()

    @functools.cached_property
    def records(self) -> dict[str, TestRecord]:
        """The tests as they stand in the result file."""
        found = {}
        for name, test in self.tests.items():
            record = self.evidence[name].result(test.delta, test.alpha)
            update: dict[str, Any] = {"method": self.map, "claim": test.claim}
            if record.outcome == "within_tolerance" and self.against_tolerance:
                notes = (*record.notes, *self.against_tolerance)
                update |= {"outcome": "inconclusive", "notes": notes}
            found[name] = record.model_copy(update=update)
        return found

    @property
    def deciding(self) -> TestRecord:
        """The test that decides."""
        return self.records[self.decider]

    @property
    def delta_curve(self) -> DeltaCurveRecord:
        """What the test that decides says about other tolerances."""
        alpha = self.tests[self.decider].alpha
        below, within = self.evidence[self.decider].turning_points(alpha)
        return DeltaCurveRecord(evidence_below=below, within_from=within)


def deciding_map(choice: Choice, card: ModelCard) -> tuple[str, dict[str, Any]]:
    """Return the method that decides, the gradient flow or the search for want of gradients.

    Its name comes first, then its parameters.
    """
    if choice.name != "auto":
        return choice.name, choice.params
    known = {name: parameters(METHODS.find(name)) for name in ("reach", "gradient_flow")}
    for name in choice.params:
        if not any(name in own for own in known.values()):
            raise InvalidSettings(f"Neither gradient_flow nor reach has a parameter {name!r}.")
    chosen = "gradient_flow" if card.differentiable else "reach"
    given = {name: value for name, value in choice.params.items() if name in known[chosen]}
    return chosen, given


def decide_with_groups(
    deciding: TestRecord,
    groups: Sequence[GroupRecord],
    *,
    wider: float = 1.0,
    degrees: float = math.inf,
    directions: int = 1,
    held_back: str = "",
) -> tuple[VerdictName, str, tuple[GroupRecord, ...]]:
    """Return the verdict over everyone and the groups of each attribute, why not, and the groups.

    Evidence if everyone *or* a group exceeds the limit (Holm over these); within tolerance only if
    everyone *and* all groups are. ``groups`` have p-values of "at most the limit" and simultaneous
    intervals; ``wider`` is by how much the metric's own uncertainty widens everyone's standard
    error (groups' bounds are widened as much, never narrowed), and their p-values have the same
    ``degrees`` of freedom and number of free ``directions``; ``held_back`` is why nothing counts as
    evidence, whatever the bounds say: the negative control.
    """
    wider = max(wider, 1.0)
    p_values: dict[int, float] = {-1: deciding.p_value}  # of everyone, beside the groups
    for k, group in enumerate(groups):
        p = group.p_value
        if wider > 1 and group.std_error > 0:
            t = (group.estimate - deciding.delta) / (group.std_error * wider)
            p = max(p, scheffe_tail(t, degrees, directions))
        p_values[k] = 1.0 if group.small else p
    adjusted = holm_adjusted({k: 1.0 if math.isnan(p) else p for k, p in p_values.items()})
    above = {k for k, p in adjusted.items() if p <= deciding.alpha}
    rejected = set() if held_back else above
    marked = tuple(
        group.model_copy(update={"rejected": k in rejected, "p_adjusted": adjusted[k]})
        for k, group in enumerate(groups)
    )
    if rejected:
        return "evidence", "", marked
    if deciding.outcome == "evidence":
        return "inconclusive", "not after correction for groups", marked
    if above:
        return "inconclusive", held_back, marked
    if deciding.outcome != "within_tolerance":
        return deciding.outcome, deciding.held_back, marked
    uppers = [g.estimate + wider * (g.upper - g.estimate) for g in groups]
    if any(not upper <= deciding.delta for upper in uppers):
        return "inconclusive", "groups", marked
    return "within_tolerance", "", marked


def choose_tests(
    settings: Settings, card: ModelCard, *, trust: bool = False
) -> tuple[dict[str, RatioTest], Settings]:
    """Return the tests to run, those named or those for the task; and settings that note them."""
    names, interval = settings.tests.run, settings.decide.interval
    if names == "auto":
        names = ("error_rate_ratio",) if card.decisions else _USUAL[card.task]
    shared = {name: getattr(settings, name) for name in ("delta", "alpha", "cap", "seed")}
    tests = {}
    for name in names:
        knows = interval in TESTS.find(name, trust=trust).intervals
        own = shared | {"interval": interval} if knows else shared
        test = TESTS.make(name, settings.tests.params(name), trust=trust, shared=own)
        tests[test.name] = test
    shared["interval"] = interval
    sections = {
        TESTS.name_of(type(test)): {
            name: value
            for name, value in note(TESTS, test).params.items()
            if name not in shared or shared[name] != value
        }
        for test in tests.values()
    }
    run = "auto" if tuple(sections) == _USUAL[card.task] else list(sections)
    return tests, settings.changed(tests={"run": run, **sections})


_USUAL = {
    "classification": ("loss_ratio", "error_rate_ratio"),
    "regression": ("mean_loss_ratio",),
}


def deciding_test(
    settings: Settings, card: ModelCard, tests: Mapping[str, RatioTest], map: str
) -> str:
    """Return the name of the test that decides, unless the settings said so beforehand.

    Probabilities are clipped, and a clipped loss says little about people the model is sure of.
    Where any form of a model can be asked, the error rates decide: they are the same whether it
    gives logits or probabilities. The flow follows the loss, and so its ratio decides there.
    """
    for test in tests.values():
        if test.task != card.task:
            raise InvalidSettings(
                f"The test {test.name!r} is not for a {card.task}: there "
                f"{' and '.join(_USUAL[card.task])} can decide (decide.test)."
            )
    wanted = settings.decide.test
    if wanted != "auto" and wanted not in tests:
        other = [name for names in _USUAL.values() for name in names if name not in tests]
        why = f" It is not for a {card.task}." if wanted in other else nearest(wanted, tests)
        raise InvalidSettings(
            f"The test {wanted!r} cannot decide (decide.test): only {', '.join(tests)} are "
            f"run.{why}"
        )
    if card.decisions and wanted not in ("auto", "error_rate_ratio"):
        raise InvalidSettings(
            f"The {card.kind} gives decisions and no probabilities, so only its error rates can "
            "decide (decide.test). To audit losses, wrap it in CalibratedClassifierCV."
        )
    if wanted != "auto":
        return wanted
    rates = card.output == "probabilities" or map in ("reach", "flip")
    usual = "error_rate_ratio" if rates else "loss_ratio"
    return usual if usual in tests else next(iter(tests))


FEW_ERRORS = 5
FEW_PEOPLE = 30
"""With fewer people than this Student's t takes the place of the normal."""


def by_group(tally: Tally, settings: Settings) -> tuple[GroupRecord, ...]:
    r"""Return the audit value of every level of every protected attribute.

    *Intervals* hold for all m groups together with confidence :math:`1 - \alpha`: each at
    :math:`\alpha/m` (Bonferroni). Groups of fewer than 30 take Student's t through Hall's
    transformation. Upper ends allow for one more person, harmed 1.5 times as much as anybody seen:
    a tail shows in few samples.

    *Decisions* are one-sided p-values with Holm's correction, over all groups. The people whose
    attribute is missing are a group like any other. The paper's interval is not corrected for
    skewness.
    """
    alpha, paper = settings.alpha, settings.decide.interval == "paper"
    members = groups_of(tally.cells.kinds, tally.frame)
    groups = [Sample(tally, group) for group in members]
    estimates, bounds = [], []
    for own in groups:
        units = own.clusters or own.n
        few = units - 1.0 if 1 < units < FEW_PEOPLE else math.inf
        more = None if paper else own.with_one_more()
        parts = [
            dataclasses.replace(estimate, degrees=min(estimate.degrees, few))
            for estimate in (own.estimate(), more)
            if estimate is not None
        ]
        estimates.append(parts[0])
        bounds.append([e if paper and e.std_error > 0 else hall(e) for e in parts])
    p_values = [first.p_value(settings.delta) for first, *_ in bounds]
    adjusted = holm_adjusted(dict(enumerate(p_values)))
    found = []
    for k, (own, estimate) in enumerate(zip(groups, estimates, strict=True)):
        few_errors, rates = False, {}
        if not tally.frame.regression:
            few_errors, weights = own.errors.before < FEW_ERRORS, own.error_weights
            total = float(weights.sum())
            rates = {
                "error_rate_before": float(weights[0] + weights[2]) / total,
                "error_rate_after": float(weights[0] + weights[1]) / total,
            }
        each = alpha / len(groups)
        found.append(
            GroupRecord(
                attribute=members[k].attribute,
                group=members[k].name,
                n=own.n,
                estimate=estimate.value,
                std_error=estimate.std_error,
                lower=max(bounds[k][0].lower_bound(each / 2), 0.0),
                upper=max(bound.upper_bound(each / 2) for bound in bounds[k]),
                p_value=p_values[k],
                p_adjusted=adjusted[k],
                rejected=adjusted[k] <= alpha,
                small=own.n < FEW_PEOPLE or few_errors or math.isnan(estimate.value),
                **rates,
            )
        )
    return tuple(found)

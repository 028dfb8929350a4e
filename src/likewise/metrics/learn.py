"""Fair metrics learned from data: what predicts a protected trait costs nothing (Section 4.2)."""

import dataclasses
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Literal

import numpy as np
from jaxtyping import Int
from threadpoolctl import threadpool_limits

from likewise.audit_data import AuditData
from likewise.errors import InvalidMetric, InvalidSettings, StatisticalWarning
from likewise.metrics import newton
from likewise.metrics.fair_metric import FairMetric
from likewise.metrics.newton import Fit, Standardised
from likewise.metrics.origin import LearnedFrom, Origin, TraitOrigin, Validation
from likewise.metrics.penalty import CrossValidation, choose_penalties, predict, validate
from likewise.metrics.quadratic import ProjectionMetric
from likewise.metrics.sample import Direction, Sample, contrasts
from likewise.metrics.shuffled_traits import COUNT, placebo_metrics
from likewise.metrics.stacked import Stack
from likewise.metrics.traits import Trait, delete_groups


def sensitive_subspace(
    data: AuditData,
    *,
    traits: Sequence[str] | None = None,
    kinds: Mapping[str, str] | None = None,
    penalty: float | Literal["auto"] = "auto",
    C: float | None = None,
    may_matter: Sequence[str] = (),
    groups: int = 10,
    placebos: int = COUNT,
    seed: int = 0,
    as_read: AuditData | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> ProjectionMetric:
    r"""Learn a metric that is blind to what predicts the protected traits (Section 4.2, F.2).

    Every trait is regressed on the features with a ridge penalty (logistic for two classes,
    multinomial for several, linear for numbers), to convergence. The span :math:`\mathcal{H}` of
    the coefficients, or of their differences between classes, is free.

    A trait that is itself an input of the model (by name, or by values) is free on its own
    coordinates, and every trait is then regressed on the features that are left, as in Appendix G.

    Parameters
    ----------
    data
        The sample to learn from. People whose trait is missing are left out of that trait's fit
        and counted. Weights are used, relative to their mean.
    traits
        Protected traits to use; all of them by default.
    kinds
        ``classes`` or ``number`` for traits that could be either; numbers with more than ten
        distinct values are numbers by default.
    penalty
        Strength γ of the penalty a person. ``auto`` chooses it for all traits by
        cross-validation on this sample (`likewise.metrics.penalty`).
    C
        Inverse strength of the penalty of the whole sample, instead: C = 1/(γ n). The paper's
        is 1; with it, what is learned depends on how many people there are.
    may_matter
        Columns that may make a difference: no direction along them is free, and traits are
        regressed on what these columns do not explain of the others.
    groups
        Number of delete-group refits kept with the metric (none if 0): each learns the metric and
        its reach again without one of ``groups`` random groups of people, and their spread is the
        uncertainty of having learned it from a sample.
    placebos
        Number of placebo metrics kept with it (none if 0), learned by the same rule from shuffled
        traits. Without them a model cannot be accused under this metric.
    seed
        Of groups, folds and placebos.
    progress
        Called with the number of fits done, and of all.
    as_read
        The people as they were read, by which they are recognised again, if a pipeline has turned
        them into other features since.
    progress
        Called with the number of fits done, and of all.
    """
    if groups < 0 or groups == 1:
        raise InvalidSettings(f"groups must be 0 (no refits) or at least 2, not {groups}.")
    if placebos < 0:
        raise InvalidSettings(f"placebos must be 0 (none) or more, not {placebos}.")
    # Many small products: more threads would mostly wait for each other.
    with threadpool_limits(1):
        sample = Sample.of(data, traits, kinds or {}, may_matter)
        given = None if penalty == "auto" else penalty
        rule = Rule.of(sample, given, C, seed)
        metric, fits = fit_all(sample, rule)
        dealt = _deal(sample, groups, np.random.default_rng(seed))
        count = 0 if dealt is None else int(dealt.max()) + 1
        total = 1 + count + (placebos > 0)
        refits = []
        for g in range(count):
            if progress is not None:
                progress(g + 1, total)
            kept = sample.weighted(sample.weight * (dealt != g))
            refits.append(fit_all(kept, rule, fits)[0])
        if placebos and progress is not None:
            progress(total - 1, total)
        known = data if as_read is None else as_read
        metric = dataclasses.replace(
            metric,
            origin=dataclasses.replace(
                origin_of(sample, rule, metric, fits, seed, may_matter),
                data=known.fingerprint(),
            ),
            refits=tuple(refits),
            groups=dealt,
            placebos=placebo_metrics(sample, placebos, seed, given, C),
            learned_from=LearnedFrom.of(known),
        )
    if progress is not None:
        progress(total, total)
    if not len(metric.free):
        warnings.warn(
            "No feature predicts any protected trait, so no direction is free.",
            StatisticalWarning,
            stacklevel=2,
        )
    return metric


@dataclasses.dataclass(frozen=True, eq=False)
class Resample:
    """A metric learned from a bootstrap sample, and how often each person is in it."""

    metric: ProjectionMetric
    times: Int[np.ndarray, " n"]


def bootstrap_refits(
    data: AuditData,
    metric: FairMetric,
    B: int = 200,
    seed: int = 0,
    fingerprint: str | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> tuple[Resample, ...]:
    """Learn a metric and its reach again from ``B`` bootstrap samples of its own data.

    Whole clusters are drawn where there are clusters.
    """
    origin = metric.origin
    if origin is None or origin.data != (fingerprint or data.fingerprint()):
        raise InvalidMetric("A metric can only be refitted on the very sample it was learned from.")
    names = [trait.name for trait in origin.traits]
    kinds = {t.name: "number" if t.kind == "number" else "classes" for t in origin.traits}
    sample = Sample.of(data, names, kinds, origin.may_matter)
    rule = Rule.known(origin)
    fits = fit_all(sample, rule)[1]
    unit = sample.unit
    n_units = int(unit.max()) + 1
    rng = np.random.default_rng(seed)
    resamples = []
    for b in range(B):
        times = np.bincount(rng.integers(n_units, size=n_units), minlength=n_units)[unit]
        refit, _ = fit_all(sample.weighted(sample.weight * times), rule, fits)
        resamples.append(Resample(refit, times))
        if progress is not None:
            progress(b + 1, B)
    return tuple(resamples)


@dataclasses.dataclass(frozen=True)
class Chosen:
    """The penalty of one trait's regression, and how well it predicts people left out."""

    penalty: float
    left_out: Validation | None


@dataclasses.dataclass(frozen=True)
class Rule:
    """How strongly each regression is held back: a penalty a person, or one for the sample."""

    C: float | None
    chosen: Mapping[str, Chosen]
    words: str

    @classmethod
    def of(cls, sample: Sample, penalty: float | None, C: float | None, seed: int) -> "Rule":
        """Choose what is not given."""
        if penalty is not None and C is not None:
            raise InvalidSettings("Give a penalty a person or C, not both: C = 1/(penalty × n).")
        for name, value in {"penalty": penalty, "C": C}.items():
            if value is not None and not (value > 0 and np.isfinite(value)):
                raise InvalidSettings(f"{name} must be a positive number, not {value}.")
        checked = {trait.name: _checked(sample, trait, seed) for trait in sample.traits}
        words = "given"
        if penalty is None and C is None:
            words = "cross-validation, one standard error"
            penalty = float(choose_penalties(list(checked.values()))[0])
        chosen = {}
        for name, part in checked.items():
            own = penalty or 1 / ((C or 1.0) * float(part.stack.weight.sum()))
            chosen[name] = Chosen(own, validate(part, own))
        return cls(C, chosen, words)

    @classmethod
    def known(cls, origin: Origin) -> "Rule":
        """Return the rule by which a metric was learned; old ones have C alone."""
        chosen = {t.name: Chosen(t.penalty or 1.0, t.left_out) for t in origin.traits}
        return cls(origin.C, chosen, origin.penalty)

    def strength(self, sample: Sample, trait: Trait) -> float:
        """Return C of the regression of one trait."""
        if self.C is not None:
            return self.C
        return 1 / (self.chosen[trait.name].penalty * float((sample.weight * trait.known).sum()))


def _checked(sample: Sample, trait: Trait, seed: int) -> CrossValidation:
    weight = (sample.weight * trait.known)[:, None]
    stack = Stack(sample.columns, trait.target[:, None], weight, trait.kind)
    return CrossValidation(stack, sample.folds(seed), sample.unit)


def fit_all(
    sample: Sample, rule: Rule, start: Mapping[str, Fit] | None = None
) -> tuple[ProjectionMetric, dict[str, Fit]]:
    """Fit every trait with the sample's weights; the span of what was found, with its reach."""
    fits: dict[str, Fit] = {}
    found: list[Direction] = []
    for whole in sample.traits:
        trait = whole.present(sample.weight)
        if trait is None:  # one class is all that a refit has left: it teaches nothing
            continue
        near = None if start is None or trait.name not in start else start[trait.name].theta
        fits[trait.name] = fitted = sample.fit(trait, rule.strength(sample, trait), near)
        found.extend(contrasts(trait, fitted.coefficients, trait.weights(sample.weight)))
    return sample.metric(found), fits


def _deal(sample: Sample, groups: int, rng: np.random.Generator) -> Int[np.ndarray, " n"] | None:
    if groups == 0:
        return None
    strata = [trait.strata for trait in sample.traits]
    dealt = delete_groups(strata, sample.data.cluster, groups, rng)
    return dealt if dealt.max() > 0 else None


def origin_of(
    sample: Sample,
    rule: Rule,
    metric: ProjectionMetric,
    fits: Mapping[str, Fit],
    seed: int,
    may_matter: Sequence[str],
) -> Origin:
    """Tell where a metric came from."""
    data, free = sample.data, metric.free
    left = Standardised.of(data.x - (data.x @ free.T) @ free)
    traits = []
    for trait in sample.traits:
        weight = sample.weight * trait.known
        before, chosen = fits[trait.name], rule.chosen[trait.name]
        strength = rule.strength(sample, trait)
        after = newton.fit(left, trait.target, weight, trait.kind, strength)
        traits.append(
            TraitOrigin(
                name=trait.name,
                kind=trait.kind,
                classes=trait.classes,
                n=int(trait.known.sum()),
                missing=int((~trait.known).sum()),
                inputs=tuple(data.features[j] for j in sample.inputs[trait.name]),
                gradient=before.gradient,
                before=predict(trait, before.scores(sample.columns), weight),
                after=predict(trait, after.scores(left), weight),
                penalty=chosen.penalty,
                left_out=chosen.left_out,
            )
        )
    return Origin(
        data="",
        source=data.source,
        n=len(data),
        solver="newton",
        tolerance=newton.TOLERANCE,
        C=rule.C,
        seed=seed,
        weighted=data.weight is not None,
        clustered=data.cluster is not None,
        traits=tuple(traits),
        penalty=rule.words,
        may_matter=tuple(may_matter),
    )

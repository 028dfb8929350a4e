"""Fair metrics learned from data: what predicts a protected trait costs nothing (Section 4.2)."""

import dataclasses
import warnings
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from jaxtyping import Float, Int

from likewise.errors import InvalidMetric, InvalidSettings, StatisticalWarning
from likewise.metrics import newton
from likewise.metrics.columns import columns_of
from likewise.metrics.groups import cluster_codes, delete_groups
from likewise.metrics.newton import Fit, Standardised
from likewise.metrics.origin import Origin, TraitOrigin
from likewise.metrics.quadratic import ProjectionMetric, span
from likewise.metrics.reach import Ellipsoid
from likewise.metrics.score import predict
from likewise.metrics.traits import Trait, read_trait
from likewise.people import AuditData

SAME_DIRECTION = 1e-6
"""Learned directions nearer to dependent than this are one direction: fits are not exact."""


def sensitive_subspace(
    data: AuditData,
    *,
    traits: Sequence[str] | None = None,
    kinds: Mapping[str, str] | None = None,
    C: float = 1.0,
    groups: int = 10,
    seed: int = 0,
    progress: Callable[[int, int], None] | None = None,
) -> ProjectionMetric:
    r"""Learn a metric that is blind to what predicts the protected traits (Section 4.2, F.2).

    Every trait is regressed on the features with a ridge penalty (logistic for two classes,
    multinomial for several, linear for numbers), to convergence. The span :math:`\mathcal{H}` of
    the coefficients, or of their differences between classes, is free.

    A trait that is itself an input of the model (by name, or one-hot encoded) is free on its own
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
    C
        Inverse strength of the penalty; weak evidence is shrunk more the smaller it is.
    groups
        Number of delete-group refits kept with the metric (none if 0): each learns the metric and
        its reach again without one of ``groups`` random groups of people, and their spread is the
        uncertainty of having learned it from a sample.
    seed
        Of these groups.
    progress
        Called with the number of fits done, and of all.
    """
    if not C > 0 or not np.isfinite(C):
        raise InvalidSettings(f"C must be a positive number, not {C}.")
    if groups < 0 or groups == 1:
        raise InvalidSettings(f"groups must be 0 (no refits) or at least 2, not {groups}.")
    sample = _Sample.of(data, traits, kinds or {}, C)
    learned = _learn(sample, sample.weight)
    dealt = _deal(sample, groups, np.random.default_rng(seed))
    total = 1 + (int(dealt.max()) + 1 if dealt is not None else 0)
    refits = []
    for g in range(total - 1):
        if progress is not None:
            progress(g + 1, total)
        refits.append(_learn(sample, sample.weight * (dealt != g), learned.fits).metric)
    metric = dataclasses.replace(
        learned.metric,
        origin=_origin(sample, learned, seed),
        refits=tuple(refits),
        groups=dealt,
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
    metric: ProjectionMetric,
    B: int = 200,
    seed: int = 0,
    progress: Callable[[int, int], None] | None = None,
) -> tuple[Resample, ...]:
    """Learn a metric and its reach again from ``B`` bootstrap samples of its own data.

    Whole clusters are drawn where there are clusters.
    """
    origin = metric.origin
    if origin is None or origin.data != data.fingerprint():
        raise InvalidMetric("A metric can only be refitted on the very sample it was learned from.")
    names = [trait.name for trait in origin.traits]
    kinds = {t.name: "number" if t.kind == "number" else "classes" for t in origin.traits}
    sample = _Sample.of(data, names, kinds, origin.C)
    full = _learn(sample, sample.weight)
    unit = cluster_codes(data.cluster, len(data))
    n_units = int(unit.max()) + 1
    rng = np.random.default_rng(seed)
    resamples = []
    for b in range(B):
        times = np.bincount(rng.integers(n_units, size=n_units), minlength=n_units)[unit]
        refit = _learn(sample, sample.weight * times, full.fits)
        resamples.append(Resample(refit.metric, times))
        if progress is not None:
            progress(b + 1, B)
    return tuple(resamples)


@dataclasses.dataclass(frozen=True, eq=False)
class _Sample:
    """The sample, made ready for many fits with different weights."""

    data: AuditData
    traits: tuple[Trait, ...]
    inputs: Mapping[str, list[int]]
    others: list[int]
    columns: Standardised
    weight: Float[np.ndarray, " n"]
    C: float

    @classmethod
    def of(
        cls, data: AuditData, names: Sequence[str] | None, kinds: Mapping[str, str], C: float
    ) -> "_Sample":
        if data.x.shape[1] == 0:
            raise InvalidMetric(
                "There are no feature columns to learn a metric from. Encode the table, or learn "
                "in the space where the pipeline is audited."
            )
        names = tuple(data.protected) if names is None else tuple(dict.fromkeys(names))
        if not names:
            raise InvalidMetric(
                "There is no protected trait to learn a metric from. Name one (--protected)."
            )
        traits = tuple(read_trait(name, data.trait(name), kinds.get(name)) for name in names)
        inputs = {t.name: columns_of(data.features, t.name, t.classes) for t in traits}
        taken = {j for places in inputs.values() for j in places}
        others = [j for j in range(data.x.shape[1]) if j not in taken]
        weight = np.ones(len(data)) if data.weight is None else data.weight / data.weight.mean()
        return cls(data, traits, inputs, others, Standardised.of(data.x[:, others]), weight, C)


@dataclasses.dataclass(frozen=True, eq=False)
class _Learned:
    metric: ProjectionMetric
    fits: Mapping[str, Fit]


def _learn(
    sample: _Sample, weight: Float[np.ndarray, " n"], start: Mapping[str, Fit] | None = None
) -> _Learned:
    """Fit every trait with these weights; the span of what was found, with its reach."""
    d = sample.data.x.shape[1]
    fits: dict[str, Fit] = {}
    rows: list[Float[np.ndarray, " d"]] = []
    labels: list[str] = []
    for whole in sample.traits:
        trait = whole.present(weight)
        if trait is None:  # one class is all that a refit has left: it teaches nothing
            continue
        fits[trait.name] = fitted = _fit(sample, trait, weight, start)
        for label, coefficients in _contrasts(trait, fitted, weight):
            row = np.zeros(d)
            row[sample.others] = coefficients
            rows.append(row)
            labels.append(label)
    for name, places in sample.inputs.items():
        rows.extend(np.eye(1, d, j)[0] for j in places)
        labels.extend(f"{sample.data.features[j]} (the trait {name} itself)" for j in places)
    directions = np.array(rows).reshape(len(rows), d)
    free = span(directions, SAME_DIRECTION)
    metric = ProjectionMetric(
        free,
        sample.data.features,
        directions=directions,
        labels=tuple(labels),
        reach=Ellipsoid.of(sample.data.x @ free.T, weight),
    )
    return _Learned(metric, fits)


def _fit(
    sample: _Sample,
    trait: Trait,
    weight: Float[np.ndarray, " n"],
    start: Mapping[str, Fit] | None,
) -> Fit:
    near = None if start is None or trait.name not in start else start[trait.name].theta
    if near is not None and len(near) != trait.target.shape[1]:
        near = None  # a class is gone
    try:
        return newton.fit(
            sample.columns, trait.target, weight * trait.known, trait.kind, sample.C, near
        )
    except InvalidMetric as error:
        raise InvalidMetric(f"Trait {trait.name!r}: {error}") from None


def _contrasts(
    trait: Trait, fitted: Fit, weight: Float[np.ndarray, " n"]
) -> list[tuple[str, Float[np.ndarray, " d"]]]:
    """Directions of one trait: its coefficients, or each class against the most common."""
    if trait.kind == "number":
        return [(trait.name, fitted.coefficients[0])]
    if trait.kind == "binary":
        zero, one = trait.classes
        return [(f"{trait.name}: {one} against {zero}", fitted.coefficients[0])]
    common = int(((weight * trait.known) @ trait.target).argmax())
    return [
        (f"{trait.name}: {name} against {trait.classes[common]}", row - fitted.coefficients[common])
        for index, (name, row) in enumerate(zip(trait.classes, fitted.coefficients, strict=True))
        if index != common
    ]


def _deal(sample: _Sample, groups: int, rng: np.random.Generator) -> Int[np.ndarray, " n"] | None:
    if groups == 0:
        return None
    strata = [trait.strata for trait in sample.traits]
    dealt = delete_groups(strata, sample.data.cluster, groups, rng)
    return dealt if dealt.max() > 0 else None


def _origin(sample: _Sample, learned: _Learned, seed: int) -> Origin:
    data, free = sample.data, learned.metric.free
    left = Standardised.of(data.x - (data.x @ free.T) @ free)
    traits = []
    for trait in sample.traits:
        weight = sample.weight * trait.known
        before = learned.fits[trait.name]
        after = newton.fit(left, trait.target, weight, trait.kind, sample.C)
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
            )
        )
    return Origin(
        data=data.fingerprint(),
        source=data.source,
        n=len(data),
        solver="newton",
        tolerance=newton.TOLERANCE,
        C=float(sample.C),
        seed=seed,
        weighted=data.weight is not None,
        clustered=data.cluster is not None,
        traits=tuple(traits),
    )

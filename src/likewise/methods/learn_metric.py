"""Metric learning: what predicts a protected attribute costs nothing (Section 4.2).

The attributes are regressed on the features by scikit-learn, to convergence: a solver that stops
early turns the directions (10 to 16 degrees for race on Adult).
"""

import dataclasses
import functools
import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, final

import numpy as np
from jaxtyping import Bool, Float, Int, Shaped
from threadpoolctl import threadpool_limits

from likewise.audit_data import GAP, AuditData, missing, person_columns
from likewise.data.source import Source
from likewise.data.survey import Survey
from likewise.errors import InvalidData, InvalidMetric, InvalidSettings, StatisticalWarning
from likewise.fingerprints import Sketch, overlap, row_hashes
from likewise.handle import as_seen
from likewise.methods.jackknife import (
    COARSE,
    GROUPS,
    coarse,
    cut_points,
    groups_between,
    unit_hashes,
)
from likewise.methods.metric import (
    AttributeOrigin,
    FairMetric,
    Kind,
    Origin,
    Prediction,
    ProjectionMetric,
    axes,
    columns_of,
    places_of,
    span,
)
from likewise.methods.plausible_region import Ellipsoid
from likewise.models.base import Model
from likewise.setup import Setup

PENALTY = 0.003
"""Ridge penalty a person. It is fixed beforehand, so that permuted attributes are treated as the
true ones are, and what is learned does not depend on how many people there are."""

MOST = 200_000
"""People that a metric is learned from; of more, a random sample is."""

PLACEBOS = 39
"""Permuted attributes for one test at the level .05: the least p-value is 1/40."""

TOLERANCE = 1e-10
"""Largest gradient left in a regression, a person."""

SAME_DIRECTION = 1e-6
"""Learned directions nearer to dependent than this are one direction: fits are not exact."""

NUMBER_FROM = 10
"""A column of numbers with more distinct values than this is a number, not a set of classes."""

MOST_CLASSES = 50
"""A column of text with more distinct values than this is a name rather than an attribute."""

RECOGNISED = 10
"""People who must have a feature's value before it counts as another name for an attribute."""

FOLDS = 5
PREDICTED = 20_000
"""People, at most, on whom it is seen how well an attribute is predicted."""

Progress = Callable[[int, int], None]


def sensitive_subspace(
    data: AuditData,
    *,
    protected: Sequence[str] | None = None,
    penalty: float | None = None,
    C: float | None = None,
    may_matter: Sequence[str] = (),
    groups: int = GROUPS,
    placebos: int = PLACEBOS,
    seed: int = 0,
    as_read: AuditData | None = None,
    drawn_from: int | None = None,
    progress: Progress | None = None,
) -> ProjectionMetric:
    r"""Learn a metric that is blind to what predicts the protected attributes (Section 4.2, F.2).

    Every attribute is regressed on the features with a ridge penalty (logistic for two classes,
    multinomial for several, linear for numbers), to convergence. The span :math:`\mathcal{H}` of
    the coefficients, or of their differences between classes, is free.

    An attribute that is itself an input of the model (by name, or by values) is free on its own
    coordinates, and every attribute is then regressed on the features that are left, as in
    Appendix G.

    Parameters
    ----------
    data
        The sample to learn from; beyond 200,000 people a random sample of it. People whose
        attribute is missing are left out of that attribute's fit and counted. Weights are used,
        relative to their mean.
    protected
        Protected attributes to use; all of them by default. A column of numbers with more than
        ten distinct values is a number, any other a set of classes.
    penalty
        Strength γ of the penalty a person, .003 by default.
    C
        Inverse strength of the penalty of the whole sample, instead: C = 1/(γ n). The paper's
        is 1; with it, what is learned depends on how many people there are.
    may_matter
        Columns that may make a difference: no direction along them is free, and attributes are
        regressed on what these columns do not explain of the others.
    groups
        Groups of the jackknife kept with the metric (none if 0): metric and plausible region are
        learned again without each of them, and the spread is the uncertainty of having learned
        from a sample. People are dealt to groups by a hash of their rows, or of their clusters.
    placebos
        Number of negative controls kept with it (none if 0), learned by the same rule from
        permuted attributes. Without them there is no evidence of unfairness under this metric.
    seed
        Of the permutations, and of that random sample.
    as_read
        The people as they were read, by which they are recognised again, if a pipeline has turned
        them into other features since.
    drawn_from
        Of how many people the sample was drawn already.
    progress
        Called with the number of metrics learned, and of all.
    """
    if groups < 0 or groups == 1:
        raise InvalidSettings(f"groups must be 0 (no jackknife) or at least 2, not {groups}.")
    if placebos < 0:
        raise InvalidSettings(f"placebos must be 0 (none) or more, not {placebos}.")
    read, drawn_from = data if as_read is None else as_read, drawn_from or len(data)
    if len(data) > MOST:
        rows = np.random.default_rng([seed, 8]).choice(len(data), MOST, replace=False)
        data, read = data.take(np.sort(rows)), read.take(np.sort(rows))
    if drawn_from > len(data):
        warnings.warn(
            f"The metric is learned from a random sample of {len(data):,} of {drawn_from:,} people "
            f"(seed {seed}).",
            StatisticalWarning,
            stacklevel=2,
        )
    sample = Sample(data, protected, may_matter, _strength(penalty, C))
    units = unit_hashes([read])
    cuts = cut_points(units, groups) if groups else np.zeros(0, np.uint64)
    dealt, count = groups_between(units, cuts), len(cuts) + 1
    fewer = coarse(dealt, count) if count >= 2 * COARSE else None
    left_out = [dealt != g for g in range(count)] if count > 1 else []
    coarsely = [] if fewer is None else [fewer != g for g in range(COARSE)]
    done, total = 0, 1 + len(left_out) + len(coarsely) + placebos

    def tell(metric: ProjectionMetric) -> ProjectionMetric:
        nonlocal done
        done += 1
        if progress is not None:
            progress(done, total)
        return metric

    def learned(rows: Any = slice(None), order: Any = slice(None)) -> ProjectionMetric:
        found = sample.metric(sample.fits(rows, order), rows)
        return tell(ProjectionMetric(found.free, found.features, reach=found.reach))

    # Many small products: more threads would mostly wait for each other.
    with threadpool_limits(1):
        fits = sample.fits()
        metric = tell(sample.metric(fits))
        metric = dataclasses.replace(
            metric,
            origin=Origin(
                data=read.fingerprint(),
                source=data.source,
                n=len(data),
                drawn_from=drawn_from,
                penalty=None if C is not None else penalty or PENALTY,
                C=C,
                solver="newton-cholesky",
                tolerance=TOLERANCE,
                seed=seed,
                weighted=data.weight is not None,
                clustered=data.cluster is not None,
                attributes=sample.origins(
                    metric, fits, groups_between(units, cut_points(units, FOLDS))
                ),
                may_matter=tuple(may_matter),
            ),
            refits=tuple(learned(kept) for kept in left_out),
            coarse_refits=tuple(learned(kept) for kept in coarsely),
            cuts=cuts if left_out else None,
            placebos=tuple(
                learned(order=permutation(sample, np.random.default_rng([seed, 2, b])))
                for b in range(placebos)
            ),
            sketch=Sketch.from_hashes(row_hashes(person_columns(read))).smallest,
        )
    if not len(metric.free):
        warnings.warn(
            "No feature predicts any protected attribute, so no direction is free.",
            StatisticalWarning,
            stacklevel=2,
        )
    return metric


def _strength(penalty: float | None, C: float | None) -> Callable[[float], float]:
    """Return C of a regression of people with a total weight."""
    if penalty is not None and C is not None:
        raise InvalidSettings("Give a penalty a person or C, not both: C = 1/(penalty × n).")
    for name, value in {"penalty": penalty, "C": C}.items():
        if value is not None and not (value > 0 and math.isfinite(value)):
            raise InvalidSettings(f"{name} must be a positive number, not {value}.")
    return lambda total: 1 / ((penalty or PENALTY) * total) if C is None else C


@dataclasses.dataclass(frozen=True, eq=False)
class Attribute:
    """A protected attribute as the target of a regression.

    ``values`` are numbers of the classes, or the number itself; not a number where it is missing.
    """

    name: str
    kind: Kind
    values: Float[np.ndarray, " n"]
    classes: tuple[str, ...] = ()

    @functools.cached_property
    def known(self) -> Bool[np.ndarray, " n"]:
        """Whose attribute is known."""
        return ~np.isnan(self.values)

    def features_of(self, x: Float[np.ndarray, "n d"]) -> list[int]:
        """Return the features that are the attribute itself: one-hot columns without names.

        Such a column has one value throughout each class, and two values or more that ten people
        have; that of a number is the number itself, on any scale.
        """
        x, values = x[self.known], self.values[self.known]
        if self.kind == "number":
            fitted = np.column_stack([values, np.ones(len(values))])
            with np.errstate(all="ignore"):
                rest = x - fitted @ np.linalg.lstsq(fitted, x, rcond=None)[0]
                same = np.abs(rest).max(axis=0, initial=0.0) <= 1e-9 * x.std(axis=0)
            return np.flatnonzero(same & (np.ptp(x, axis=0) > 0)).tolist()
        code = values.astype(np.int64)
        own = x[np.unique(code, return_index=True)[1]]
        count = np.bincount(code)
        found = []
        for j in np.flatnonzero((x == own[code]).all(axis=0)).tolist():
            sizes = np.bincount(np.unique(own[:, j], return_inverse=True)[1], count)
            if sizes.size > 1 and np.sort(sizes)[-2] >= RECOGNISED:
                found.append(j)
        return found


def read_attribute(name: str, column: Shaped[np.ndarray, " n"]) -> Attribute:
    """Turn a protected column into something a regression can be fitted to."""
    known = ~missing(column)
    values = column[known].tolist()
    numeric = column.dtype.kind in "iufO" and all(
        isinstance(v, int | float | np.number) and not isinstance(v, bool) for v in values
    )
    distinct = sorted(set(values), key=lambda v: v if numeric else str(v))
    if len(distinct) < 2:
        what = f"is {distinct[0]!r} for everyone" if distinct else "is missing for everyone"
        raise InvalidMetric(
            f"The protected attribute {name!r} {what}, so no direction can be learned from it. "
            "Leave it out, or use a sample in which it varies."
        )
    target = np.full(len(column), np.nan)
    if numeric and len(distinct) > NUMBER_FROM:
        target[known] = values
        if np.isinf(target).any():
            raise InvalidMetric(f"The protected attribute {name!r} has infinite values.")
        return Attribute(name, "number", target)
    if len(distinct) > MOST_CLASSES:
        raise InvalidMetric(
            f"The protected attribute {name!r} has {len(distinct)} different values (at most "
            f"{MOST_CLASSES} can be compared). Group them (--bins), or write numbers as numbers."
        )
    place = {value: number for number, value in enumerate(distinct)}
    target[known] = [place[value] for value in values]
    names = tuple(map(str, distinct))
    return Attribute(name, "binary" if len(names) == 2 else "classes", target, names)


@dataclasses.dataclass(frozen=True, eq=False)
class Fit:
    """A ridge, logistic or multinomial regression, fitted to convergence by scikit-learn.

    ``directions`` are its coefficients by what they stand for: those of a number, or of each class
    against the one of most weight. ``gradient`` is the largest one left, a person, for columns
    with a standard deviation of one at most.
    """

    estimator: Any
    directions: Mapping[str, Float[np.ndarray, " e"]]
    gradient: float

    def score(
        self,
        x: Float[np.ndarray, "n e"],
        values: Float[np.ndarray, " n"],
        weight: Float[np.ndarray, " n"],
    ) -> float | None:
        """Return R² or the mean area under the curve of other people, if they differ."""
        from sklearn.metrics import r2_score, roc_auc_score

        if not len(values) or np.ptp(values) == 0:
            return None
        if not hasattr(self.estimator, "classes_"):
            return float(r2_score(values, self.estimator.predict(x), sample_weight=weight))
        members = values[:, None] == self.estimator.classes_
        areas = [
            roc_auc_score(member, chance, sample_weight=weight)
            for member, chance in zip(members.T, self.estimator.predict_proba(x).T, strict=True)
            if member.any() and not member.all()
        ]
        return float(np.mean(areas)) if areas else None


def regress(
    attribute: Attribute,
    x: Float[np.ndarray, "n e"],
    values: Float[np.ndarray, " n"],
    weight: Float[np.ndarray, " n"],
    strength: Callable[[float], float],
) -> Fit | None:
    r"""Minimise :math:`C \sum_i s_i\, \ell(W x_i + b, t_i) + |W|^2 / 2`, b unpenalised.

    Nothing can be learned from an attribute that is constant.
    """
    from sklearn.linear_model import LogisticRegression, Ridge

    known = ~np.isnan(values)
    x, values, weight = x[known], values[known], weight[known]
    if not len(values) or np.ptp(values) == 0:
        return None
    C = strength(float(weight.sum()))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what it warns about shows in the gradient
        if attribute.kind == "number":
            estimator = Ridge(alpha=1 / C, solver="cholesky").fit(x, values, weight)
            error = (estimator.predict(x) - values)[:, None]
        else:
            estimator = LogisticRegression(
                C=C, solver="newton-cholesky", tol=TOLERANCE, max_iter=200
            ).fit(x, values, weight)
            member = values[:, None] == estimator.classes_
            error = estimator.predict_proba(x) - member
    rows = np.atleast_2d(estimator.coef_)
    slopes = (error * weight[:, None]).T[-len(rows) :] @ x + rows / C
    intercepts = (error * weight[:, None]).sum(axis=0)
    slopes /= np.maximum(x.std(axis=0), 1.0)
    largest = max(np.abs(slopes).max(initial=0.0), np.abs(intercepts).max()) / weight.sum()
    if not largest <= TOLERANCE * max(1.0, float(np.abs(error).max())):
        raise InvalidMetric(
            f"Attribute {attribute.name!r}: The regression did not converge (gradient "
            f"{largest:.1e}, C = {C:.3g}). Standardise the columns, drop those that repeat others, "
            "or raise the penalty."
        )
    directions = {attribute.name: rows[0]}
    if attribute.kind != "number":
        names = [attribute.classes[int(number)] for number in estimator.classes_]
        common = 0 if len(names) == 2 else int((weight @ member).argmax())
        rows = np.vstack([np.zeros_like(rows), rows]) if len(names) == 2 else rows - rows[common]
        directions = {
            f"{attribute.name}: {name} against {names[common]}": row
            for number, (name, row) in enumerate(zip(names, rows, strict=True))
            if number != common
        }
    return Fit(estimator, directions, float(largest))


@final
class Sample:
    """People whose attributes are regressed on their features, some of them or all.

    ``inputs`` are the features that are an attribute itself, by attribute; ``kept`` those that may
    matter, along which no direction is free; ``others`` all other features, on which attributes
    are regressed. Weights are relative to their mean. ``strength`` gives C of a regression of
    people with a total weight.
    """

    def __init__(
        self,
        data: AuditData,
        names: Sequence[str] | None,
        may_matter: Sequence[str],
        strength: Callable[[float], float],
    ) -> None:
        if data.x.shape[1] == 0:
            raise InvalidMetric(
                "There are no feature columns to learn a metric from. Encode the table, or learn "
                "in the space where the pipeline is audited."
            )
        names = tuple(data.protected) if names is None else tuple(dict.fromkeys(names))
        if not names:
            raise InvalidMetric(
                "There is no protected attribute to learn a metric from. Name one (--protected)."
            )
        self.data, self.strength = data, strength
        self.attributes = tuple(read_attribute(name, data.trait(name)) for name in names)
        self.inputs = {
            a.name: columns_of(data.features, a.name, a.classes) or a.features_of(data.x)
            for a in self.attributes
        }
        self.kept = places_of(data.features, may_matter, "that may matter", data.table)
        for attribute, places in self.inputs.items():
            if set(places) & set(self.kept):
                raise InvalidMetric(f"{attribute!r} is protected, so it cannot be what may matter.")
        gaps = [j for j, name in enumerate(data.features) if name.endswith(GAP)]
        taken = {*self.kept, *gaps, *(j for places in self.inputs.values() for j in places)}
        self.others = [j for j in range(data.x.shape[1]) if j not in taken]
        weight = np.ones(len(data)) if data.weight is None else data.weight
        self.weight: Float[np.ndarray, " n"] = weight / weight.mean()

    @functools.cached_property
    def columns(self) -> Float[np.ndarray, "n e"]:
        """All features, each about zero; constant ones are exactly zero."""
        x = self.data.x
        with np.errstate(over="ignore", invalid="ignore"):
            mean, scale = x.mean(axis=0), x.std(axis=0)
        if not np.isfinite(scale).all():
            raise InvalidMetric("Some features are too large to compute with (beyond 1e150).")
        constant = scale <= 1e-12 * np.abs(x).max(axis=0, initial=0.0)
        return np.where(constant, 0.0, x - mean)

    def design(self, rows: Any = slice(None)) -> Float[np.ndarray, "m e"]:
        """Return the other features of some people, without what those that may matter explain."""
        x = self.columns[rows]
        if not self.kept:
            return x[:, self.others]
        known = np.column_stack([x[:, self.kept], np.ones(len(x))])
        root = np.sqrt(self.weight[rows])[:, None]
        slopes, *_ = np.linalg.lstsq(known * root, x[:, self.others] * root, rcond=None)
        return x[:, self.others] - known @ slopes

    def fits(self, rows: Any = slice(None), order: Any = slice(None)) -> list[Fit | None]:
        """Regress each attribute; ``order`` says whose attributes each person has."""
        design, weight = self.design(rows), self.weight[rows]
        return [
            regress(attribute, design, attribute.values[order][rows], weight, self.strength)
            for attribute in self.attributes
        ]

    def metric(self, fits: Sequence[Fit | None], rows: Any = slice(None)) -> ProjectionMetric:
        """Return the metric of these regressions, with the plausible region of some people."""
        found = [pair for fit in fits if fit is not None for pair in fit.directions.items()]
        d = self.data.x.shape[1]
        directions = np.zeros((len(found), d))
        for direction, (_, coefficients) in zip(directions, found, strict=True):
            direction[self.others] = coefficients
        labels = [label for label, _ in found]
        for name, places in self.inputs.items():
            directions = np.vstack([directions, axes(places, d)])
            labels.extend(f"{self.data.features[j]} (the attribute {name} itself)" for j in places)
        free = span(directions, SAME_DIRECTION)
        return ProjectionMetric(
            free,
            self.data.features,
            directions=directions,
            labels=tuple(labels),
            reach=Ellipsoid.of(self.data.x[rows] @ free.T, self.weight[rows]),
        )

    def origins(
        self, metric: ProjectionMetric, fits: Sequence[Fit | None], folds: Int[np.ndarray, " n"]
    ) -> tuple[AttributeOrigin, ...]:
        """Tell what was learned about each attribute."""
        x, free = self.columns, metric.free
        parts = {"before": self.design(), "after": x - (x @ free.T) @ free}
        told = []
        for attribute, fit in zip(self.attributes, fits, strict=True):
            total = float(self.weight[attribute.known].sum())
            told.append(
                AttributeOrigin(
                    name=attribute.name,
                    kind=attribute.kind,
                    classes=attribute.classes,
                    n=int(attribute.known.sum()),
                    missing=int((~attribute.known).sum()),
                    inputs=tuple(self.data.features[j] for j in self.inputs[attribute.name]),
                    penalty=1 / (self.strength(total) * total),
                    gradient=math.nan if fit is None else fit.gradient,
                    **{
                        when: self._predicted(attribute, design, folds)
                        for when, design in parts.items()
                    },
                )
            )
        return tuple(told)

    def _predicted(
        self,
        attribute: Attribute,
        design: Float[np.ndarray, "n e"],
        folds: Int[np.ndarray, " n"],
    ) -> Prediction:
        """Return how well an attribute is predicted for people left out of the regression."""
        some = np.flatnonzero(attribute.known)[:PREDICTED]
        x, values, weight = design[some], attribute.values[some], self.weight[some]
        found = []
        for fold in np.unique(folds[some]):
            out = folds[some] == fold
            fit = regress(attribute, x[~out], values[~out], weight[~out], self.strength)
            value = None if fit is None else fit.score(x[out], values[out], weight[out])
            if value is not None:
                found.append(value)
        if len(found) < 2:
            return Prediction()
        name = "r2" if attribute.kind == "number" else "auc"
        error = float(np.std(found, ddof=1)) / math.sqrt(len(found))
        return Prediction(**{name: float(np.mean(found)), "std_error": error})


def permutation(sample: Sample, rng: np.random.Generator) -> Int[np.ndarray, " n"]:
    """Return whose attributes each person gets; all attributes of a person stay together.

    Without clusters anybody's; attributes that are the same throughout each cluster are exchanged
    between whole clusters, others within clusters.
    """
    n, cluster = len(sample.data), sample.data.cluster
    if cluster is None:
        return rng.permutation(n)
    place: dict[object, int] = {}
    unit = np.array([place.setdefault(value, len(place)) for value in cluster.tolist()])
    first = np.unique(unit, return_index=True)[1]
    if all(
        np.array_equal(a.values, a.values[first[unit]], equal_nan=True) for a in sample.attributes
    ):
        return first[rng.permutation(len(first))[unit]]
    order = np.empty(n, dtype=np.int64)
    order[np.argsort(unit, kind="stable")] = np.lexsort((rng.random(n), unit))
    return order


MANY = 0.5
"""Share of one in the other, audited or learned from, from which the two are not separate. Coarse
tables have many equal rows: a fifth of the people of Adult's test split are in its training split
as well, and are other people."""


def learn_metric(setup: Setup, model: Model, people: AuditData) -> ProjectionMetric:
    """Return the metric that is blind to what predicts the protected attributes of everyone."""
    known, session = setup.survey, setup.session
    if not known.traits:
        raise InvalidData(
            "Without a fair metric, protected attributes are needed to learn one. Name them with "
            "protected (--protected), or give a metric (--metric)."
        )
    read = known.sample
    if len(people) < known.n:  # the survey's sample is smaller than what is learned from
        read = session.survey(setup.source, setup.settings.seed, MOST, "drawing people").sample
        people = as_seen(model, read)
    return sensitive_subspace(
        people,
        **setup.settings.learning,
        as_read=read,
        drawn_from=known.n,
        progress=lambda done, count: session.tell("learning the metric", done, count),
    )


def same_people(metric: FairMetric, known: Survey) -> bool:
    """Tell whether the metric was learned from these people, in any order, or from many of them."""
    if metric.origin is None:
        return False
    if metric.origin.data == known.fingerprint or metric.sketch is None:
        return metric.origin.data == known.fingerprint
    # Either may be a part of the other: a metric learned from a sample of very many people.
    learned_from = Sketch(metric.sketch, metric.origin.n)
    return max(overlap(known.sketch, learned_from), overlap(learned_from, known.sketch)) > MANY


def groups_of(
    metric: FairMetric, known: Survey, source: Source, block: int
) -> Int[np.ndarray, " n"] | None:
    """Return everyone's group of the jackknife, by position; none if others were learned from.

    People who were not learned from are dealt to groups by the same rule, so that a group left out
    leaves out its share of them too: one jackknife covers both samples, however they overlap.
    """
    if metric.cuts is None or not same_people(metric, known):
        return None
    if len(known.sample) == known.n:
        return groups_between(unit_hashes([known.sample]), metric.cuts)
    blocks = source.blocks(block)
    read = (people for _, people in blocks.read(range(len(blocks))))
    return groups_between(unit_hashes(read), metric.cuts)

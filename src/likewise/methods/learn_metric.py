"""Metric learning: what predicts a protected attribute costs nothing (Section 4.2).

The attributes are regressed on the features by scikit-learn, to convergence: a solver that stops
early turns the directions (10 to 16 degrees for race on Adult).
"""

import dataclasses
import itertools
import math
import warnings
from collections.abc import Callable, Sequence
from typing import Any, final

import numpy as np
from jaxtyping import Float, Int, Shaped
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

EVERYONE = slice(None)


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
    progress: Callable[[int, int], None] | None = None,
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
    penalty, C
        Strength γ of the penalty a person, .003 by default; or instead the inverse strength of that
        of the whole sample, C = 1/(γ n). The paper's C is 1; with it, what is learned depends on
        how many people there are.
    may_matter
        Columns that may make a difference: no direction along them is free, and attributes are
        regressed on what these columns do not explain of the others.
    groups
        Groups of the jackknife kept with the metric (none if 0): metric and plausible region are
        learned again without each of them. People are dealt to groups by a hash of their rows, or
        of their clusters.
    placebos
        Number of negative controls kept with it (none if 0), learned by the same rule from
        permuted attributes. Without them there is no evidence of unfairness under this metric.
    seed
        Of the permutations, and of that random sample.
    as_read, drawn_from
        The people as they were read, by which they are recognised again, if a pipeline has turned
        them into other features since; and of how many people they were drawn already.
    progress
        Called with the number of metrics learned, and of all.
    """
    if groups < 0 or groups == 1:
        raise InvalidSettings(f"groups must be 0 (no jackknife) or at least 2, not {groups}.")
    if penalty is not None and C is not None:
        raise InvalidSettings("Give a penalty a person or C, not both: C = 1/(penalty × n).")
    for name, value in {"penalty": penalty, "C": C}.items():
        if value is not None and not (value > 0 and math.isfinite(value)):
            raise InvalidSettings(f"{name} must be a positive number, not {value}.")
    if placebos < 0:
        raise InvalidSettings(f"placebos must be 0 (none) or more, not {placebos}.")
    read, drawn_from = data if as_read is None else as_read, drawn_from or len(data)
    if len(data) > MOST:
        rows = np.random.default_rng([seed, 8]).choice(len(data), MOST, replace=False)
        data, read = data.take(np.sort(rows)), read.take(np.sort(rows))
    if drawn_from > len(data):
        some = f"a random sample of {len(data):,} of {drawn_from:,} people (seed {seed})"
        warnings.warn(f"The metric is learned from {some}.", StatisticalWarning, stacklevel=2)
    sample = Sample(data, protected, may_matter, penalty or PENALTY, C)
    units = unit_hashes([read])
    cuts = cut_points(units, groups) if groups else np.zeros(0, np.uint64)
    dealt, count = groups_between(units, cuts), len(cuts) + 1
    left_out = [dealt != g for g in range(count)] if count > 1 else []
    fewer = coarse(dealt, count)
    coarsely = [fewer != g for g in range(COARSE)] if count >= 2 * COARSE else []
    samples = itertools.chain(
        ((rows, EVERYONE) for rows in (EVERYONE, *left_out, *coarsely)),
        (
            (EVERYONE, permutation(sample, np.random.default_rng([seed, 2, b])))
            for b in range(placebos)
        ),
    )
    total, found = 1 + len(left_out) + len(coarsely) + placebos, []
    # Many small products: more threads would mostly wait for each other.
    with threadpool_limits(1):
        for done, (rows, order) in enumerate(samples, start=1):
            found.append(sample.learn(rows, order))
            if progress is not None:
                progress(done, total)
    (metric, gradients), *others = found
    if not len(metric.free):
        said = "No feature predicts any protected attribute, so no direction is free."
        warnings.warn(said, StatisticalWarning, stacklevel=2)
    again = tuple(ProjectionMetric(one.free, one.features, reach=one.reach) for one, _ in others)
    first, second = len(left_out), len(left_out) + len(coarsely)
    return dataclasses.replace(
        metric,
        origin=Origin(
            data=read.fingerprint(),
            source=data.source,
            n=len(data),
            drawn_from=drawn_from,
            penalty=None if C is not None else penalty or PENALTY,
            C=C,
            seed=seed,
            weighted=data.weight is not None,
            clustered=data.cluster is not None,
            attributes=sample.origins(gradients),
            may_matter=tuple(may_matter),
        ),
        refits=again[:first],
        coarse_refits=again[first:second],
        cuts=cuts if left_out else None,
        placebos=again[second:],
        sketch=Sketch.from_hashes(row_hashes(person_columns(read))).smallest,
    )


@dataclasses.dataclass(frozen=True, eq=False)
class Attribute:
    """A protected attribute as the target of a regression.

    ``values`` are numbers of the classes, or the number itself; not a number where it is missing.
    """

    name: str
    kind: Kind
    values: Float[np.ndarray, " n"]
    classes: tuple[str, ...] = ()

    def features_of(self, x: Float[np.ndarray, "n d"]) -> list[int]:
        """Return the features that are the attribute itself: one-hot columns without names.

        Such a column has one value throughout each class, and two values or more that ten people
        have; that of a number is the number itself, on any scale.
        """
        known = ~np.isnan(self.values)
        x, values = x[known], self.values[known]
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
        raise InvalidMetric(f"The protected attribute {name!r} {what}: leave it out.")
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


def regress(
    attribute: Attribute,
    x: Float[np.ndarray, "n e"],
    values: Float[np.ndarray, " n"],
    weight: Float[np.ndarray, " n"],
    strength: Callable[[float], float],
) -> tuple[dict[str, Float[np.ndarray, " e"]], float]:
    r"""Minimise :math:`C \sum_i s_i\, \ell(W x_i + b, t_i) + |W|^2 / 2`, b unpenalised.

    Returns the coefficients by what they stand for, a number or each class against the one of most
    weight, and the largest gradient left, a person, for columns with a standard deviation of one at
    most. Nothing can be learned from an attribute that is constant.
    """
    from sklearn.linear_model import LogisticRegression, Ridge

    known = ~np.isnan(values)
    x, values, weight = x[known], values[known], weight[known]
    if not len(values) or np.ptp(values) == 0:
        return {}, math.nan
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
            f"{largest:.1e}, C = {C:.3g}). Standardise the columns, or raise the penalty."
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
    return directions, float(largest)


@final
class Sample:
    """People whose attributes are regressed on their features, some of them or all.

    ``inputs`` are the features that are an attribute itself, by attribute; ``kept`` those that may
    matter, along which no direction is free; ``others`` all other features, on which attributes
    are regressed. Weights are relative to their mean.
    """

    def __init__(
        self,
        data: AuditData,
        names: Sequence[str] | None,
        may_matter: Sequence[str] = (),
        penalty: float = PENALTY,
        C: float | None = None,
    ) -> None:
        if data.x.shape[1] == 0:
            raise InvalidMetric("There are no feature columns to learn from. Encode the table.")
        names = tuple(data.protected) if names is None else tuple(dict.fromkeys(names))
        if not names:
            raise InvalidMetric("There is no protected attribute to learn from (--protected).")
        self.data, self.penalty, self.C = data, penalty, C
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
        with np.errstate(over="ignore", invalid="ignore"):
            mean, scale = data.x.mean(axis=0), data.x.std(axis=0)
        if not np.isfinite(scale).all():
            raise InvalidMetric("Some features are too large to compute with (beyond 1e150).")
        constant = scale <= 1e-12 * np.abs(data.x).max(axis=0, initial=0.0)
        self.columns: Float[np.ndarray, "n d"] = np.where(constant, 0.0, data.x - mean)

    def strength(self, total: float) -> float:
        """Return C of a regression of people with a total weight."""
        return 1 / (self.penalty * total) if self.C is None else self.C

    def design(self, rows: Any) -> Float[np.ndarray, "m e"]:
        """Return the other features of some people, without what those that may matter explain."""
        x = self.columns[rows]
        if not self.kept:
            return x[:, self.others]
        known = np.column_stack([x[:, self.kept], np.ones(len(x))])
        root = np.sqrt(self.weight[rows])[:, None]
        slopes, *_ = np.linalg.lstsq(known * root, x[:, self.others] * root, rcond=None)
        return x[:, self.others] - known @ slopes

    def learn(
        self, rows: Any = EVERYONE, order: Any = EVERYONE
    ) -> tuple[ProjectionMetric, list[float]]:
        """Return the metric of some people, and the largest gradient left for each attribute.

        ``order`` says whose attributes each person has.
        """
        design, weight, d = self.design(rows), self.weight[rows], self.data.x.shape[1]
        found: dict[str, Float[np.ndarray, " e"]] = {}
        gradients = []
        for attribute in self.attributes:
            values = attribute.values[order][rows]
            coefficients, gradient = regress(attribute, design, values, weight, self.strength)
            found |= coefficients
            gradients.append(gradient)
        directions = np.zeros((len(found), d))
        for direction, coefficient in zip(directions, found.values(), strict=True):
            direction[self.others] = coefficient
        labels = list(found)
        for name, places in self.inputs.items():
            directions = np.vstack([directions, axes(places, d)])
            labels.extend(f"{self.data.features[j]} (the attribute {name} itself)" for j in places)
        free = span(directions, SAME_DIRECTION)
        metric = ProjectionMetric(
            free,
            self.data.features,
            directions=directions,
            labels=tuple(labels),
            reach=Ellipsoid.of(self.data.x[rows] @ free.T, weight),
        )
        return metric, gradients

    def origins(self, gradients: Sequence[float]) -> tuple[AttributeOrigin, ...]:
        """Tell what was learned about each attribute."""
        told = []
        for attribute, gradient in zip(self.attributes, gradients, strict=True):
            known = ~np.isnan(attribute.values)
            total = float(self.weight[known].sum())
            told.append(
                AttributeOrigin(
                    name=attribute.name,
                    kind=attribute.kind,
                    classes=attribute.classes,
                    n=int(known.sum()),
                    missing=int((~known).sum()),
                    inputs=tuple(self.data.features[j] for j in self.inputs[attribute.name]),
                    penalty=1 / (self.strength(total) * total),
                    gradient=gradient,
                )
            )
        return tuple(told)


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
            "Without a fair metric (--metric), name protected attributes to learn one from."
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
    if not isinstance(metric, ProjectionMetric) or metric.origin is None:
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

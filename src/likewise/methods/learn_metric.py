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
from likewise.data.columns import require
from likewise.data.survey import Survey
from likewise.errors import InvalidData, InvalidMetric, InvalidSettings, StatisticalWarning
from likewise.fingerprints import overlap, row_hashes, sketch_of
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
    FairMetric,
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

MAX_SAMPLE = 200_000
"""People that a metric is learned from; of more, a random sample is."""

CONTROLS = 39
"""Permuted attributes for one test at the level .05: the least p-value is 1/40."""

TOLERANCE = 1e-10
"""Largest gradient left in a regression, a person."""

SAME_DIRECTION = 1e-6
"""Learned directions nearer to dependent than this are one direction: fits are not exact."""

NUMBER_FROM = 10
"""A column of numbers with more distinct values than this is a number, not a set of classes."""

MOST_CLASSES = 50
"""A column of text with more distinct values than this is a name rather than an attribute."""

EVERYONE = slice(None)


def sensitive_subspace(
    data: AuditData,
    *,
    protected: Sequence[str] | None = None,
    C: float | None = None,
    may_matter: Sequence[str] = (),
    groups: int = GROUPS,
    controls: int = CONTROLS,
    seed: int = 0,
    as_read: AuditData | None = None,
    drawn_from: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> ProjectionMetric:
    r"""Learn a metric that is blind to what predicts the protected attributes (Section 4.2, F.2).

    Every attribute is regressed on the features with a ridge penalty (logistic for two classes,
    multinomial for several, linear for numbers), to convergence. The span :math:`\mathcal{H}` of
    the coefficients, or of their differences between classes, is free.

    An attribute that is itself an input of the model, by name, is free on its own coordinates, and
    every attribute is then regressed on the features that are left, as in Appendix G.

    Parameters
    ----------
    data
        The sample to learn from; beyond 200,000 people a random sample of it. People whose
        attribute is missing are left out of that attribute's fit and counted. Weights are used,
        relative to their mean.
    protected
        Protected attributes to use; all of them by default. A column of numbers with more than
        ten distinct values is a number, any other a set of classes.
    C
        Inverse strength of the penalty of the whole sample. By default it is 1/(.003 n), so that
        what is learned does not depend on how many people there are. The paper's is 1.
    may_matter
        Columns that may make a difference: no direction along them is free, and attributes are
        regressed on what these columns do not explain of the others.
    groups
        Groups of the jackknife kept with the metric (none below 2): metric and plausible region are
        learned again without each of them. People are dealt to groups by a hash of their rows, or
        of their clusters.
    controls
        Number of negative controls kept with it, learned by the same rule from permuted attributes.
        Without them there is no evidence of unfairness under this metric.
    seed
        Of the permutations, and of that random sample.
    as_read, drawn_from
        The people as they were read, by which they are recognised again, if a pipeline has turned
        them into other features since; and of how many people they were drawn already.
    progress
        Called with the number of metrics learned, and of all.
    """
    if C is not None and not 0 < C < math.inf:
        raise InvalidSettings(f"C must be a positive number, not {C}.")
    read, drawn_from = data if as_read is None else as_read, drawn_from or len(data)
    if len(data) > MAX_SAMPLE:
        rows = np.random.default_rng([seed, 8]).choice(len(data), MAX_SAMPLE, replace=False)
        data, read = data.take(np.sort(rows)), read.take(np.sort(rows))
    if drawn_from > len(data):
        some = f"a random sample of {len(data):,} of {drawn_from:,} people (seed {seed})"
        warnings.warn(f"The metric is learned from {some}.", StatisticalWarning, stacklevel=2)
    sample = Sample(data, protected, may_matter, C)
    units = unit_hashes([read])
    cuts = cut_points(units, groups)
    dealt, count = groups_between(units, cuts), len(cuts) + 1
    fewer = coarse(dealt, count)
    left_out = [dealt != g for g in range(count) if count > 1]
    coarsely = [fewer != g for g in range(COARSE) if count >= 2 * COARSE]
    orders = (permutation(sample, np.random.default_rng([seed, 2, b])) for b in range(controls))
    samples = itertools.chain(
        ((rows, EVERYONE) for rows in (EVERYONE, *left_out, *coarsely)),
        ((EVERYONE, order) for order in orders),
    )
    total, found = 1 + len(left_out) + len(coarsely) + controls, []
    # Many small products: more threads would mostly wait for each other.
    with threadpool_limits(1):
        for done, (rows, order) in enumerate(samples, start=1):
            found.append(sample.learn(rows, order))
            if progress is not None:
                progress(done, total)
    metric, *others = found
    if not len(metric.free):
        said = "No feature predicts any protected attribute, so no direction is free."
        warnings.warn(said, StatisticalWarning, stacklevel=2)
    again = tuple(ProjectionMetric(one.free, one.features, reach=one.reach) for one in others)
    first, second = len(left_out), len(left_out) + len(coarsely)
    return dataclasses.replace(
        metric,
        origin=Origin(
            source=data.source,
            n=len(data),
            drawn_from=drawn_from,
            C=C,
            seed=seed,
            missing={a.name: int(np.isnan(a.values).sum()) for a in sample.attributes},
            may_matter=tuple(may_matter),
        ),
        refits=again[:first],
        coarse_refits=again[first:second],
        cuts=cuts if left_out else None,
        controls=again[second:],
        sketch=sketch_of(row_hashes(person_columns(read))),
    )


@dataclasses.dataclass(frozen=True, eq=False)
class Attribute:
    """A protected attribute as the target of a regression.

    ``values`` are numbers of the ``classes``, or the number itself if there are none; not a number
    where it is missing.
    """

    name: str
    values: Float[np.ndarray, " n"]
    classes: tuple[str, ...] = ()


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
        return Attribute(name, target)
    if len(distinct) > MOST_CLASSES:
        raise InvalidMetric(
            f"The protected attribute {name!r} has {len(distinct)} different values (at most "
            f"{MOST_CLASSES} can be compared). Group them (--bins), or write numbers as numbers."
        )
    place = {value: number for number, value in enumerate(distinct)}
    target[known] = [place[value] for value in values]
    return Attribute(name, target, tuple(map(str, distinct)))


def regress(
    attribute: Attribute,
    x: Float[np.ndarray, "n e"],
    values: Float[np.ndarray, " n"],
    weight: Float[np.ndarray, " n"],
    C: float | None,
) -> dict[str, Float[np.ndarray, " e"]]:
    r"""Minimise :math:`C \sum_i s_i\, \ell(W x_i + b, t_i) + |W|^2 / 2`, b unpenalised.

    Returns the coefficients by what they stand for, a number or each class against the one of most
    weight. Nothing can be learned from an attribute that is constant. The largest gradient left, a
    person, for columns with a standard deviation of one at most, tells whether it converged.
    """
    from sklearn.linear_model import LogisticRegression, Ridge

    known = ~np.isnan(values)
    x, values, weight = x[known], values[known], weight[known]
    if not len(values) or np.ptp(values) == 0:
        return {}
    C = C or 1 / (PENALTY * float(weight.sum()))
    if not attribute.classes:
        ridge = Ridge(alpha=1 / C, solver="cholesky").fit(x, values, weight)
        return {attribute.name: ridge.coef_}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what it warns about shows in the gradient
        logistic = LogisticRegression(C=C, solver="newton-cholesky", tol=TOLERANCE, max_iter=200)
        logistic.fit(x, values, weight)
    member, rows = values[:, None] == logistic.classes_, logistic.coef_
    error = (logistic.predict_proba(x) - member) * weight[:, None]
    slopes = (error.T[-len(rows) :] @ x + rows / C) / np.maximum(x.std(axis=0), 1.0)
    largest = max(np.abs(slopes).max(initial=0.0), np.abs(error.sum(axis=0)).max()) / weight.sum()
    if not largest <= TOLERANCE:
        raise InvalidMetric(
            f"Attribute {attribute.name!r}: The regression did not converge (gradient "
            f"{largest:.1e}, C = {C:.3g}). Standardise the columns, or lower C."
        )
    names = [attribute.classes[int(number)] for number in logistic.classes_]
    common = 0 if len(names) == 2 else int((weight @ member).argmax())
    rows = np.vstack([np.zeros_like(rows), rows]) if len(names) == 2 else rows - rows[common]
    return {
        f"{attribute.name}: {name} against {names[common]}": row
        for number, (name, row) in enumerate(zip(names, rows, strict=True))
        if number != common
    }


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
        C: float | None = None,
    ) -> None:
        if data.x.shape[1] == 0:
            raise InvalidMetric("There are no feature columns to learn from. Encode the table.")
        names = tuple(data.protected) if names is None else tuple(dict.fromkeys(names))
        if not names:
            raise InvalidMetric("There is no protected attribute to learn from (--protected).")
        for name in names:
            require(name, data.protected, "a protected attribute")
        self.data, self.C = data, C
        self.attributes = tuple(read_attribute(name, data.protected[name]) for name in names)
        self.inputs = {
            a.name: columns_of(data.features, a.name, a.classes) for a in self.attributes
        }
        self.kept = places_of(data.features, may_matter, "that may matter", data.table)
        for attribute, places in self.inputs.items():
            if set(places) & set(self.kept):
                raise InvalidMetric(f"{attribute!r} is protected, so it cannot be what may matter.")
        taken = {*self.kept, *(j for places in self.inputs.values() for j in places)}
        self.others = [
            j for j, f in enumerate(data.features) if j not in taken and not f.endswith(GAP)
        ]
        weight = np.ones(len(data)) if data.weight is None else data.weight
        self.weight: Float[np.ndarray, " n"] = weight / weight.mean()
        with np.errstate(over="ignore", invalid="ignore"):
            mean, scale = data.x.mean(axis=0), data.x.std(axis=0)
        if not np.isfinite(scale).all():
            raise InvalidMetric("Some features are too large to compute with (beyond 1e150).")
        constant = scale <= 1e-12 * np.abs(data.x).max(axis=0, initial=0.0)
        self.columns: Float[np.ndarray, "n d"] = np.where(constant, 0.0, data.x - mean)

    def design(self, rows: Any) -> Float[np.ndarray, "m e"]:
        """Return the other features of some people, without what those that may matter explain."""
        x = self.columns[rows]
        if not self.kept:
            return x[:, self.others]
        known = np.column_stack([x[:, self.kept], np.ones(len(x))])
        root = np.sqrt(self.weight[rows])[:, None]
        slopes, *_ = np.linalg.lstsq(known * root, x[:, self.others] * root, rcond=None)
        return x[:, self.others] - known @ slopes

    def learn(self, rows: Any = EVERYONE, order: Any = EVERYONE) -> ProjectionMetric:
        """Return the metric of some people; ``order`` says whose attributes each person has."""
        design, weight, features = self.design(rows), self.weight[rows], self.data.features
        found: dict[str, Float[np.ndarray, " e"]] = {}
        for attribute in self.attributes:
            values = attribute.values[order][rows]
            found |= regress(attribute, design, values, weight, self.C)
        directions = np.zeros((len(found), len(features)))
        if found:
            directions[:, self.others] = list(found.values())
        labels = list(found)
        for name, places in self.inputs.items():
            directions = np.vstack([directions, axes(places, len(features))])
            labels.extend(f"{features[j]} (the attribute {name} itself)" for j in places)
        free = span(directions, SAME_DIRECTION)
        reach = Ellipsoid.from_sample(self.data.x[rows] @ free.T, weight)
        return ProjectionMetric(
            free, features, directions=directions, labels=tuple(labels), reach=reach
        )


def permutation(sample: Sample, rng: np.random.Generator) -> Int[np.ndarray, " n"]:
    """Return whose attributes each person gets; all attributes of a person stay together.

    Without clusters anybody's; attributes that are the same throughout each cluster are exchanged
    between whole clusters, others within clusters.
    """
    n, cluster = len(sample.data), sample.data.cluster
    if cluster is None:
        return rng.permutation(n)
    _, first, unit = np.unique(cluster.astype(str), return_index=True, return_inverse=True)
    if all(
        np.array_equal(a.values, a.values[first[unit]], equal_nan=True) for a in sample.attributes
    ):
        return first[rng.permutation(len(first))[unit]]
    order = np.empty(n, dtype=np.int64)
    order[np.argsort(unit, kind="stable")] = np.lexsort((rng.random(n), unit))
    return order


SAME_SHARE = 0.5
"""Share of one in the other, audited or learned from, from which the two are not separate. Coarse
tables have many equal rows: a fifth of the people of Adult's test split are in its training split
as well, and are other people."""


def learn_metric(setup: Setup, model: Model, people: AuditData) -> ProjectionMetric:
    """Return the metric that is blind to what predicts the protected attributes of everyone."""
    known, session = setup.survey, setup.session
    if not known.attributes:
        raise InvalidData(
            "Without a fair metric (--metric), name protected attributes to learn one from."
        )
    read = known.sample
    if len(people) < known.n:  # the survey's sample is smaller than what is learned from
        seed = setup.settings.seed
        read = session.survey(setup.source, seed, MAX_SAMPLE, "drawing people").sample
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
    if not isinstance(metric, ProjectionMetric) or metric.sketch is None:
        return False
    # Either may be a part of the other: a metric learned from a sample of very many people.
    ours, theirs = known.sketch, metric.sketch
    return max(overlap(ours, theirs), overlap(theirs, ours)) > SAME_SHARE

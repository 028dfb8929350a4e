"""The remedy for any model: its predictions averaged over comparable people."""

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any, ClassVar, final

import narwhals.stable.v2 as nw
import numpy as np
import pyarrow as pa
from jaxtyping import Float, Int
from scipy.spatial import cKDTree
from scipy.special import expit, logit
from sklearn.utils.validation import check_is_fitted

from likewise.data.columns import Roles, complete_rows
from likewise.errors import InvalidData, InvalidModel, InvalidSettings, nearest
from likewise.loss import decide, probabilities
from likewise.methods.matching import CELL_SPACING, RankScale
from likewise.methods.reference_sample import CovariateCoding, plain
from likewise.models import takes_gaps
from likewise.models.adapt import TableModel, table_model
from likewise.run.executors import Inline
from likewise.run.journal import Memory
from likewise.session import Session
from likewise.settings import Settings
from likewise.setup import prepare
from likewise.training.sklearn_compat import LikeliestClass, joint_groups

ROWS = 200_000
"""Rows that are composed at a time."""

TRIED_ROWS = 20
"""People that are kept, to know how the model reads a table."""


@final
@dataclasses.dataclass(eq=False, repr=False)
class AveragedClassifier(LikeliestClass):
    r"""Averages a model's predictions over the remaining columns of comparable people.

    .. math:: \bar f(x) = (1 - w) f(x)
        + \frac{w}{G m} \sum_{g} \sum_{j \in N_g(x_L)} f(x_L, x_{jF}),

    over the m people of each group g who are nearest in the columns that may matter, L; F are the
    remaining columns. With ``weight`` w = 1 people equal in L get one number: no difference
    between groups is left but that in L, at the cost of all that F tells beyond it.

    Averages are less extreme than predictions, so fewer people would get the rarer decision. With
    two classes the log-odds are shifted so that as many reference people get each decision as
    before.

    Parameters
    ----------
    model
        Anything that `likewise.audit` takes and that gives probabilities of classes. It is not
        trained again.
    protected, may_matter
        Names of the protected attributes, whose groups count alike, and of the columns that may
        matter.
    weight
        How much the average counts, from 0 (the model itself) to 1.
    m
        Comparable people of each group.
    trust
        Whether a file of a model that can run code may.
    settings, encoder
        How tables are read and the model is asked, as for `likewise.audit`.

    Attributes
    ----------
    classes_, feature_names_in_
        Of the model: its classes, and the columns that it reads or that may matter.
    reference_
        The rows of the reference people: they are part of the fitted model.
    """

    # Run-time type checks stay off constructors: scikit-learn wants `fit` to complain.
    __no_type_check__: ClassVar[bool] = True

    model: Any = None
    _: dataclasses.KW_ONLY
    protected: Sequence[str] = ()
    may_matter: Sequence[str] = ()
    weight: float = 1.0
    m: int = 10
    trust: bool = False
    settings: Settings | None = None
    encoder: Any = None

    def fit(self, X: Any, y: Any = None) -> "AveragedClassifier":
        """Keep the reference people: a data frame with features and protected attributes."""
        if not 0 <= self.weight <= 1:
            raise InvalidSettings(f"weight is {self.weight}; it lies between 0 and 1.")
        if not self.m >= 1:
            raise InvalidSettings(f"m is {self.m}; it must be at least 1.")
        table = plain(nw.from_native(X, eager_only=True).to_arrow())
        with Session(Inline(), Memory()) as session:
            setup = prepare(
                session,
                self.model,
                table,
                self.settings,
                protected=list(self.protected),
                may_matter=list(self.may_matter),
                trust=self.trust,
                encoder=self.encoder,
            )
            wrapped, self.handle_ = setup.adapt(features=False)
            if wrapped.card.task == "regression" or wrapped.card.decisions:
                raise InvalidModel(
                    f"The {wrapped.card.kind} gives no probabilities of classes to be averaged. "
                    "scikit-learn's CalibratedClassifierCV makes some of decisions."
                )
            some = setup.survey.sample.in_columns()
            self.some_ = some.take(np.arange(min(TRIED_ROWS, len(some))))
            self.classes_ = np.array(setup.classes(wrapped))
            self.gaps_ = takes_gaps(setup.opened)
        read = list(dict.fromkeys([*self._asked.columns, *self.may_matter]))
        self.feature_names_in_, self.n_features_in_ = np.array(read, dtype=object), len(read)
        columns = setup.settings.columns
        if columns.drop_missing:
            table = table.filter(complete_rows(table, read, drop=True)[0])
        attributes = Roles(protected=self.protected, bins=columns.bins).attributes(table)
        groups = joint_groups(attributes, len(table))
        self.reference_, self.shift_ = columns_of(table, read), 0.0
        self.near_ = NearestPeople(columns_of(table, self.may_matter), groups)
        if len(self.classes_) == 2 and self.weight > 0:
            card = self._asked.model.card
            decided = decide(self._asked(self.reference_), card.output, card.threshold)
            positives = int((decided == 1).sum())
            if 0 < positives < len(decided):
                p = np.sort(self.predict_proba(self.reference_)[:, 1])[::-1]
                last, first = logit(np.clip(p[positives - 1 : positives + 1], 1e-12, 1 - 1e-12))
                self.shift_ = -float(last + first) / 2
        return self

    def predict_proba(self, X: Any) -> Float[np.ndarray, "n k"]:
        """Return the probability of each class, one row per person."""
        check_is_fitted(self)
        if isinstance(X, np.ndarray):
            X = pa.table({name: X[:, j] for j, name in enumerate(self.feature_names_in_)})
        table = plain(nw.from_native(X, eager_only=True).to_arrow())
        table = columns_of(table, self.feature_names_in_.tolist())
        rows = self._asked.prepare(table)
        mixed = probabilities(self._asked.outputs(rows), self._asked.model.card.output)
        if self.weight > 0:
            mixed = (1 - self.weight) * mixed + self.weight * self._average(table, rows)
        if self.shift_ == 0:
            return mixed
        p = expit(logit(mixed[:, 1]) + self.shift_)
        return np.column_stack([1 - p, p])

    def _average(self, table: pa.Table, rows: Any) -> Float[np.ndarray, "n k"]:
        """Return the mean prediction with the columns of comparable people: once per value of L."""
        kept = table.select(list(self.may_matter))
        codes = {name: kept[name].combine_chunks().dictionary_encode() for name in self.may_matter}
        values = {name: code.indices.fill_null(-1).to_numpy() for name, code in codes.items()}
        _, first, inverse = np.unique(
            joint_groups(values, len(table)), return_index=True, return_inverse=True
        )
        average = np.zeros((len(first), len(self.classes_)))
        size = max(1, ROWS // self.m)
        for start in range(0, len(first), size):
            who = first[start : start + size]
            for near in self.near_(kept.take(who), self.m):
                i, j = np.repeat(who, near.shape[1]), near.ravel()
                out = self._asked.substitute(rows, i, self._pool, j, list(self.may_matter))
                p = probabilities(out, self._asked.model.card.output).reshape(*near.shape, -1)
                average[start : start + size] += p.mean(axis=1) / len(self.near_.rows)
        return average[inverse]

    @functools.cached_property
    def _asked(self) -> TableModel:
        return table_model(self.handle_.open(), self.some_)

    @functools.cached_property
    def _pool(self) -> Any:
        return self._asked.prepare(self.reference_)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = getattr(self, "gaps_", False)
        return tags

    def __getstate__(self) -> dict[str, Any]:
        return {n: value for n, value in self.__dict__.items() if n not in ("_asked", "_pool")}


class NearestPeople:
    """Finds who is nearest in the columns that may matter, in each group of reference people.

    Distances are those of matched pairs, over ranks. Categories are equal, if enough people of the
    group have them.
    """

    def __init__(self, reference: pa.Table, groups: Int[np.ndarray, " n"]) -> None:
        self.coding = CovariateCoding.fit(reference.column_names, reference, reference)
        self.scale = RankScale.from_pool(self.coding.covariates(reference))
        points, self.cells = self._places(reference)
        located = np.column_stack([points, CELL_SPACING * self.cells])
        self.rows = [np.flatnonzero(groups == g) for g in range(int(groups.max()) + 1)]
        self.trees = [(cKDTree(located[rows]), cKDTree(points[rows])) for rows in self.rows]

    def __call__(self, people: pa.Table, m: int) -> list[Int[np.ndarray, "n m"]]:
        """Return the numbers of everyone's m nearest reference people of each group."""
        points, cells = self._places(people)
        here = np.column_stack([points, CELL_SPACING * cells])
        found = []
        for rows, (in_cells, anywhere) in zip(self.rows, self.trees, strict=True):
            wanted = [*range(1, min(m, len(rows)) + 1)]
            near = np.asarray(in_cells.query(here, k=wanted)[1])
            alone = (self.cells[rows][near] != cells[:, None]).any(axis=1)
            if alone.any():
                near[alone] = anywhere.query(points[alone], k=wanted)[1]
            found.append(rows[near])
        return found

    def _places(self, table: pa.Table) -> tuple[Float[np.ndarray, "n d"], Int[np.ndarray, " n"]]:
        rows = self.coding.covariates(table)
        # One position for all: the same jitter moves nobody against anybody.
        points = self.scale.points(rows, (0,), np.zeros(len(rows), dtype=np.int64))
        return points, self.scale.cells(rows)


def columns_of(table: pa.Table, names: Sequence[str]) -> pa.Table:
    """Return some columns of a table, or refuse those that are not there."""
    for name in names:
        if name not in table.column_names:
            hint = nearest(name, table.column_names)
            raise InvalidData(f"The table has no column {name!r}.{hint}")
    return table.select(list(names))

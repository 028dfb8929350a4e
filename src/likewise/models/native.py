"""Boosted trees that read tables themselves: categories and missing values as at training."""

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from likewise.errors import InvalidModel, need
from likewise.losses import Output
from likewise.models.scikit import Answer, features_of, looked_through, width_of

NO_CATEGORY = "nan"
"""What CatBoost is given for a missing category, as from ``astype(str)``: it takes no gaps."""


@dataclasses.dataclass(frozen=True)
class CutLevels:
    """Names of categories as XGBoost keeps them, and may have cut them.

    It counts the letters of a pandas data frame where it should count bytes: of names with
    letters beyond ASCII each is cut elsewhere, and as many bytes as are too many at the end are
    lost. The lengths are kept, so a name is known by its length and by what is left of it.

    Parameters
    ----------
    pieces
        The bytes that XGBoost takes for each name.
    """

    pieces: tuple[bytes, ...]

    def places(self, name: str, values: Iterable[str]) -> dict[str, int]:
        """Return which level of the column ``name`` each of some values is."""
        values = list(values)
        exact = {piece.decode(errors="replace"): j for j, piece in enumerate(self.pieces)}
        return {v: exact[v] if exact.keys() >= set(values) else self._of(name, v) for v in values}

    def _of(self, name: str, value: str) -> int:
        whole, start, fitting = b"".join(self.pieces).decode(errors="ignore"), 0, []
        for place, piece in enumerate(self.pieces):
            left = whole[start : start + len(piece)]
            start += len(piece)
            if left == value:
                return place
            if len(left) < len(piece) == len(value) and value.startswith(left):
                fitting.append(place)
        if len(fitting) == 1:
            return fitting[0]
        if not fitting:
            raise InvalidModel(f"The XGBoost model was not trained with {value!r} for {name!r}.")
        raise InvalidModel(
            "XGBoost keeps names of categories with letters beyond ASCII cut short, and of those "
            f"of {name!r} too little is left to know {value!r}. Train it with plain names."
        )


@dataclasses.dataclass(frozen=True, eq=False)
class TableAnswer:
    """What an estimator answers to a table whose columns have the types it was fitted on.

    Parameters
    ----------
    method
        From a pandas data frame to probabilities or values.
    columns
        Names of its inputs, in its order; empty if it was fitted without.
    categories
        Levels of its categorical inputs, in the order of the training data, by name; None where
        the library does not keep them.
    text
        Whether categories are given as text, gaps included (CatBoost).
    cut
        Levels that may be kept wrongly, by name; rows are then given as numbers, categories by
        their places (XGBoost).
    """

    method: Any
    columns: tuple[str, ...]
    categories: Mapping[str, tuple[Any, ...] | None]
    text: bool = False
    cut: Mapping[str, CutLevels] = dataclasses.field(default_factory=dict)

    def __call__(self, table: pa.Table) -> Any:
        """Return probabilities or values, one row a person."""
        rows = table.select(list(self.columns)) if self.columns else table
        if not self.columns:
            return self.method(np.column_stack([_floats(column) for column in rows.columns]))
        if self.cut:
            return self.method(np.column_stack([self._places(n, rows[n]) for n in self.columns]))
        pandas = need("pandas", "boosted", "A model that reads named columns")
        return self.method(
            pandas.DataFrame(
                {name: self._column(pandas, name, rows[name]) for name in self.columns}
            )
        )

    def _places(self, name: str, column: Any) -> Any:
        if name not in self.categories:
            return _floats(column)
        found, known = column.to_pylist(), self.categories[name] or ()
        levels = {value for value in found if value is not None}
        place = {value: j for j, value in enumerate(known)}
        if name in self.cut:
            place = self.cut[name].places(name, levels)
        elif not place.keys() >= levels:
            raise InvalidModel(f"The XGBoost model does not know all values of {name!r}.")
        return np.array([place.get(value, np.nan) for value in found], dtype=np.float64)

    def _column(self, pandas: Any, name: str, column: Any) -> Any:
        if pa.types.is_dictionary(column.type):
            column = column.cast(column.type.value_type)
        if name not in self.categories:
            return column.to_numpy() if pa.types.is_boolean(column.type) else _floats(column)
        if self.text:
            whole = pa.types.is_integer(column.type) and not column.null_count
            return column.to_pylist() if whole else _texts(column)
        known = list(self.categories[name] or ())
        if known and isinstance(known[0], str) and pa.types.is_primitive(column.type):
            column = column.cast(pa.large_string())  # a file may hold 1 where the model says '1'
        found = sorted(value for value in pc.unique(column).to_pylist() if value is not None)
        # What the model does with a level that it does not know is its own business.
        levels = known + [value for value in found if value not in known]
        return pandas.Categorical(column.to_pylist(), categories=levels)


@dataclasses.dataclass(frozen=True, eq=False)
class OnMatrix:
    """The same answer to plain rows of numbers."""

    answer: TableAnswer

    def __call__(self, x: Any) -> Any:
        """Return probabilities or values, one row a person."""
        names = self.answer.columns or tuple(f"x{j}" for j in range(x.shape[1]))
        return self.answer(pa.table({name: x[:, j] for j, name in enumerate(names)}))


@dataclasses.dataclass(frozen=True, eq=False)
class TableModel:
    """Boosted trees with what they say about their inputs and outputs."""

    kind: str
    answer: TableAnswer
    output: Output
    width: int | None = None
    classes: tuple[Any, ...] = ()


def table_answer(estimator: Any) -> TableAnswer | None:
    """Return how an estimator that takes gaps, or categories, reads a table; None if it does not.

    It is known by the library it is from; of scikit-learn's own, by the tags of its class.
    """
    library = type(estimator).__module__.partition(".")[0]
    if library in _LIBRARIES:
        return _LIBRARIES[library](estimator)
    if type(estimator).__name__.startswith("HistGradientBoosting"):
        return _hist(estimator)
    tags = getattr(estimator, "__sklearn_tags__", None)
    takes_gaps = tags is not None and tags().input_tags.allow_nan
    return _answer(estimator, {}) if takes_gaps else None


def _answer(estimator: Any, categories: Mapping[str, Any], text: bool = False) -> TableAnswer:
    return TableAnswer(Answer.of(estimator).method, features_of(estimator), categories, text)


def _xgboost(estimator: Any) -> TableAnswer | None:
    if not hasattr(estimator, "get_booster"):
        return None
    answer = Answer.of(estimator).method
    return xgboost_answer(answer, estimator.get_booster(), features_of(estimator))


def xgboost_answer(method: Any, booster: Any, columns: tuple[str, ...]) -> TableAnswer:
    """Return how an XGBoost model reads a table: with the categories that it keeps."""
    kept = _xgboost_categories(booster)
    text = {
        n: a.cast("binary").to_pylist()
        for n, a in kept.items()
        if a is not None and pa.types.is_string(a.type)
    }
    plain = b"".join(piece for pieces in text.values() for piece in pieces).isascii()
    cut = {} if plain else {name: CutLevels(tuple(pieces)) for name, pieces in text.items()}
    levels = {n: None if a is None or n in cut else tuple(a.to_pylist()) for n, a in kept.items()}
    return TableAnswer(method, columns, levels, cut=cut)


def _xgboost_categories(booster: Any) -> dict[str, Any]:
    """Return the levels of the categorical inputs of an XGBoost model, as it keeps them."""
    names, types = booster.feature_names or (), booster.feature_types or ()
    named = [name for name, kind in zip(names, types, strict=False) if kind == "c"]
    if not named or not hasattr(booster, "get_categories"):
        return dict.fromkeys(named)
    kept = dict(booster.get_categories(export_to_arrow=True).to_arrow() or ())
    return {name: kept.get(name) for name in named}


def _lightgbm(estimator: Any) -> TableAnswer | None:
    if not hasattr(estimator, "booster_"):
        return None
    return _answer(estimator, lightgbm_categories(estimator.booster_))


def lightgbm_categories(booster: Any) -> dict[str, tuple[Any, ...] | None]:
    """Return the levels of the categorical inputs of a LightGBM model, fitted on a data frame."""
    kept = booster.pandas_categorical or []
    text = booster.model_to_string(num_iteration=0)
    infos = text.partition("\nfeature_infos=")[2].partition("\n")[0].split(" ")
    ranges = zip(booster.feature_name(), infos, strict=False)
    named = [name for name, info in ranges if not info.startswith("[") and info != "none"]
    if not kept:
        return {}
    return {
        name: tuple(kept[j]) if len(named) == len(kept) else None for j, name in enumerate(named)
    }


def _catboost(estimator: Any) -> TableAnswer:
    names, places = features_of(estimator), estimator.get_cat_feature_indices()
    return _answer(estimator, {names[j]: None for j in places if names}, text=True)


def _hist(estimator: Any) -> TableAnswer:
    names, mask = features_of(estimator), estimator.is_categorical_
    if not names or mask is None:
        return _answer(estimator, {})
    named = [name for name, yes in zip(names, mask, strict=True) if yes]
    encoder = estimator._preprocessor.named_transformers_["encoder"]
    levels = [tuple(v for v in found.tolist() if v == v) for found in encoder.categories_]
    return _answer(estimator, dict(zip(named, levels, strict=True)))


_LIBRARIES = {"xgboost": _xgboost, "lightgbm": _lightgbm, "catboost": _catboost}


def takes_gaps(given: Any) -> bool:
    """Tell whether a model reads missing values itself."""
    from likewise.models.base import Opened

    inner = given.content if isinstance(given, Opened) else given
    if isinstance(inner, TableModel):
        return True
    inner, _ = looked_through(inner)
    fitted = width_of(inner) is not None if hasattr(inner, "predict") else False
    return fitted and (table_answer(inner) is not None or _holds_pipeline(inner))


def _holds_pipeline(estimator: Any) -> bool:
    """Tell whether a vote, a calibration or the like is around pipelines, which may fill gaps."""
    if hasattr(estimator, "steps"):
        return True
    parts = [getattr(estimator, name, None) for name in ("estimator", "regressor_")]
    parts += list(getattr(estimator, "estimators_", ()))
    return any(part is not None and _holds_pipeline(part) for part in parts)


def _floats(column: Any) -> Any:
    return np.asarray(column.cast(pa.float64()).to_numpy(), dtype=np.float64)


def _texts(column: Any) -> list[str]:
    return [NO_CATEGORY if value is None else str(value) for value in column.to_pylist()]

"""Scikit-learn's estimators: linear models and networks as layers, pipelines cut in two."""

import contextlib
import dataclasses
import functools
import importlib.util
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from scipy.special import expit

from likewise.errors import InvalidData, InvalidModel, in_short
from likewise.loss import Output, Outputs, Rows
from likewise.models.base import Model
from likewise.models.layers import Layer, from_layers, linear

_LINES = (  # and heirs of them, such as Lasso
    *("LogisticRegression", "LinearRegression", "Ridge", "RidgeCV"),
    *("ElasticNet", "ElasticNetCV", "LassoCV"),
)
_ACTIVATIONS = {"relu": "ReLU", "tanh": "Tanh", "logistic": "Sigmoid"}


def is_scikit(model: Any) -> bool:
    """Tell whether an object is made of scikit-learn's classes, without importing them."""
    return any(kind.__module__.partition(".")[0] == "sklearn" for kind in type(model).__mro__)


def convert(estimator: Any) -> Model | None:
    """Read a fitted estimator as layers; None if its kind is not known."""
    from sklearn import linear_model, neural_network

    lines: Any = tuple(getattr(linear_model, name) for name in _LINES)
    layers: list[Layer] = []
    if isinstance(estimator, lines):
        # Before scikit-learn 1.8 there were other readings of the same coefficients.
        if getattr(estimator, "multi_class", "auto") in ("auto", "deprecated"):
            layers = [linear(estimator.coef_, estimator.intercept_)]
    elif isinstance(estimator, neural_network.MLPClassifier | neural_network.MLPRegressor):
        # One for counts ends in the inverse of the log link, which is no layer.
        pairs = zip(estimator.coefs_, estimator.intercepts_, strict=True)
        for weight, bias in pairs if estimator.out_activation_ != "exp" else ():
            if layers and estimator.activation in _ACTIVATIONS:
                layers.append(Layer(_ACTIVATIONS[estimator.activation]))
            layers.append(linear(weight.T, bias))
    if not layers:
        return None
    output: Output = "logits" if hasattr(estimator, "predict_proba") else "values"
    classes, kind = classes_of(estimator), type(estimator).__name__
    return from_layers(layers, output=output, classes=classes, kind=kind)


def predict_method(estimator: Any) -> Any:
    """Return what gives the probabilities of a classifier, or the predictions of a regressor."""
    if hasattr(estimator, "predict_proba"):
        return estimator.predict_proba
    if not hasattr(estimator, "predict"):
        raise InvalidModel(
            f"A {type(estimator).__name__} predicts nothing. Give a fitted classifier or "
            "regressor, or a function that returns probabilities."
        )
    values = not hasattr(estimator, "classes_")
    return estimator.predict if values else functools.partial(decisions, estimator)


@dataclasses.dataclass(frozen=True, eq=False)
class TableAnswer:
    """What an estimator, trees or a function answer to columns of a table.

    The ``method`` takes a data frame, a matrix if it is not ``named``, or columns by name if it
    has ``by_column``. ``columns`` are the names of its inputs, in its order, if it has any;
    ``levels`` hold by categorical column its values in the order of the training data, None where
    nobody knows them. One that is ``native`` reads gaps and categories itself, and the levels are
    its own; ``text`` says that categories are given as text, gaps included. Of one that is
    ``free``, nobody knows what it reads; one with a ``pipeline`` inside may read anything. A
    pipeline in front of a model with gradients can be cut into ``steps``.
    """

    method: Any
    columns: tuple[str, ...] = ()
    levels: Mapping[str, Sequence[Any] | None] = dataclasses.field(default_factory=dict)
    native: bool = False
    text: bool = False
    free: bool = False
    pipeline: bool = False
    steps: "Steps | None" = None

    @classmethod
    def from_estimator(cls, estimator: Any) -> "TableAnswer":
        """Return what a fitted estimator answers, given the names that it was fitted with."""
        method, names = predict_method(estimator), features_of(estimator)
        return cls(method, names, pipeline=holds_pipeline(estimator))

    @property
    def named(self) -> bool:
        """Whether it takes columns with their names."""
        return bool(self.columns) or self.free

    def prepare(self, table: pa.Table) -> dict[str, Any]:
        """Return the columns as arrays of pandas' types, or Arrow's without pandas."""
        return {name: self._prepared(name, table[name]) for name in table.column_names}

    def _prepared(self, name: str, column: Any) -> Any:
        if pa.types.is_dictionary(column.type):
            column = column.cast(column.type.value_type)
        if name in self.levels and self.text:
            values = column.to_pylist()
            if column.null_count or not pa.types.is_integer(column.type):
                values = [NO_CATEGORY if v is None else str(v) for v in values]
            return np.array(values, dtype=object)
        if not installed("pandas"):
            return column.combine_chunks()
        if name in self.levels:
            return _categorical(column, list(self.levels[name] or ()))
        series = column.to_pandas()
        if series.dtype == object:  # imputers look for nan, not for None
            series = series.where(series.notna(), np.nan)
        return series.to_numpy() if isinstance(series.dtype, np.dtype) else series.array

    def ask(self, columns: Mapping[str, Any]) -> Any:
        """Return the answer to rows given by such columns."""
        return self.method(self.rows(columns))

    def rows(self, columns: Mapping[str, Any]) -> Any:
        """Give columns the form that the method takes."""
        if not self.named:
            arrays = [np.asarray(column) for column in columns.values()]
            text = any(array.dtype.kind not in "biuf" for array in arrays)
            return np.column_stack([a.astype(object) for a in arrays] if text else arrays)
        if hasattr(self.method, "by_column"):
            return columns
        if (frame := _frame_class()) is None:
            raise InvalidModel(
                "The model reads named columns, which needs pandas or polars: pip install pandas."
            )
        return frame(dict(columns))

    def matrix(self, x: Rows) -> Any:
        """Return the answer to a plain matrix; most remark on one without their names."""
        by_column = hasattr(self.method, "by_column")
        if len(self.columns) != x.shape[1] or not (by_column or _frame_class()):
            return self.method(x)
        return self.ask({name: x[:, j] for j, name in enumerate(self.columns)})


NO_CATEGORY = "nan"
"""What is given for a missing category as text, as from ``astype(str)``."""


def _categorical(column: Any, levels: list[Any]) -> Any:
    import pandas

    if levels and isinstance(levels[0], str) and pa.types.is_primitive(column.type):
        column = column.cast(pa.large_string())  # a file may hold 1 where the model says '1'
    # What the model does with a level that it does not know is its own business.
    others = sorted(set(pc.unique(column.drop_null()).to_pylist()) - set(levels))
    return pandas.Categorical(column.to_pandas(), categories=levels + others)


def _frame_class() -> Any:
    """Return the data frames of pandas or polars, whichever is installed."""
    for library in ("pandas", "polars"):
        if installed(library):
            return importlib.import_module(library).DataFrame
    return None


def installed(library: str) -> bool:
    """Tell whether a library can be imported, without importing it."""
    try:
        return importlib.util.find_spec(library) is not None
    except ImportError:  # an import hook can refuse what is there
        return False


def decisions(estimator: Any, x: Any) -> Outputs:
    """Return the decisions of a classifier without probabilities, as probabilities of 0 and 1.

    Of two classes the score is kept, as if it were log odds: a search sees where it leads.
    """
    classes = estimator.classes_
    if len(classes) == 2 and hasattr(estimator, "decision_function"):
        score = np.asarray(estimator.decision_function(x), dtype=np.float64)
        return np.column_stack([expit(-score), expit(score)])
    return (np.asarray(estimator.predict(x))[:, None] == classes).astype(np.float64)


def unwrap(estimator: Any) -> tuple[Any, float | None]:
    """Return the estimator that a search, a threshold or a single step is around, and the limit.

    It is the probability of class 1 above which that is decided; None where it is one half.
    """
    threshold = None
    while True:
        if hasattr(estimator, "best_estimator_"):
            estimator = estimator.best_estimator_
        elif is_pipeline(estimator) and len(estimator.steps) == 1:
            estimator = _model_of(estimator.steps[0][1])
        elif type(estimator).__name__ in _THRESHOLDED and is_scikit(estimator):
            fitted(estimator)
            threshold = _threshold(estimator) if threshold is None else threshold
            estimator = estimator.estimator_
        else:
            return estimator, threshold


_THRESHOLDED = ("TunedThresholdClassifierCV", "FixedThresholdClassifier")


def _threshold(estimator: Any) -> float:
    inner = estimator.estimator_
    scores = not hasattr(inner, "predict_proba")
    if estimator.response_method == "decision_function" and not scores:
        raise InvalidModel(
            f"The {type(estimator).__name__} decides by scores, though its model has "
            "probabilities. Fit it with response_method='predict_proba'."
        )
    tuned = hasattr(estimator, "best_threshold_")
    limit = estimator.best_threshold_ if tuned else estimator.threshold
    if limit == "auto":
        return 0.5
    limit = float(expit(limit) if scores else limit)
    scorer = getattr(estimator, "_curve_scorer", None)
    label = estimator.pos_label if scorer is None else scorer._get_pos_label()
    if label is not None and label == estimator.classes_[0]:
        limit = 1 - limit
    return float(np.nextafter(limit, 0))  # scikit-learn decides for class 1 at the threshold, too


def fitted(estimator: Any) -> None:
    """Refuse an estimator that has not been fitted."""
    from sklearn.exceptions import NotFittedError
    from sklearn.utils.validation import check_is_fitted

    try:
        check_is_fitted(estimator)
    except NotFittedError:
        raise InvalidModel(f"The {type(estimator).__name__} has not been fitted.") from None


def classes_of(estimator: Any) -> tuple[Any, ...]:
    """Return the label values of a classifier, as Python values."""
    classes = getattr(estimator, "classes_", ())
    return tuple(classes.tolist() if isinstance(classes, np.ndarray) else classes)


def features_of(estimator: Any) -> tuple[str, ...]:
    """Return the names of the columns an estimator was fitted with, if it had names."""
    names = getattr(estimator, "feature_names_in_", None)
    if names is None and type(estimator).__module__.startswith("catboost"):
        names = estimator.feature_names_
        numbered = names == [str(j) for j in range(len(names))]
        names = () if numbered else names
    return tuple(str(name) for name in (() if names is None else names))


def width_of(estimator: Any) -> int | None:
    """Return how many inputs an estimator was fitted with, if it says."""
    if type(estimator).__module__.startswith("catboost"):
        return len(estimator.feature_names_)  # what it calls n_features_in_ is lost in a file
    width = getattr(estimator, "n_features_in_", None)
    return None if width is None else int(width)


def is_pipeline(model: Any) -> bool:
    """Tell whether an object is a scikit-learn pipeline (or an heir of it)."""
    return is_scikit(model) and hasattr(model, "steps")


def holds_pipeline(estimator: Any) -> bool:
    """Tell whether a vote, a calibration or the like is around pipelines, which may fill gaps."""
    parts = [getattr(estimator, name, None) for name in ("estimator", "regressor_")]
    parts += list(getattr(estimator, "estimators_", ()))
    inside = any(part is not None and holds_pipeline(part) for part in parts)
    return inside or hasattr(estimator, "steps")


def cut(pipeline: Any) -> tuple[Any, Any]:
    """Cut a fitted pipeline of several steps in front of its last."""
    steps = list(pipeline.steps)
    while is_pipeline(steps[-1][1]):  # a pipeline that ends in a pipeline is one
        name, inner = steps.pop()
        steps += [(f"{name}-{step}", part) for step, part in inner.steps]
    last = _model_of(steps[-1][1])
    fitted(last)
    return type(pipeline)(steps)[:-1], last


def _model_of(last: Any) -> Any:
    if last is None or last == "passthrough":
        raise InvalidModel("The pipeline's last step is no model.")
    return last


@dataclasses.dataclass(frozen=True, eq=False)
class Steps:
    """A pipeline that is cut in front of its last step."""

    steps: Any
    last: Any

    def __call__(self, rows: Any) -> Any:
        """Return the last step's outputs."""
        return self.last(self.inputs(rows))

    def inputs(self, rows: Any) -> Rows:
        """Return what the last step is given, as a matrix of numbers."""
        try:
            out = self.steps.transform(rows)
        except Exception as error:  # anyone may write a transformer
            raise InvalidData(f"The pipeline cannot read the data: {in_short(error)}.") from None
        try:
            return np.asarray(out.toarray() if hasattr(out, "toarray") else out).astype(np.float64)
        except (TypeError, ValueError) as error:
            raise InvalidModel(
                "What the pipeline's last step is given cannot be read as numbers "
                f"({in_short(error)})."
            ) from None

    def names(self, width: int) -> tuple[str, ...]:
        """Return the names of what the last step is given, or numbers."""
        with contextlib.suppress(Exception):  # not every transformer can say
            names = tuple(str(name) for name in self.steps.get_feature_names_out())
            if len(names) == width:
                return names
        return tuple(f"x{j}" for j in range(width))

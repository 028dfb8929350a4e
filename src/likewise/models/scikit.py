"""Scikit-learn's linear models and networks, read exactly as layers, in float64."""

import dataclasses
import importlib.util
from typing import Any

import numpy as np
from jaxtyping import Float
from scipy.special import expit

from likewise.errors import InvalidModel
from likewise.losses import Output
from likewise.models.layered import Chain, LayeredModel, from_chain
from likewise.models.layers import Layer, linear

_ACTIVATIONS = {"relu": "ReLU", "tanh": "Tanh", "logistic": "Sigmoid"}


def is_scikit(model: Any) -> bool:
    """Tell whether an object is made of scikit-learn's classes, without importing them."""
    return any(kind.__module__.partition(".")[0] == "sklearn" for kind in type(model).__mro__)


def convert(estimator: Any) -> LayeredModel | None:
    """Read a fitted estimator as layers, or return None if its kind is not known."""
    from sklearn import linear_model, neural_network

    linear_regressors = (
        linear_model.LinearRegression,
        linear_model.Ridge,
        linear_model.RidgeCV,
        linear_model.ElasticNet,  # and Lasso, which is one
        linear_model.ElasticNetCV,
        linear_model.LassoCV,
    )
    output: Output = "logits"
    if isinstance(estimator, linear_model.LogisticRegression):
        fitted(estimator)
        layers = _logistic(estimator)
    elif isinstance(estimator, neural_network.MLPClassifier):
        fitted(estimator)
        layers = _network(estimator)
        if estimator.out_activation_ == "logistic" and estimator.n_outputs_ > 1:
            raise InvalidModel(
                "The MLPClassifier gives several labels at once; an audit needs one."
            )
    elif isinstance(estimator, (*linear_regressors, neural_network.MLPRegressor)):
        fitted(estimator)
        output = "values"
        layers = _network(estimator) if hasattr(estimator, "coefs_") else [_line(estimator)]
    else:
        return None
    model = from_chain(
        Chain(tuple(layers)),
        output=output,
        classes=classes_of(estimator),
        kind=type(estimator).__name__,
    )
    card = dataclasses.replace(model.card, features=features_of(estimator))
    return dataclasses.replace(model, card=card, reference=Answer.of(estimator))


@dataclasses.dataclass(frozen=True)
class Answer:
    """An estimator's own answer to a plain matrix.

    Parameters
    ----------
    method
        Its ``predict_proba`` or ``predict``.
    features
        The column names it was fitted with: it would remark on every matrix without them.
    """

    method: Any
    features: tuple[str, ...] = ()

    @classmethod
    def of(cls, estimator: Any) -> "Answer":
        """Take the probabilities of a classifier, the predictions of a regressor."""
        method = getattr(estimator, "predict_proba", None)
        if method is None and not hasattr(estimator, "predict"):
            raise InvalidModel(
                f"A {type(estimator).__name__} predicts nothing. Give a fitted classifier or "
                "regressor, or a function that returns probabilities."
            )
        if method is None:
            method = Decisions(estimator) if hasattr(estimator, "classes_") else estimator.predict
        return cls(method, features_of(estimator))

    def __call__(self, x: Float[np.ndarray, "n d"]) -> Any:
        """Return its probabilities, or its predictions."""
        return self.method(named(x, self.features))


@dataclasses.dataclass(frozen=True)
class Decisions:
    """The decisions of a classifier without probabilities, as probabilities of 0 and 1.

    Of two classes the score is kept, as if it were log odds: a search sees where it leads.
    """

    estimator: Any

    def __call__(self, x: Any) -> Float[np.ndarray, "n k"]:
        """Return one row a person, one column a class."""
        classes = self.estimator.classes_
        if len(classes) == 2 and hasattr(self.estimator, "decision_function"):
            score = np.asarray(self.estimator.decision_function(x), dtype=np.float64)
            return np.column_stack([expit(-score), expit(score)])
        return (np.asarray(self.estimator.predict(x))[:, None] == classes).astype(np.float64)


def looked_through(estimator: Any) -> tuple[Any, float | None]:
    """Return the estimator that a finished search or a threshold was put around, and the latter.

    It is the probability of class 1 above which that is decided; None where it is one half.
    """
    threshold = None
    while True:
        if hasattr(estimator, "best_estimator_"):
            estimator = estimator.best_estimator_
        elif type(estimator).__name__ in _THRESHOLDED and is_scikit(estimator):
            fitted(estimator)
            threshold = _threshold(estimator) if threshold is None else threshold
            estimator = estimator.estimator_
        else:
            return estimator, threshold


_THRESHOLDED = ("TunedThresholdClassifierCV", "FixedThresholdClassifier")


def _threshold(estimator: Any) -> float:
    inner, how = estimator.estimator_, estimator.response_method
    scores = how == "decision_function" or not hasattr(inner, "predict_proba")
    if scores and hasattr(inner, "predict_proba"):
        raise InvalidModel(
            f"The {type(estimator).__name__} decides by scores, though its model has "
            "probabilities. Fit it with response_method='predict_proba'."
        )
    limit = getattr(estimator, "best_threshold_", None)
    if limit is None:
        limit = estimator.threshold
    if limit == "auto":
        return 0.5
    limit = float(expit(limit) if scores else limit)
    scorer = getattr(estimator, "_curve_scorer", None)
    label = estimator.pos_label if scorer is None else scorer._get_pos_label()
    if label is not None and label == estimator.classes_[0]:
        limit = 1 - limit
    return float(np.nextafter(limit, 0))  # scikit-learn decides for class 1 at the threshold, too


def named(x: Float[np.ndarray, "n d"], features: tuple[str, ...]) -> Any:
    """Give a matrix column names, if there are any and a data frame library is installed."""
    if len(features) == x.shape[1]:
        for library in ("pandas", "polars"):
            if importlib.util.find_spec(library) is not None:
                frame = importlib.import_module(library).DataFrame
                names = {"columns" if library == "pandas" else "schema": list(features)}
                return frame(x, **names)
    return x


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


def _line(estimator: Any) -> Layer:
    if np.ndim(estimator.coef_) == 2 and len(estimator.coef_) > 1:
        raise InvalidModel(
            f"The {type(estimator).__name__} predicts {len(estimator.coef_)} numbers a person; "
            "an audit needs one."
        )
    return linear(estimator.coef_, estimator.intercept_)


def _logistic(estimator: Any) -> list[Layer]:
    # scikit-learn before 1.8 had two more readings of the same coefficients.
    kind = getattr(estimator, "multi_class", "auto")
    scores = linear(estimator.coef_, estimator.intercept_)
    if len(estimator.classes_) == 2:
        if kind == "multinomial":  # softmax of (-d, d)
            return [linear(2 * estimator.coef_, 2 * estimator.intercept_)]
        return [scores]
    one_versus_rest = kind == "ovr" or (kind != "multinomial" and estimator.solver == "liblinear")
    # Probabilities are then sigmoids divided by their sum: the softmax of log-sigmoids.
    return [scores, Layer("LogSigmoid")] if one_versus_rest else [scores]


def _network(estimator: Any) -> list[Layer]:
    if estimator.n_outputs_ > 1 and not hasattr(estimator, "classes_"):
        raise InvalidModel(
            f"The MLPRegressor predicts {estimator.n_outputs_} numbers a person; an audit needs "
            "one."
        )
    layers: list[Layer] = []
    for weight, bias in zip(estimator.coefs_, estimator.intercepts_, strict=True):
        if layers and estimator.activation in _ACTIVATIONS:
            layers.append(Layer(_ACTIVATIONS[estimator.activation]))
        layers.append(linear(weight.T, bias))
    if estimator.out_activation_ == "exp":  # the inverse of the log link, for counts
        layers.append(Layer("Exponential"))
    return layers

"""Boosted trees: estimators, and the native files of XGBoost, LightGBM and CatBoost.

They read tables themselves, categories and missing values as at training. Opening a file runs no
code, but the libraries do not check all that they read: a forged file can bring the process down.
Unless it is trusted, it is opened in a process of its own (`likewise.models.isolated_model`).
"""

import functools
import json
from collections.abc import Callable
from typing import Any

import pyarrow as pa

from likewise.errors import InvalidFile, InvalidModel, MissingExtra, import_optional, in_short
from likewise.loss import Output
from likewise.models.base import Model
from likewise.models.black_box import from_answer
from likewise.models.sklearn import TableAnswer, features_of, predict_method


def table_answer(estimator: Any) -> TableAnswer | None:
    """Return how an estimator that takes gaps, or categories, reads a table; None if it does not.

    It is known by the library it is from; of scikit-learn's own, by the tags of its class.
    """
    names, categories, text = features_of(estimator), {}, False
    if hasattr(estimator, "get_booster"):
        categories = _xgboost_categories(estimator.get_booster())
    elif hasattr(estimator, "booster_"):
        categories = _lightgbm_categories(estimator.booster_)
    elif hasattr(estimator, "get_cat_feature_indices"):
        text = True
        categories = {names[j]: None for j in estimator.get_cat_feature_indices() if names}
    elif type(estimator).__name__.startswith("HistGradientBoosting"):
        categories = _hist_categories(estimator, names)
    else:
        tags = getattr(estimator, "__sklearn_tags__", None)
        if tags is None or not tags().input_tags.allow_nan:
            return None
    return TableAnswer(predict_method(estimator), names, categories, native=True, text=text)


def _xgboost_categories(booster: Any) -> dict[str, Any]:
    """Return the levels of the categorical inputs of an XGBoost model, as it keeps them."""
    names, types = booster.feature_names or (), booster.feature_types or ()
    named = [name for name, kind in zip(names, types, strict=False) if kind == "c"]
    if not named or not hasattr(booster, "get_categories"):
        return dict.fromkeys(named)
    kept = dict(booster.get_categories(export_to_arrow=True).to_arrow() or ())
    for name, levels in kept.items():
        text = levels is not None and pa.types.is_string(levels.type)
        if text and not b"".join(levels.cast("binary").to_pylist()).isascii():
            # It counts letters of a pandas data frame where it should count bytes.
            raise InvalidModel(
                f"XGBoost keeps names of categories with letters beyond ASCII cut short, as of "
                f"{name!r}. Train it with plain names, or with an encoder in front of it."
            )
    return {n: tuple(kept[n].to_pylist()) if kept.get(n) is not None else None for n in named}


def _lightgbm_categories(booster: Any) -> dict[str, Any]:
    """Return the levels of the categorical inputs of a LightGBM model, fitted on a data frame."""
    kept = booster.pandas_categorical or []
    text = booster.model_to_string(num_iteration=0)
    infos = text.partition("\nfeature_infos=")[2].partition("\n")[0].split(" ")
    ranges = zip(booster.feature_name(), infos, strict=False)
    named = [name for name, info in ranges if not info.startswith("[") and info != "none"]
    sure = len(named) == len(kept)
    return {n: tuple(kept[j]) if sure else None for j, n in enumerate(named)} if kept else {}


def _hist_categories(estimator: Any, names: tuple[str, ...]) -> dict[str, Any]:
    mask = estimator.is_categorical_
    if not names or mask is None:
        return {}
    named = [name for name, yes in zip(names, mask, strict=True) if yes]
    encoder = estimator._preprocessor.named_transformers_["encoder"]
    levels = [tuple(v for v in found.tolist() if v == v) for found in encoder.categories_]
    return dict(zip(named, levels, strict=True))


_PROBABILITIES = (
    *("binary:logistic", "multi:softprob"),
    *("binary", "multiclass", "multiclassova"),
    *("Logloss", "CrossEntropy", "MultiClass", "MultiClassOneVsAll"),
)
_VALUES = (
    *("reg:", "count:"),
    *("regression", "huber", "fair", "poisson", "quantile", "mape", "gamma"),
    *("RMSE", "MAE", "Quantile", "Poisson", "Huber", "MAPE", "Tweedie"),
)


def _model(answer: TableAnswer, objective: str, width: int, classes: Any = ()) -> Model:
    output: Output = "probabilities" if objective in _PROBABILITIES else "values"
    if output == "values" and not objective.startswith(_VALUES):
        raise InvalidFile(
            f"it was trained for {objective[:40]!r}, which gives neither probabilities nor a "
            "predicted number"
        )
    return from_answer("boosted trees", answer, output, width, tuple(classes))


def _xgboost_answer(booster: Any, x: Any) -> Any:
    import xgboost

    return booster.predict(xgboost.DMatrix(x, enable_categorical=True), validate_features=False)


def _read_xgboost(content: bytes, source: str) -> Model:
    """Open what XGBoost's ``save_model`` wrote (JSON or UBJ)."""
    xgboost = import_optional("xgboost", "boosted", repr(source))
    booster = xgboost.Booster(model_file=bytearray(content))
    objective = json.loads(booster.save_config())["learner"]["objective"]["name"]
    ask = functools.partial(_xgboost_answer, booster)
    names, categories = tuple(booster.feature_names or ()), _xgboost_categories(booster)
    answer = TableAnswer(ask, names, categories, native=True)
    return _model(answer, objective, booster.num_features())


def _read_lightgbm(content: bytes, source: str) -> Model:
    """Open what LightGBM's ``save_model`` wrote (text)."""
    lightgbm = import_optional("lightgbm", "boosted", repr(source))
    text = content.decode()
    # LightGBM ends the process when it is given half a file.
    if not text.startswith("tree\n") or "\nend of parameters" not in text:
        raise InvalidFile("it does not begin or end as one")
    booster = lightgbm.Booster(model_str=text)
    objective = text.partition("\nobjective=")[2].split(maxsplit=1)[0]
    names = tuple(booster.feature_name())
    if names == tuple(f"Column_{j}" for j in range(len(names))):
        names = ()  # it was trained without
    answer = TableAnswer(booster.predict, names, _lightgbm_categories(booster), native=True)
    return _model(answer, objective, booster.num_feature())


def _read_catboost(content: bytes, source: str) -> Model:
    """Open what CatBoost's ``save_model`` wrote (cbm)."""
    catboost = import_optional("catboost", "boosted", repr(source))
    model = catboost.CatBoost()
    model.load_model(blob=content)
    objective = str(model.get_all_params().get("loss_function", "")).partition(":")[0]
    names: tuple[str, ...] = tuple(model.feature_names_)
    numbered = names == tuple(str(j) for j in range(len(names)))
    places = model.get_cat_feature_indices()
    if numbered and places:
        raise InvalidFile("it reads categories and does not know its columns by name")
    decides = objective in _PROBABILITIES
    kind = "Probability" if decides else "RawFormulaVal"
    ask = functools.partial(model.predict, prediction_type=kind)
    categories = {names[j]: None for j in places}
    answer = TableAnswer(ask, () if numbered else names, categories, native=True, text=True)
    return _model(answer, objective, len(names), model.classes_.tolist() if decides else ())


def from_booster(given: Any) -> Model | None:
    """Read a booster that is no scikit-learn estimator as its own file would be."""
    match type(given).__module__.partition(".")[0], type(given).__name__:
        case "xgboost", "Booster":
            return _read_xgboost(bytes(given.save_raw("ubj")), "the Booster")
        case "lightgbm", "Booster":
            return _read_lightgbm(given.model_to_string().encode(), "the Booster")
        case "catboost", "CatBoost":
            return _read_catboost(given._serialize_model(), "the CatBoost model")
    return None


_READERS: dict[str, tuple[str, Callable[[bytes, str], Model]]] = {
    **dict.fromkeys((".ubj", ".xgb", ".json"), ("XGBoost", _read_xgboost)),
    **dict.fromkeys((".lgb", ".txt"), ("LightGBM", _read_lightgbm)),
    ".cbm": ("CatBoost", _read_catboost),
}
SUFFIXES = tuple(_READERS)


def read_bytes(content: bytes, source: str, suffix: str) -> Model:
    """Open a native file, here: a damaged one can bring the process down."""
    kind, read = _READERS[suffix]
    try:
        return read(content, source)
    except (MissingExtra, InvalidModel):
        raise
    except Exception as error:
        why = str(error) if isinstance(error, InvalidFile) else in_short(error)
        raise InvalidFile(f"{source!r} is damaged or no {kind} model ({why}).") from None

"""Boosted trees in the native files of XGBoost, LightGBM and CatBoost.

Opening one runs no code, but the libraries do not check all that they read: a forged file can bring
the process down. So a file is tried out in a process of its own first, within limits.
"""

import dataclasses
import hashlib
import json
from collections.abc import Callable
from typing import Any

from likewise.errors import InvalidFile, MissingExtra, in_short, need
from likewise.losses import Output
from likewise.models.base import Opened
from likewise.models.native import (
    TableAnswer,
    TableModel,
    lightgbm_categories,
    xgboost_answer,
)

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


@dataclasses.dataclass(frozen=True, eq=False)
class XgboostRows:
    """An XGBoost model as a function of rows or data frames."""

    booster: Any

    def __call__(self, x: Any) -> Any:
        """Return probabilities or values."""
        import xgboost

        rows = xgboost.DMatrix(x, enable_categorical=True)
        return self.booster.predict(rows, validate_features=False)


def read_xgboost(content: bytes, source: str) -> Opened:
    """Open what XGBoost's ``save_model`` wrote (JSON or UBJ)."""
    xgboost = need("xgboost", "boosted", repr(source))
    booster = xgboost.Booster(model_file=bytearray(content))
    objective = json.loads(booster.save_config())["learner"]["objective"]["name"]
    names = tuple(booster.feature_names or ())
    answer = xgboost_answer(XgboostRows(booster), booster, names)
    return _opened(content, source, answer, objective, booster.num_features())


def read_lightgbm(content: bytes, source: str) -> Opened:
    """Open what LightGBM's ``save_model`` wrote (text)."""
    lightgbm = need("lightgbm", "boosted", repr(source))
    text = content.decode()
    # LightGBM ends the process when it is given half a file.
    if not text.startswith("tree\n") or "\nend of parameters" not in text:
        raise InvalidFile("it does not begin or end as one")
    booster = lightgbm.Booster(model_str=text)
    objective = text.partition("\nobjective=")[2].split(maxsplit=1)[0]
    names = tuple(booster.feature_name())
    if names == tuple(f"Column_{j}" for j in range(len(names))):
        names = ()  # it was trained without
    answer = TableAnswer(booster.predict, names, lightgbm_categories(booster))
    return _opened(content, source, answer, objective, booster.num_feature())


def read_catboost(content: bytes, source: str) -> Opened:
    """Open what CatBoost's ``save_model`` wrote (cbm)."""
    catboost = need("catboost", "boosted", repr(source))
    model = catboost.CatBoost()
    model.load_model(blob=content)
    objective = str(model.get_all_params().get("loss_function", "")).partition(":")[0]
    names: tuple[str, ...] = tuple(model.feature_names_)
    numbered = names == tuple(str(j) for j in range(len(names)))
    places = model.get_cat_feature_indices()
    if numbered and places:
        raise InvalidFile("it reads categories and does not know its columns by name")
    answer = TableAnswer(
        CatboostRows(model, objective in _PROBABILITIES),
        () if numbered else names,
        {names[j]: None for j in places},
        text=True,
    )
    classes = tuple(model.classes_.tolist()) if objective in _PROBABILITIES else ()
    return _opened(content, source, answer, objective, len(names), classes)


@dataclasses.dataclass(frozen=True, eq=False)
class CatboostRows:
    """A CatBoost model as a function of rows or data frames."""

    model: Any
    classes: bool

    def __call__(self, x: Any) -> Any:
        """Return probabilities or values."""
        kind = "Probability" if self.classes else "RawFormulaVal"
        return self.model.predict(x, prediction_type=kind)


def _opened(
    content: bytes,
    source: str,
    answer: TableAnswer,
    objective: str,
    width: int,
    classes: tuple[Any, ...] = (),
) -> Opened:
    output: Output
    if objective in _PROBABILITIES:
        output = "probabilities"
    elif objective.startswith(_VALUES):
        output = "values"
    else:
        raise InvalidFile(
            f"it was trained for {objective[:40]!r}, which gives neither probabilities nor a "
            "predicted number"
        )
    found = TableModel("boosted trees", answer, output, width, classes)
    return Opened(found, fingerprint=hashlib.sha256(content).hexdigest())


_READERS: dict[str, tuple[str, Callable[[bytes, str], Opened]]] = {
    **dict.fromkeys((".ubj", ".xgb", ".json"), ("XGBoost", read_xgboost)),
    **dict.fromkeys((".lgb", ".txt"), ("LightGBM", read_lightgbm)),
    ".cbm": ("CatBoost", read_catboost),
}
SUFFIXES = tuple(_READERS)


def read_bytes(
    content: bytes, source: str, suffix: str, *, tried: bool = False, strange: bool = False
) -> Opened:
    """Open a native file, after a trial unless that was done.

    ``strange`` looks whether its trees are trees, too: that is part of the trial.
    """
    from likewise.models.trial import Refused, try_out

    kind, read = _READERS[suffix]
    library = {"XGBoost": "xgboost", "LightGBM": "lightgbm", "CatBoost": "catboost"}[kind]
    need(library, "boosted", repr(source))
    try:
        if not tried:
            try_out(content, source)
        opened = read(content, source)
        if strange and kind != "CatBoost":
            from likewise.models.tree_shape import check_lightgbm, check_xgboost

            (check_xgboost if kind == "XGBoost" else check_lightgbm)(content)
        return opened
    except (MissingExtra, Refused):
        raise
    except Exception as error:
        why = str(error) if isinstance(error, InvalidFile) else in_short(error)
        raise InvalidFile(f"{source!r} is damaged or no {kind} model ({why}).") from None

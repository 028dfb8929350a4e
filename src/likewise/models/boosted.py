"""Boosted trees in the native files of XGBoost and LightGBM.

Opening one runs no code, but neither library checks what it reads: a damaged or forged file can
bring the process down. So they need trust, like trees in skops files.
"""

import dataclasses
import hashlib
import json
from typing import Any

from jaxtyping import Float
from numpy import ndarray

from likewise.errors import InvalidFile, in_short
from likewise.extras import need
from likewise.losses import Output
from likewise.models.black_box import from_callable
from likewise.models.opened import Opened

_PROBABILITIES = ("binary:logistic", "multi:softprob", "binary", "multiclass", "multiclassova")
_VALUES = ("reg:", "count:", "regression", "huber", "fair", "poisson", "quantile", "mape", "gamma")


@dataclasses.dataclass(frozen=True, eq=False)
class XgboostRows:
    """A booster as a function of plain rows; names are compared elsewhere."""

    booster: Any

    def __call__(self, x: Float[ndarray, "n d"]) -> Any:
        """Return probabilities or values."""
        return self.booster.inplace_predict(x, validate_features=False)


def read_xgboost(content: bytes, source: str) -> Opened:
    """Open what XGBoost's ``save_model`` wrote (JSON or UBJ)."""
    xgboost = need("xgboost", "boosted", repr(source))
    try:
        booster = xgboost.Booster(model_file=bytearray(content))
        objective = json.loads(booster.save_config())["learner"]["objective"]["name"]
    except Exception as error:
        raise _damaged(source, "XGBoost", error) from None
    names = tuple(booster.feature_names or ())
    return _opened(content, source, XgboostRows(booster), objective, booster.num_features(), names)


def read_lightgbm(content: bytes, source: str) -> Opened:
    """Open what LightGBM's ``save_model`` wrote (text)."""
    lightgbm = need("lightgbm", "boosted", repr(source))
    try:
        text = content.decode()
        # LightGBM ends the process when it is given half a file.
        if not text.startswith("tree\n") or "\nend of parameters" not in text:
            raise InvalidFile("it does not begin or end as one")
        booster = lightgbm.Booster(model_str=text)
        objective = text.partition("\nobjective=")[2].split(maxsplit=1)[0]
    except Exception as error:
        raise _damaged(source, "LightGBM", error) from None
    names = tuple(booster.feature_name())
    if names == tuple(f"Column_{j}" for j in range(len(names))):
        names = ()  # it was trained without
    return _opened(content, source, booster.predict, objective, booster.num_feature(), names)


def _opened(
    content: bytes, source: str, predict: Any, objective: str, width: int, names: tuple[str, ...]
) -> Opened:
    output: Output
    if objective in _PROBABILITIES:
        output = "probabilities"
    elif objective.startswith(_VALUES):
        output = "values"
    else:
        raise InvalidFile(
            f"{source!r} was trained for {objective[:40]!r}, which gives neither probabilities nor "
            "a predicted number."
        )
    box = from_callable(predict, output=output, kind="boosted trees")
    card = dataclasses.replace(box.card, n_features=width, features=names)
    fingerprint = hashlib.sha256(content).hexdigest()
    return Opened(dataclasses.replace(box, card=card), fingerprint=fingerprint)


def _damaged(source: str, kind: str, error: Exception) -> InvalidFile:
    return InvalidFile(f"{source!r} is damaged or no {kind} model ({in_short(error)}).")

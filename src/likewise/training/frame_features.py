"""From a data frame of people to numbers, for estimators that read nothing else."""

from typing import Any

import numpy as np
import pyarrow as pa
from jaxtyping import Float
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler

from likewise.data.arrow import holds_dates, kind
from likewise.errors import need

MOST_LEVELS = 100
"""Levels of a category that have a feature of their own; the rarer ones share one."""


def frame_features() -> ColumnTransformer:
    """Return what turns a data frame into features: ones for categories, the rest standardised.

    Dates count in days. A gap is put at the mean, and one more feature says that it is a gap.
    """
    one_hot = OneHotEncoder(
        handle_unknown="infrequent_if_exist",
        max_categories=MOST_LEVELS,
        sparse_output=False,
        feature_name_combiner=level_name,
    )
    calendar = FunctionTransformer(days, feature_names_out="one-to-one")
    return ColumnTransformer(
        [
            ("categories", one_hot, category_columns),
            ("numbers", make_pipeline(*_standard()), number_columns),
            ("dates", make_pipeline(calendar, *_standard()), date_columns),
        ],
        verbose_feature_names_out=False,
    )


def _standard() -> tuple[Any, Any]:
    return SimpleImputer(add_indicator=True, keep_empty_features=True), StandardScaler()


def origins(front: ColumnTransformer) -> list[str]:
    """Return the column that each feature is made of."""
    found: list[str] = []
    for name, step, columns in front.transformers_:
        if name == "categories" and len(columns):
            rare = getattr(step, "infrequent_categories_", [None] * len(columns))
            for column, levels, few in zip(columns, step.categories_, rare, strict=True):
                found += [column] * (len(levels) - (0 if few is None else len(few) - 1))
        elif name in ("numbers", "dates") and len(columns):
            gaps = step[-2].indicator_.features_
            found += [*columns, *(columns[k] for k in gaps)]
    return found


def level_name(column: str, level: Any) -> str:
    """Return the name of the feature of a level."""
    return f"{column}={level}"


def number_columns(frame: Any) -> list[Any]:
    """Return the columns of numbers."""
    return [name for name in frame.columns if frame[name].dtype.kind in "iuf"]


def date_columns(frame: Any) -> list[Any]:
    """Return the columns of dates, also where they are text like 2020-12-31."""
    numbers = set(number_columns(frame))
    return [name for name in frame.columns if name not in numbers and is_calendar(frame[name])]


def category_columns(frame: Any) -> list[Any]:
    """Return all other columns."""
    others = {*number_columns(frame), *date_columns(frame)}
    return [name for name in frame.columns if name not in others]


def is_calendar(column: Any) -> bool:
    """Tell whether a column of a data frame holds dates, also as text."""
    try:
        found = pa.chunked_array([pa.Array.from_pandas(column)])
    except pa.ArrowException:
        return False
    return kind(found.type) == "dates" or holds_dates(found)


def days(frame: Any) -> Float[np.ndarray, "n c"]:
    """Return dates as days since 1970; missing ones become ``nan``."""
    pandas = need("pandas", "boosted", "Reading dates")
    found = np.empty(frame.shape)
    for j, name in enumerate(frame.columns):
        dates = pandas.to_datetime(frame[name], errors="coerce", utc=True).dt.tz_localize(None)
        moments = dates.to_numpy("datetime64[us]")
        found[:, j] = np.where(np.isnat(moments), np.nan, moments.astype(np.int64) / 86_400e6)
    return found

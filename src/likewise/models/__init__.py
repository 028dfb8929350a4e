"""Models of any kind, as functions of rows."""

from likewise.models.adapt import TableModel, as_model, takes_gaps, wants_columns
from likewise.models.behaviour import check, check_conversion
from likewise.models.endpoint import Endpoint
from likewise.models.layers import LayeredModel
from likewise.models.model_files import open_model, save_model

__all__ = [
    "Endpoint",
    "LayeredModel",
    "TableModel",
    "as_model",
    "check",
    "check_conversion",
    "open_model",
    "save_model",
    "takes_gaps",
    "wants_columns",
]

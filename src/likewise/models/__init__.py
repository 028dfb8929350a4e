"""Models of any kind, as functions of rows."""

from likewise.models.base import Front, Model, ModelCard
from likewise.models.behaviour import check, check_conversion, check_rows
from likewise.models.black_box import BlackBox
from likewise.models.decoded import ColumnReader
from likewise.models.endpoint import Endpoint
from likewise.models.layers import FixedProjection, MeanOfSigmoids
from likewise.models.open import open_model
from likewise.models.opened import Opened
from likewise.models.recognise import as_model
from likewise.models.saved import save_model
from likewise.models.torch_module import TorchModel

__all__ = [
    "BlackBox",
    "ColumnReader",
    "Endpoint",
    "FixedProjection",
    "Front",
    "MeanOfSigmoids",
    "Model",
    "ModelCard",
    "Opened",
    "TorchModel",
    "as_model",
    "check",
    "check_conversion",
    "check_rows",
    "open_model",
    "save_model",
]

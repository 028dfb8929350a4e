"""Models of any kind, as functions of rows."""

from typing import TYPE_CHECKING, Any

from likewise.errors import need
from likewise.models.base import Front, Model, ModelCard, Opened
from likewise.models.behaviour import check, check_conversion, check_rows
from likewise.models.black_box import BlackBox
from likewise.models.decoded import ColumnReader
from likewise.models.endpoint import Endpoint
from likewise.models.layered import LayeredModel
from likewise.models.model_file import save_model
from likewise.models.native import takes_gaps
from likewise.models.on_table import answers_gaps, columns_read
from likewise.models.open import is_model_name, open_model
from likewise.models.recognise import as_model

if TYPE_CHECKING:
    from likewise.models.torch_layers import FixedProjection, MeanOfSigmoids
    from likewise.models.torch_module import TorchModel

__all__ = [
    "BlackBox",
    "ColumnReader",
    "Endpoint",
    "FixedProjection",
    "Front",
    "LayeredModel",
    "MeanOfSigmoids",
    "Model",
    "ModelCard",
    "Opened",
    "TorchModel",
    "answers_gaps",
    "as_model",
    "check",
    "check_conversion",
    "check_rows",
    "columns_read",
    "is_model_name",
    "open_model",
    "save_model",
    "takes_gaps",
]

_TORCH = {
    "FixedProjection": "likewise.models.torch_layers",
    "MeanOfSigmoids": "likewise.models.torch_layers",
    "TorchModel": "likewise.models.torch_module",
}


def __getattr__(name: str) -> Any:
    """Import what needs torch only when it is asked for."""
    if name not in _TORCH:
        raise AttributeError(f"module 'likewise.models' has no attribute {name!r}")
    return getattr(need(_TORCH[name], "torch", name), name)

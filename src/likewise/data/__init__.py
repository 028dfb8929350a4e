"""Tables in, audit data out."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from likewise.data._adult import adult as adult
    from likewise.data._adult import adult_table as adult_table
    from likewise.data._compas import compas as compas
    from likewise.data._compas import compas_table as compas_table
    from likewise.data._simulation import simulation as simulation
    from likewise.data.encode import Encoder as Encoder
    from likewise.data.scales import warn_about_scales as warn_about_scales
    from likewise.data.split import Split as Split
    from likewise.data.table import read as read
    from likewise.data.table import scan as scan

_HOMES = {
    "read": "table",
    "scan": "table",
    "Encoder": "encode",
    "warn_about_scales": "scales",
    "Split": "split",
    "adult": "_adult",
    "adult_table": "_adult",
    "compas": "_compas",
    "compas_table": "_compas",
    "simulation": "_simulation",
}

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted(_HOMES)

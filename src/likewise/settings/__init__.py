"""Every choice of an audit: names and numbers, what a name stands for, and the file of them."""

from likewise.settings.audit_settings import Settings, canonical, make_settings, parse_choice
from likewise.settings.sections import (
    CheckLevel,
    Choice,
    Columns,
    Decide,
    IntervalName,
    Metric,
    Selection,
)

__all__ = [
    "CheckLevel",
    "Choice",
    "Columns",
    "Decide",
    "IntervalName",
    "Metric",
    "Selection",
    "Settings",
    "canonical",
    "make_settings",
    "parse_choice",
]

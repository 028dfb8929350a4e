"""A fairer model: remedies that are tried, chosen and judged on people apart."""

from likewise.improving.fairer_model import Improvement, improve

__all__ = ["Improvement", "improve"]

"""The frame of every page: escaped, in one file, with no request to anywhere."""

import base64
import functools
import hashlib
import importlib.resources
import math
from typing import Any

import jinja2
from markupsafe import Markup

from likewise.record.json_text import printable
from likewise.report import layout, phrases, verdict_words, words

TEMPLATES = importlib.resources.files("likewise.report") / "templates"
LONGEST = 160
"""Characters of a name or value shown; the rest is counted."""


def render(template: str, **values: Any) -> str:
    """Fill the template of a whole page.

    The policy of the page allows its own style and script, by hash, and nothing else: no request
    leaves it, and text from the data cannot run even if it got into the markup.
    """
    style, script = _source("style.css"), _source("script.js")
    policy = (
        f"default-src 'none'; style-src '{_hash(style)}'; script-src '{_hash(script)}'; "
        "base-uri 'none'; form-action 'none'"
    )
    return fill(template, style=Markup(style), script=Markup(script), policy=policy, **values)


def fill(template: str, **values: Any) -> str:
    """Fill a template that is a piece of a page, every value escaped."""
    return _environment().get_template(template).render(**values)


def _source(name: str) -> str:
    return (TEMPLATES / name).read_text(encoding="utf-8").strip()


def _hash(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return f"sha256-{base64.b64encode(digest).decode()}"


def short(value: Any, most: int = LONGEST) -> str:
    """Return a value as text that fits a page."""
    if value is None:
        return "missing"
    if isinstance(value, float):
        return f"{value:.4g}".replace("-", "−")
    text = str(value)
    return text if len(text) <= most else f"{text[:most]}… ({len(text):,} characters)"


def number(value: float, digits: int = 4) -> str:
    """Return a number with a real minus sign."""
    return layout.number(value, digits).replace("-", "−")


def bound(value: float) -> str:
    """Return a bound of a ratio: never below zero, and not known where it is infinite."""
    return "not known" if not math.isfinite(value) else number(max(value, 0.0))


def as_percent(value: float) -> str:
    """Return a share as a percentage with one decimal."""
    return "–" if math.isnan(value) else f"{100 * value:.1f} %"


def _shown(value: Any) -> Any:
    """Spell out what would turn the order of letters round, or is no letter at all."""
    return printable(value) if isinstance(value, str) and not isinstance(value, Markup) else value


@functools.cache
def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("likewise.report"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_shown,
    )
    environment.filters |= {
        "number": number,
        "bound": bound,
        "p_value": layout.p_value,
        "percent": layout.percent,
        "share": as_percent,
        "short": short,
        "plain": phrases.plain,
        "count": lambda n: f"{n:,}",
        "sortable": lambda v: str(v).replace("inf", "Infinity"),
        "sentence_case": layout.title_case,
    }
    environment.globals |= {
        "nan": math.isnan,
        "numerical_error": words.numerical_error,
        "titles": verdict_words.TITLES,
        "method_names": verdict_words.METHODS,
        "measure_names": phrases.MEASURES,
        "diagnostic_names": phrases.DIAGNOSTICS,
        "status_names": phrases.STATUSES,
        "map_names": phrases.MAPS,
        "headlines": phrases.HEADLINES,
    }
    return environment

"""From the plain arguments of `audit` to settings: the same names everywhere."""

import functools
from collections.abc import Mapping
from typing import Any

from likewise.errors import InvalidSettings
from likewise.settings import Settings
from likewise.settings.choices import METHODS, check_names, function_name, note

PLACES: Mapping[str, tuple[str, ...]] = {
    "label": ("columns", "label"),
    "protected": ("columns", "protected"),
    "may_matter": ("columns", "may_matter"),
    "weights": ("columns", "weight"),
    "clusters": ("columns", "cluster"),
    "label_map": ("columns", "label_map"),
    "bins": ("columns", "bins"),
    "output": ("columns", "output"),
    "favourable": ("decide", "favourable"),
    "decision": ("decide", "decision"),
    "score": ("decide", "score"),
    "threshold": ("decide", "threshold"),
    "loss": ("decide", "loss"),
    "delta": ("delta",),
    "alpha": ("alpha",),
    "checks": ("checks",),
    "method": ("method",),
}
"""Where in the settings each argument stands."""


def resolve_settings(
    settings: Settings | None, *, trust: bool = False, paper: bool = False, **arguments: Any
) -> tuple[Settings, Any]:
    """Return the settings with the arguments in them, and the method that was handed over.

    Parameters
    ----------
    arguments
        Those of `likewise.audit`; one that was not given is `None` or empty.
    """
    base, made = settings or Settings(), None
    for name in ("protected", "may_matter"):
        names = arguments.get(name)
        if names is not None:  # one name, or a list, an index, an array
            one = isinstance(names, str) and names
            arguments[name] = tuple(map(str, [names] if one else names))
    given = {name: v for name, v in arguments.items() if v is not None and not _is_empty(v)}
    if isinstance(given.get("label_map"), Mapping):
        given["label_map"] = {str(k): str(v) for k, v in given["label_map"].items()}
    if "favourable" in given:
        given["favourable"] = str(given["favourable"])
    if not isinstance(given.get("loss", ""), str):
        given["loss"] = getattr(given["loss"], "name", None) or function_name(given["loss"])
    if not isinstance(given.get("method", ""), str | Mapping):
        made = given["method"]
        given["method"] = note(METHODS, made).model_dump()
    own = base.method
    if paper or base.paper:
        other = own.name not in ("auto", "gradient_flow") or own.get("solver", "euler") != "euler"
        if other or {"method", "may_matter"} & given.keys() or base.columns.may_matter:
            raise InvalidSettings(
                "paper is the paper's procedure; leave out the method and the columns that may "
                "matter."
            )
        base = base.as_in_paper()
    if isinstance(given.get("method"), str) and own.name in ("auto", given["method"]):
        # Parameters may have been set before the method was named.
        base = base.changed(method={"name": given.pop("method"), **own.params})
    for name, value in given.items():
        _check_agrees(name, value, base)
    chosen = base.changed(**{"__".join(PLACES[name]): value for name, value in given.items()})
    check_names(chosen, made=made is not None, trust=trust)
    return chosen, made


def _is_empty(value: Any) -> bool:
    return isinstance(value, tuple) and not value


def _check_agrees(name: str, value: Any, base: Settings) -> None:
    """Refuse an argument that says otherwise than a setting that was made."""
    place = PLACES[name]
    changed = base.changed(**{"__".join(place): value})
    said, usual, wanted = (
        functools.reduce(getattr, place, settings) for settings in (base, Settings(), changed)
    )
    if said not in (usual, wanted):
        raise InvalidSettings(
            f"{name} is {_shown(value)} as an argument and {_shown(said)} in the settings. Say it "
            "once."
        )


def _shown(value: Any) -> str:
    text = repr(getattr(value, "name", getattr(value, "run", value)))
    return text if len(text) <= 60 else text[:59] + "…"

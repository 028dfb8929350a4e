"""From the plain arguments of `audit` to settings: the same names everywhere."""

from collections.abc import Mapping, Sequence
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
    base = settings or Settings()
    given = {name: value for name, value in arguments.items() if value is not None and value != ()}
    made = None
    method = given.get("method")
    if method is not None and not isinstance(method, str | Mapping):
        made = given.pop("method")
        given["method"] = note(METHODS, made).model_dump()
    if paper or base.paper:
        own = base.method
        other = own.name not in ("auto", "gradient_flow") or own.get("solver", "euler") != "euler"
        if other or {"method", "may_matter"} & given.keys() or base.columns.may_matter:
            raise InvalidSettings(
                "paper is the paper's procedure; leave out the method and the columns that may "
                "matter."
            )
        base = base.as_in_paper()
    if isinstance(given.get("method"), str):
        own = base.method
        if own.name not in ("auto", given["method"]):
            _check_agrees("method", given["method"], base, PLACES["method"])
        # Parameters may have been set before the method was named.
        base = base.changed(method={"name": given["method"], **own.params})
        del given["method"]
    if not isinstance(given.get("loss", ""), str):
        given["loss"] = getattr(given["loss"], "name", None) or function_name(given["loss"])
    if "favourable" in given:
        given["favourable"] = str(given["favourable"])
    if isinstance(given.get("protected"), str):
        given["protected"] = (given["protected"],)
    for name in ("protected", "may_matter"):
        if isinstance(given.get(name), Sequence) and not isinstance(given[name], str):
            given[name] = tuple(map(str, given[name]))
    changes: dict[str, Any] = {}
    for name, value in given.items():
        place = PLACES[name]
        _check_agrees(name, value, base, place)
        changes["__".join(place)] = value
    chosen = base.changed(**changes)
    check_names(chosen, made=made is not None, trust=trust)
    return chosen, made


def _check_agrees(name: str, value: Any, base: Settings, place: tuple[str, ...]) -> None:
    """Refuse an argument that says otherwise than a setting that was made."""
    said: Any = base
    usual: Any = Settings()
    for part in place:
        said, usual = getattr(said, part), getattr(usual, part)
    wanted = base.changed(**{"__".join(place): value})
    for part in place:
        wanted = getattr(wanted, part)
    if said != usual and said != wanted:
        raise InvalidSettings(
            f"{name} is {_shown(value)} as an argument and {_shown(said)} in the settings. Say it "
            "once."
        )


def _shown(value: Any) -> str:
    text = repr(getattr(value, "name", getattr(value, "run", value)))
    return text if len(text) <= 60 else text[:59] + "…"

"""From the plain arguments of `audit` to settings: the same names everywhere."""

import operator
from collections.abc import Mapping
from typing import Any

from likewise.errors import InvalidSettings
from likewise.settings import Settings, make_settings
from likewise.settings.choices import METHODS, check_names, function_name, note

COLUMNS = ("label", "protected", "may_matter", "label_map", "bins", "output")
DECIDE = ("favourable", "decision", "score", "threshold", "loss")
PLACES: Mapping[str, str] = {
    **{name: f"columns__{name}" for name in COLUMNS},
    **{name: f"decide__{name}" for name in DECIDE},
    **{name: name for name in ("delta", "alpha", "checks", "method")},
    "weights": "columns__weight",
    "clusters": "columns__cluster",
}
"""Where in the settings each argument stands, as `Settings.changed` takes it."""


def resolve_settings(
    settings: Any, *, trust: bool = False, paper: bool = False, **arguments: Any
) -> tuple[Settings, Any]:
    """Return the settings with the arguments in them, and the method that was handed over.

    Parameters
    ----------
    settings
        `likewise.Settings`, their sections as a dictionary, or None.
    arguments
        Those of `likewise.audit`; one that was not given is `None` or empty.
    """
    plain = settings is None or isinstance(settings, dict)
    base: Any = make_settings(settings or {}) if plain else settings
    if not isinstance(base, Settings):
        raise InvalidSettings(f"settings is {settings!r:.60}. Give likewise.Settings(…).")
    made, given = None, {name: value for name, value in arguments.items() if value is not None}
    for name in ("protected", "may_matter"):
        names = given.pop(name, ())  # one name, or a list, an index, an array
        names = [names] if isinstance(names, str) and names else list(map(str, names))
        given |= {name: tuple(names)} if names else {}
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
        flow = own.name in ("auto", "gradient_flow")
        flow = flow and own.params.get("solver", "euler") == "euler"
        if not flow or {"method", "may_matter"} & given.keys() or base.columns.may_matter:
            raise InvalidSettings(
                "paper is the paper's procedure; leave out the method and the columns that may "
                "matter."
            )
        base = base.as_in_paper()
    if isinstance(given.get("method"), str) and own.name in ("auto", given["method"]):
        # Parameters may have been set before the method was named.
        base = base.changed(method={"name": given.pop("method"), **own.params})
    chosen = base.changed(**{PLACES[name]: value for name, value in given.items()})
    for name in given:
        place = operator.attrgetter(PLACES[name].replace("__", "."))
        said, usual, wanted = map(place, (base, Settings(), chosen))
        if said not in (usual, wanted):
            one, other = (repr(getattr(v, "name", v))[:60] for v in (wanted, said))
            raise InvalidSettings(
                f"{name} is {one} as an argument and {other} in the settings. Say it once."
            )
    check_names(chosen, made=made is not None, trust=trust)
    return chosen, made

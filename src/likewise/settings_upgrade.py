"""Choices as version 0.1 wrote them, in files and in results."""

from typing import Any

_FLOW: dict[str, Any] = {
    "lam": 50.0,
    "time": 5.0,
    "solver": "auto",
    "steps": None,
    "free_only": False,
    "bounded": False,
    "keeps_start": None,
    "precision": "float64",
    "schedule": "constant",
}
_REACH: dict[str, Any] = {"budget": 60, "feasible": False, "price": None, "within": None}


def upgraded(choices: dict[str, Any]) -> dict[str, Any]:
    """Return choices in the form of version 0.1 as they are written now.

    There the map was named in ``decide.map``, and its parameters stood in ``[flow]`` and
    ``[reach]`` whatever the map was.
    """
    decide = choices.get("decide", {})
    decide = {"map": decide} if isinstance(decide, str) else decide
    old = isinstance(decide, dict) and {"map", "error_rates"} & set(decide)
    if not old and not {"flow", "reach"} & set(choices):
        return choices
    if "map" in choices:
        raise ValueError(
            "what decide.map, [flow] and [reach] said stands in [map] now, not in both"
        )
    new = {name: value for name, value in choices.items() if name not in ("flow", "reach")}
    decide = _section({"decide": decide}, "decide")
    new["decide"] = {k: v for k, v in decide.items() if k not in ("map", "error_rates")}
    name = decide.get("map", "auto")
    flow, reach = (_section(choices, section) for section in ("flow", "reach"))
    epsilon = reach.pop("epsilon", None)
    for section, params, known in (("flow", flow, _FLOW), ("reach", reach, _REACH)):
        strange = next((k for k in params if k not in known), None)
        if strange is not None:
            raise ValueError(f"there is no such setting: {section}.{strange}")
    flow = {k: v for k, v in flow.items() if v != _FLOW[k]}
    reach = {k: v for k, v in reach.items() if v != _REACH[k]}
    # There auto was the flow wherever it can be: a parameter that only the flow has says so.
    new["map"] = {"name": name, **({"lam": _FLOW["lam"]} if name == "auto" else {})}
    new["map"] |= flow if name in ("auto", "flow") else {}
    reach.setdefault("feasible", False)  # which was the default, and is no more
    new["map"] |= reach if name in ("auto", "reach") else {}
    if name == "worst":
        new["map"]["maps"] = [{"name": "flow", **flow}, {"name": "reach", **reach}]
    checks = new.get("checks", {"run": "full"})
    checks = {"run": checks} if isinstance(checks, str) else _section(new, "checks", checks)
    if name in ("auto", "flow") and "budget" in reach:
        own = _section(checks, "reach_crosscheck")
        checks["reach_crosscheck"] = {**own, "budget": reach["budget"]}
    if epsilon not in (None, 0.01):
        checks["robust"] = {**_section(checks, "robust"), "epsilon": epsilon}
    new["checks"] = checks
    if decide.get("error_rates") is not None:
        tests = _section(new, "tests")
        tests["error_rate_ratio"] = {"interval": decide["error_rates"]}
        new["tests"] = tests
    return new


def _section(choices: dict[str, Any], name: str, missing: Any = None) -> dict[str, Any]:
    found = choices.get(name, missing or {})
    if not isinstance(found, dict):
        raise ValueError(f"[{name}] is a section of choices, not {found!r:.60}")
    return dict(found)

"""What settings can name, and from a name with parameters to an object and back.

A new map, metric, test, check or kind of model is one file and one line here; other packages add
theirs by entry points of the same groups, ``likewise.maps`` and so on. A class declares its
parameters as the fields of a dataclass; that is the only list of them. What was handed over in
Python is noted in the settings by the same fields, so its name, its parameters and the hash of the
settings are its own.
"""

import dataclasses
import functools
import hashlib
import importlib
import importlib.metadata
import inspect
import re
import typing
from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
import pydantic

from likewise.errors import InvalidSettings, in_short, nearest
from likewise.settings.audit_settings import Settings, canonical
from likewise.settings.sections import Choice

OUTSIDE = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*")
"""How something outside is named: ``package.module:Name``."""


@dataclasses.dataclass(frozen=True)
class Registry:
    """The classes of one kind, by name.

    Parameters
    ----------
    kind
        What they are, in a word.
    built_in
        Where each one is, ``module:Class`` within this package; imported when it is needed.
    """

    kind: str
    built_in: Mapping[str, str]

    @property
    def group(self) -> str:
        """The group of entry points that adds to it."""
        return f"likewise.{self.kind}s"

    @functools.cached_property
    def installed(self) -> Mapping[str, importlib.metadata.EntryPoint]:
        """What installed packages add; a built-in name cannot be taken."""
        found = importlib.metadata.entry_points(group=self.group)
        return {point.name: point for point in found if point.name not in self.built_in}

    def names(self) -> tuple[str, ...]:
        """Return all names, those of other packages last."""
        return (*self.built_in, *sorted(self.installed))

    def find(self, name: str, *, trust: bool = False) -> Any:
        """Return the class that a name stands for.

        Parameters
        ----------
        trust
            Whether a module may be imported that is named as ``package.module:Name``.
        """
        if name in self.built_in:
            return _load(f"likewise.{self.built_in[name]}", self.kind)
        if name in self.installed:
            return _load(self.installed[name].value, self.kind)
        if not OUTSIDE.fullmatch(name):
            raise InvalidSettings(
                f"There is no {self.kind} {name!r} (there are: {', '.join(self.names())}; or "
                f"package.module:Name).{nearest(name, self.names())}"
            )
        if not trust:
            raise InvalidSettings(
                f"The {self.kind} {name!r} runs code of that module. If you trust it, say so "
                "(--trust, or trust=True)."
            )
        return _load(name, self.kind)

    def name_of(self, cls: type) -> str:
        """Return the name of a class: the one it is registered by, or where it is."""
        place = f"{cls.__module__}:{cls.__qualname__}"
        for name, home in self.built_in.items():
            if place == f"likewise.{home}":
                return name
        for name, point in self.installed.items():
            if place == point.value.replace(" ", ""):
                return name
        return place


def _load(place: str, kind: str) -> Any:
    module, _, name = place.partition(":")
    try:
        return functools.reduce(getattr, name.split("."), importlib.import_module(module))
    except ImportError as error:
        raise InvalidSettings(
            f"The {kind} {place!r} cannot be imported: {in_short(error)}."
        ) from None
    except AttributeError:
        raise InvalidSettings(f"The module {module!r} has no {kind} {name!r}.") from None


MAPS = Registry(
    "map",
    {
        "flow": "maps.flow:GradientFlow",
        "reach": "maps.search:Reach",
        "flips": "maps.flips:Flips",
        "counterparts": "maps.counterparts:Counterparts",
        "worst": "maps.combine:Worst",
    },
)

METRICS = Registry(
    "metric",
    {
        "quadratic": "metrics.quadratic:QuadraticMetric",
        "projection": "metrics.quadratic:ProjectionMetric",
    },
)

CHECKS = Registry(
    "check",
    {
        "other_intervals": "checks.other_intervals:OtherIntervals",
        "horizons": "checks.horizon_ladder:Horizons",
        "reach_crosscheck": "checks.reach_crosscheck:ReachCrosscheck",
        "refits": "checks.metric_refits:Refits",
        "flow_beside": "checks.flow_beside:FlowBeside",
        "placebo": "checks.placebo_traits:Placebo",
        "groups": "checks.group_tables:Groups",
        "robust": "checks.robust_value:Robust",
        "sensitivity": "checks.sensitivity:Sensitivity",
        "columns": "checks.carrying_columns:CarryingColumns",
        "subgroups": "checks.worst_subgroups:Subgroups",
    },
)

TESTS = Registry(
    "test",
    {
        "loss_ratio": "inference.loss_ratio:LossRatioTest",
        "error_rate_ratio": "inference.error_rate_ratio:ErrorRateRatioTest",
        "mean_loss_ratio": "inference.mean_loss_ratio:MeanLossRatioTest",
    },
)


def check_names(settings: Settings, given: Collection[str] = (), *, trust: bool) -> None:
    """Refuse names that stand for nothing, or for code that is not trusted, before any work.

    Of ``map`` and ``tests``, those that are ``given`` were handed over instead of being named.
    """
    tests, checks = settings.tests, settings.checks
    named = {
        "map": (MAPS, () if settings.map.name == "auto" else (settings.map.name,)),
        "tests": (TESTS, () if isinstance(tests.run, str) else tests.run),
        "checks": (CHECKS, (*(() if isinstance(checks.run, str) else checks.run), *checks.named)),
    }
    for what, (registry, names) in named.items():
        for name in () if what in given else names:
            registry.find(name, trust=trust)


def make(
    registry: Registry, choice: Choice, *, trust: bool = False, shared: Mapping[str, Any] = {}
) -> Any:
    """Return what a choice names, made with its parameters.

    Parameters
    ----------
    trust
        Whether code outside of this package may be imported.
    shared
        Parameters that several classes have (a tolerance, say); a choice overrides them, and a
        class without such a field does not get them.
    """
    cls = registry.find(choice.name, trust=trust)
    fields = parameters(cls)
    for name in choice.params:
        if name not in fields:
            raise InvalidSettings(
                f"The {registry.kind} {choice.name!r} has no parameter {name!r} (it has: "
                f"{', '.join(fields) or 'none'}).{nearest(name, fields)}"
            )
    values = {name: value for name, value in shared.items() if name in fields} | choice.params
    hints = typing.get_type_hints(cls)
    for name, value in values.items():
        where = f"{registry.kind} {choice.name!r}: {name}"
        values[name] = _read(registry, value, hints.get(name, Any), where, trust)
    try:
        return getattr(cls, "from_parameters", cls)(**values)
    except TypeError as error:
        raise InvalidSettings(
            f"The {registry.kind} {choice.name!r} cannot be made: {error}."
        ) from None


def note(registry: Registry, made: Any) -> Choice:
    """Return the choice that stands for an object: its name, and every parameter it was made with.

    Arrays and functions, which settings cannot hold, are noted by a hash.
    """
    derived = getattr(made, "derived", ())
    names = [name for name in parameters(type(made)) if name not in derived]
    params = {name: _written(registry, getattr(made, name)) for name in names}
    return Choice.model_validate({"name": registry.name_of(type(made)), **params})


def parameters(cls: type) -> dict[str, dataclasses.Field[Any]]:
    """Return the parameters that a class declares: the fields its constructor takes."""
    if not dataclasses.is_dataclass(cls):
        return {}
    return {field.name: field for field in dataclasses.fields(cls) if field.init}


def explain(cls: type) -> dict[str, str]:
    """Return a sentence on every parameter, from the docstrings of a class and its bases."""
    found: dict[str, str] = {}
    for base in reversed(cls.__mro__):
        text = inspect.cleandoc(base.__dict__.get("__doc__") or "")
        _, _, body = text.partition("Parameters\n----------\n")
        body = re.split(r"\n\S[^\n]*\n-{3,}\n", body)[0]
        for names, words in re.findall(r"^(\w[\w, ]*)\n((?:[ \t]+.*\n?|\n)+)", body, re.M):
            sentence = " ".join(words.split())
            sentence = re.sub(r":math:`([^`]*)`", r"\1", sentence).replace("``", "")
            found |= dict.fromkeys(names.split(", "), re.split(r"(?<=\.) ", sentence)[0])
    return {name: found.get(name, "") for name in parameters(cls)}


def _read(registry: Registry, value: Any, hint: Any, where: str, trust: bool) -> Any:
    """Return a value as its field wants it; choices within a choice are made first."""
    if isinstance(value, dict) and "name" in value:
        return make(registry, Choice.model_validate(value), trust=trust)
    if isinstance(value, list | tuple) and any(isinstance(v, dict) and "name" in v for v in value):
        return tuple(_read(registry, part, Any, where, trust) for part in value)
    if isinstance(value, dict) and set(value) == {"each", "times"}:
        return (_read(registry, value["each"], Any, where, trust),) * int(value["times"])
    if isinstance(value, dict) and set(value) == {"sha256"}:
        raise InvalidSettings(
            f"{where} stands for something that was handed over in Python, which settings cannot "
            "hold. Hand it over again, or leave it out."
        )
    try:
        adapter = pydantic.TypeAdapter(hint, config={"arbitrary_types_allowed": True})
        return adapter.validate_python(value)
    except pydantic.ValidationError as error:
        reason = error.errors()[0]["msg"]
        raise InvalidSettings(
            f"{where} is refused: {reason[0].lower()}{reason[1:]} (got {value!r})."
        ) from None


def _written(registry: Registry, value: Any) -> Any:
    """Return a value as settings hold it."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, list | tuple):
        if len(value) > 2 and len(set(map(repr, value))) == 1:
            return {"each": _written(registry, value[0]), "times": len(value)}
        return [_written(registry, part) for part in value]
    if isinstance(value, Mapping):
        return {str(key): _written(registry, part) for key, part in value.items()}
    if type(value).__module__ != "numpy" and hasattr(value, "bind"):
        return note(registry, value).model_dump()
    return {"sha256": digest(value)}


def digest(value: Any) -> str:
    """Return a hash of arrays, and of objects that hold them; of a function, of where it is."""
    return hashlib.sha256(canonical(_plain(value)).encode()).hexdigest()


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray) or hasattr(value, "detach"):
        array = np.asarray(value)
        text = np.ascontiguousarray(array).tobytes()
        return [str(array.dtype), list(array.shape), hashlib.sha256(text).hexdigest()]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        kind = f"{type(value).__module__}:{type(value).__qualname__}"
        fields = [field.name for field in dataclasses.fields(value) if field.init]
        return [kind, {name: _plain(getattr(value, name)) for name in fields}]
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    if isinstance(value, Mapping):
        return {str(key): _plain(part) for key, part in value.items()}
    if value is None or isinstance(value, bool | int | float | str):
        return value
    named = value if isinstance(value, type) or callable(value) else type(value)
    return f"{getattr(named, '__module__', '')}:{getattr(named, '__qualname__', named)}"

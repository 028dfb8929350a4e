"""What settings can name, and from a name with parameters to an object and back.

A new method, metric, loss, test, check or kind of model is one file and one line here; other
packages add theirs by entry points of the same groups, ``likewise.methods`` and so on. A class
declares its parameters as the fields of a dataclass; that is the only list of them. What was handed
over in Python is noted in the settings by the same fields, so its name, its parameters and the hash
of the settings are its own.
"""

import dataclasses
import functools
import hashlib
import importlib
import importlib.metadata
import re
import sys
import typing
from collections.abc import Callable, Mapping
from pathlib import Path
from types import CellType, CodeType
from typing import Any

import numpy as np
import pydantic

from likewise.errors import InvalidSettings, in_short, nearest
from likewise.fingerprints import canonical
from likewise.settings import Choice, Settings

OUTSIDE = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*")
"""How something outside is named: ``package.module:Name``."""


@dataclasses.dataclass(frozen=True)
class Registry:
    """Classes of one kind, by name: ``module:Class`` of this package, and installed ones."""

    kind: str
    built_in: Mapping[str, str]

    @functools.cached_property
    def places(self) -> Mapping[str, str]:
        """Where each class is, by name; other packages add theirs, but take no built-in name."""
        group = f"likewise.{self.kind}{'es' if self.kind.endswith('s') else 's'}"
        found = importlib.metadata.entry_points(group=group)
        own = {name: f"likewise.{place}" for name, place in self.built_in.items()}
        added = {point.name: point.value.replace(" ", "") for point in found}
        return own | {name: added[name] for name in sorted(added.keys() - own.keys())}

    def find(self, name: str, *, trust: bool = False) -> Any:
        """Return the class that a name stands for; ``package.module:Name`` needs ``trust``."""
        if name in self.places:
            return load(self.places[name], self.kind)
        if not OUTSIDE.fullmatch(name):
            raise InvalidSettings(
                f"There is no {self.kind} {name!r} (there are: {', '.join(self.places)}; or "
                f"package.module:Name).{nearest(name, self.places)}"
            )
        if not trust:
            raise InvalidSettings(
                f"The {self.kind} {name!r} runs code of that module. If you trust it, say so "
                "(--trust, or trust=True)."
            )
        return load(name, self.kind, str(Path.cwd()))

    def make(
        self,
        name: str,
        params: Mapping[str, Any],
        *,
        trust: bool = False,
        shared: Mapping[str, Any] = {},
    ) -> Any:
        """Return what a name stands for, made with its parameters.

        ``shared`` are parameters that several classes have (a tolerance, say): ``params`` override
        them, and a class without such a field does not get them.
        """
        cls = self.find(name, trust=trust)
        fields, hints = parameters(cls), typing.get_type_hints(cls)
        for param in params:
            if param not in fields:
                raise InvalidSettings(
                    f"The {self.kind} {name!r} has no parameter {param!r} (it has: "
                    f"{', '.join(fields) or 'none'}).{nearest(param, fields)}"
                )
        values = {n: value for n, value in shared.items() if n in fields} | dict(params)
        for param, value in values.items():
            values[param] = _read(value, hints[param], f"{self.kind} {name!r}: {param}")
        try:
            return cls(**values)
        except TypeError as error:
            raise InvalidSettings(f"The {self.kind} {name!r} cannot be made: {error}.") from None

    def name_of(self, cls: type) -> str:
        """Return the name of a class: the one it is registered by, or where it is."""
        found = function_name(cls)
        return next((name for name, place in self.places.items() if place == found), found)


def load(place: str, kind: str, folder: str = "") -> Any:
    """Import what ``package.module:name`` stands for, also from a folder."""
    module, _, name = place.partition(":")
    if folder:
        sys.path.insert(0, folder)  # as `python -m` does
    try:
        found = importlib.import_module(module)
    except (Exception, SystemExit) as error:  # it may be anyone's code
        raise InvalidSettings(
            f"The {kind} {place!r} cannot be imported: {in_short(error)}."
        ) from None
    finally:
        if folder:
            sys.path.remove(folder)
    try:
        return functools.reduce(getattr, name.split("."), found)
    except AttributeError:
        raise InvalidSettings(
            f"The module {module!r} has no {kind} {name!r}.{nearest(name, dir(found))}"
        ) from None


METHODS = Registry(
    "method",
    {
        "matched_pairs": "methods.matched_pairs:MatchedPairs",
        "gradient_flow": "methods.gradient_flow:GradientFlow",
        "reach": "methods.reach:Reach",
        "flip": "methods.flip:Flip",
    },
)

METRICS = Registry(
    "metric",
    {
        "quadratic": "methods.metric:QuadraticMetric",
        "projection": "methods.metric:ProjectionMetric",
    },
)

CHECKS = Registry(
    "check",
    {
        "reach_crosscheck": "checks.reach_crosscheck:ReachCrosscheck",
        "groups": "checks.group_tables:Groups",
        "robust": "checks.robust:Robust",
        "sensitivity": "checks.sensitivity:Sensitivity",
        "label_prediction": "checks.model_notes:LabelPrediction",
        "training_pool": "checks.model_notes:TrainingPool",
        "drivers": "checks.drivers:Drivers",
        "column_choice": "checks.column_choice:ColumnChoice",
        "overlap": "checks.overlap:Overlap",
        "subgroups": "checks.subgroups:Subgroups",
        "hidden_factor": "checks.hidden_factor:HiddenFactors",
    },
)

LOSSES = Registry("loss", dict.fromkeys(("cross_entropy", "squared", "absolute"), "loss:Loss"))

MODELS = Registry("model", {})
"""Readers of model files by their suffix, of other packages: from bytes and a name to a model."""

TESTS = Registry(
    "test",
    {
        "loss_ratio": "stats.loss_ratio:LossRatioTest",
        "error_rate_ratio": "stats.error_rate_ratio:ErrorRateRatioTest",
        "mean_loss_ratio": "stats.loss_ratio:MeanLossRatioTest",
    },
)


def function_name(given: Any) -> str:
    """Return where a function, or the first of several, is defined: ``package.module:name``."""
    first = given[0] if isinstance(given, tuple | list) and given else given
    named = first if hasattr(first, "__qualname__") else type(first)
    return f"{named.__module__}:{named.__qualname__}"


def check_names(settings: Settings, *, made: bool, trust: bool) -> None:
    """Refuse names that stand for nothing, or for code that is not trusted, before any work.

    That of the method is noted and not looked up if it was ``made`` and handed over.
    """
    if not made and settings.method.name != "auto":
        METHODS.find(settings.method.name, trust=trust)
    for registry, chosen in ((TESTS, settings.tests), (CHECKS, settings.checks)):
        for name in (*chosen.named, *(chosen.run if isinstance(chosen.run, tuple) else ())):
            registry.find(name, trust=trust)


def note(registry: Registry, made: Any) -> Choice:
    """Return the choice that stands for an object: its name, and every parameter it was made with.

    Arrays and functions, which settings cannot hold, are noted by a hash.
    """
    derived = getattr(made, "derived", ())
    params = {n: getattr(made, n) for n in parameters(type(made)) if n not in derived}
    noted = _plain(params, lambda value: {"sha256": digest(value)})
    return Choice.model_validate({"name": registry.name_of(type(made)), **noted})


def parameters(cls: type) -> dict[str, dataclasses.Field[Any]]:
    """Return the parameters that a class declares: the fields its constructor takes."""
    if not dataclasses.is_dataclass(cls):
        return {}
    return {field.name: field for field in dataclasses.fields(cls) if field.init}


def _read(value: Any, hint: Any, where: str) -> Any:
    """Return a value as its field wants it."""
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


def digest(value: Any) -> str:
    """Return a hash of arrays and of objects that hold them; of functions, of code and closure."""
    return hashlib.sha256(canonical(_plain(value, _described), ascii=True).encode()).hexdigest()


def _plain(value: Any, other: Callable[[Any], Any]) -> Any:
    """Return a value as JSON has it; ``other`` writes what JSON has not."""
    value = value.item() if isinstance(value, np.generic) else value
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, list | tuple):
        return [_plain(part, other) for part in value]
    if isinstance(value, Mapping):
        return {str(key): _plain(part, other) for key, part in value.items()}
    return other(value)


def _described(value: Any) -> Any:
    if isinstance(value, np.ndarray) or hasattr(value, "detach"):
        array = np.asarray(value)
        text = np.ascontiguousarray(array).tobytes()
        return [str(array.dtype), list(array.shape), hashlib.sha256(text).hexdigest()]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        held = {name: getattr(value, name) for name in parameters(type(value))}
        return [function_name(type(value)), _plain(held, _described)]
    if isinstance(value, functools.partial):
        return _plain([value.func, value.args, value.keywords], _described)
    if getattr(value, "__code__", None) is None:
        return function_name(value)
    closure = [cell.cell_contents for cell in value.__closure__ or () if cell != CellType()]
    # Functions in a closure can hold each other: of these, only the code.
    around = _plain([closure, value.__defaults__], lambda other: _code(other) or _described(other))
    return [function_name(value), _code(value), around]


def _code(value: Any) -> list[Any]:
    """Return what the code of a function does; nothing of anything else."""
    code = getattr(value, "__code__", value)
    if not isinstance(code, CodeType):
        return []
    # The order of a set depends on the process.
    constants = [sorted(c, key=repr) if isinstance(c, frozenset) else c for c in code.co_consts]
    return [code.co_code.hex(), code.co_names, [_code(c) or repr(c) for c in constants]]

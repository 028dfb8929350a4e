"""From a name with parameters to an object, and back: one mechanism for maps, metrics and tests.

A class declares its parameters as the fields of a dataclass; that is the only list of them. What
was handed over in Python is noted in the settings by the same fields, so its name, its parameters
and the hash of the settings are its own.
"""

import dataclasses
import hashlib
import inspect
import re
import typing
from collections.abc import Mapping
from typing import Any

import numpy as np
import pydantic

from likewise.errors import InvalidSettings, nearest
from likewise.registry import Registry
from likewise.settings import Choice, canonical


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

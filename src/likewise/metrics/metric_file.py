"""Metrics saved as safetensors: numbers and a closed description. Opening one runs no code."""

import dataclasses
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pydantic
from pydantic import ConfigDict

from likewise.errors import InvalidFile, InvalidMetric, in_short
from likewise.files import read_whole, write_whole
from likewise.fingerprints import Sketch, of_arrays
from likewise.metrics.fair_metric import FairMetric
from likewise.metrics.origin import LearnedFrom, Origin
from likewise.metrics.quadratic import ProjectionMetric, QuadraticMetric
from likewise.metrics.reach import Ellipsoid
from likewise.settings.choices import digest
from likewise.tensors import read_tensors

FORMAT = 2
"""Version 2 has placebos and a penalty a person; version 1 is read as well."""

LARGEST = 4_000_000_000
"""Bytes of a metric that are read."""

KEY = "likewise.metric"

TYPES = {"groups": np.int16, "people.sketch": np.uint64, "people.keys": np.uint32}
"""Of the numbers that are no plain ones."""


class _Radius(pydantic.BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    radius: float
    coverage: float


class _About(pydantic.BaseModel):
    """What the numbers in the file mean. Unknown entries are refused."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    format: Literal[1, 2]
    kind: Literal["quadratic", "projection"]
    features: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    origin: Origin | None = None
    reach: _Radius | None = None
    refits: tuple[_Radius | None, ...] = ()
    placebos: tuple[_Radius | None, ...] = ()
    attached: dict[str, str] = {}


def save_metric(
    metric: FairMetric, path: str | Path, *, attached: Mapping[str, str] | None = None
) -> None:
    """Write a metric to a file, whole or not at all.

    Parameters
    ----------
    attached
        Texts to keep in the same file, by name: an encoder as JSON, say. By default those that
        the metric came with.
    """
    write_whole(path, _to_bytes(metric, attached))


def load_metric(path: str | Path) -> QuadraticMetric | ProjectionMetric:
    """Read what `save_metric` wrote, believing nothing in it."""
    tensors, written = read_tensors(read_whole(path, most=LARGEST), str(path))
    if KEY not in written:
        raise InvalidFile(f"{str(path)!r} holds no fair metric. Make one with `likewise metric`.")
    try:
        about = _read_about(written[KEY])
        return _build(about, tensors)
    except KeyError as error:
        problem = f"it has no numbers {error.args[0]!r}"
    except pydantic.ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"])) or "its description"
        problem = f"{place}: {first['msg']}"
    except (InvalidMetric, ValueError, RecursionError, RuntimeError) as error:
        problem = in_short(error)
    raise InvalidFile(f"{str(path)!r} is damaged or holds no fair metric: {problem}.")


def metric_fingerprint(metric: FairMetric) -> str:
    """Return a sha256 of all that a metric is, without what is attached to it."""
    if not metric.quadratic:  # one's own, which is its parameters
        return digest(metric)
    tensors, about = _parts(metric, {})
    return of_arrays(tensors, about)


def check_belongs(metric: FairMetric, features: Sequence[str]) -> None:
    """Refuse a metric that was made for other features than those of the audit."""
    if not metric.quadratic:
        return
    d = metric.free.shape[1]
    if d != len(features):
        raise InvalidMetric(
            f"The fair metric was made for {d} features, but there are {len(features)} here."
        )
    if not metric.features or tuple(metric.features) == tuple(features):
        return
    strangers = [name for name in features if name not in metric.features]
    if strangers:
        raise InvalidMetric(
            f"The fair metric was made for other features: it does not know {strangers[0]!r}"
            f"{f' and {len(strangers) - 1} more' if len(strangers) > 1 else ''}."
        )
    place = next(j for j, name in enumerate(features) if name != metric.features[j])
    raise InvalidMetric(
        f"The fair metric knows the same features in another order: feature {place + 1} is "
        f"{metric.features[place]!r} there and {features[place]!r} here."
    )


def _to_bytes(metric: FairMetric, attached: Mapping[str, str] | None) -> bytes:
    from safetensors.numpy import save

    if attached is None:
        attached = getattr(metric, "attached", {})
    tensors, about = _parts(metric, attached)
    described = json.dumps(about, ensure_ascii=False, separators=(",", ":"))
    return save({name: np.ascontiguousarray(t) for name, t in tensors.items()}, {KEY: described})


def _parts(
    metric: FairMetric, attached: Mapping[str, str]
) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Return the numbers of a metric, and what they mean."""
    if isinstance(metric, QuadraticMetric):
        tensors = {"sigma": metric.sigma}
        about: dict[str, Any] = {"kind": "quadratic"}
    elif isinstance(metric, ProjectionMetric):
        tensors, about = _flatten(metric)
    else:
        raise InvalidMetric(f"A {type(metric).__name__} cannot be saved: it is not quadratic.")
    about |= {"format": FORMAT, "features": metric.features, "attached": dict(attached)}
    return tensors, _About.model_validate(about).model_dump(mode="json")


def _flatten(metric: ProjectionMetric) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    parts = {"": metric}
    parts |= {f"refit.{g}.": refit for g, refit in enumerate(metric.refits)}
    parts |= {f"placebo.{b}.": placebo for b, placebo in enumerate(metric.placebos)}
    tensors: dict[str, np.ndarray] = {}
    for prefix, part in parts.items():
        tensors[f"{prefix}free"] = part.free
        if part.directions is not None and part is metric:
            tensors["directions"] = part.directions
        if part.reach is not None:
            tensors[f"{prefix}reach.mean"] = part.reach.mean
            tensors[f"{prefix}reach.covariance"] = part.reach.covariance
    if metric.groups is not None:
        tensors["groups"] = metric.groups.astype(np.int16)
    if metric.learned_from is not None:
        tensors["people.sketch"] = metric.learned_from.sketch.smallest
        tensors["people.keys"] = metric.learned_from.keys
    radii = [
        None if p.reach is None else {"radius": p.reach.radius, "coverage": p.reach.coverage}
        for p in parts.values()
    ]
    origin = None if metric.origin is None else dataclasses.asdict(metric.origin)
    return tensors, {
        "kind": "projection",
        "labels": metric.labels,
        "origin": origin,
        "reach": radii[0],
        "refits": radii[1 : 1 + len(metric.refits)],
        "placebos": radii[1 + len(metric.refits) :],
    }


def _read_about(text: str) -> _About:
    version = json.loads(text).get("format") if text.startswith("{") else None
    if isinstance(version, int) and version > FORMAT:
        raise ValueError("it is from a newer version; upgrade likewise")
    return _About.model_validate_json(text)


def _build(about: _About, tensors: Mapping[str, np.ndarray]) -> QuadraticMetric | ProjectionMetric:
    for name, tensor in tensors.items():
        if tensor.dtype != TYPES.get(name, np.float64):
            raise ValueError(f"its numbers {name[:40]!r} are of another type")
    if about.kind == "quadratic":
        return QuadraticMetric(_matrix(tensors["sigma"]), about.features)
    if (len(about.refits) > 0) != ("groups" in tensors):
        raise ValueError("its refits and its groups do not go together")
    groups = tensors["groups"] if about.refits else None
    if groups is not None and not (
        groups.ndim == 1
        and about.origin is not None
        and len(groups) == about.origin.n
        and groups.min(initial=0) >= 0
        and groups.max(initial=0) < len(about.refits)
    ):
        raise ValueError("its groups are not those of its sample")
    directions = tensors.get("directions")
    if directions is not None and len(_matrix(directions)) != len(about.labels):
        raise ValueError("its directions and their labels do not go together")
    return ProjectionMetric(
        _matrix(tensors["free"]),
        about.features,
        directions=directions,
        labels=about.labels,
        origin=about.origin,
        reach=_reach(tensors, "", about.reach),
        refits=_others(about.features, tensors, "refit", about.refits),
        groups=groups,
        placebos=_others(about.features, tensors, "placebo", about.placebos),
        learned_from=_learned_from(tensors, about),
        attached=about.attached,
    )


def _learned_from(tensors: Mapping[str, np.ndarray], about: _About) -> LearnedFrom | None:
    if "people.keys" not in tensors:
        return None
    sketch, keys = tensors["people.sketch"], tensors["people.keys"]
    n = 0 if about.origin is None else about.origin.n
    if sketch.ndim != 1 or keys.shape != (n,) or not n or (np.diff(sketch) == 0).any():
        raise ValueError("its people are not those of its sample")
    return LearnedFrom(Sketch(np.sort(sketch), n), keys)


def _others(
    features: tuple[str, ...],
    tensors: Mapping[str, np.ndarray],
    what: str,
    about: tuple[_Radius | None, ...],
) -> tuple[ProjectionMetric, ...]:
    """Return the refits or the placebos that came along."""
    return tuple(
        ProjectionMetric(
            _matrix(tensors[f"{what}.{number}.free"]),
            features,
            reach=_reach(tensors, f"{what}.{number}.", radius),
        )
        for number, radius in enumerate(about)
    )


def _reach(
    tensors: Mapping[str, np.ndarray], prefix: str, about: _Radius | None
) -> Ellipsoid | None:
    if about is None:
        return None
    mean, covariance = tensors[f"{prefix}reach.mean"], tensors[f"{prefix}reach.covariance"]
    if mean.ndim != 1 or covariance.shape != (len(mean), len(mean)):
        raise ValueError("its reach has no proper shape")
    return Ellipsoid(mean, covariance, about.radius, about.coverage)


def _matrix(tensor: np.ndarray) -> np.ndarray:
    if tensor.ndim != 2:
        raise ValueError("its directions are not a matrix")
    return tensor

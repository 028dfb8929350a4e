"""Metrics saved as safetensors: numbers and a closed description. Opening one runs no code."""

import itertools
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pydantic

from likewise.errors import InvalidFile, InvalidMetric, in_short
from likewise.files import read_whole, write_whole
from likewise.methods.metric import (
    FairMetric,
    FunctionMetric,
    Origin,
    ProjectionMetric,
    QuadraticMetric,
)
from likewise.methods.plausible_region import Ellipsoid
from likewise.settings.choices import digest
from likewise.tensors import read_tensors

MAX_BYTES = 4_000_000_000
"""Bytes of a metric that are read."""

KEY = "likewise.metric"

PARTS = ("refits", "coarse_refits", "controls")
"""Metrics that a metric brings along."""

HASHES = ("cuts", "sketch")

Arrays = Mapping[str, np.ndarray]


class _About(pydantic.BaseModel, frozen=True, extra="forbid", allow_inf_nan=False):
    """What the numbers in the file mean. Unknown entries are refused."""

    format: Literal[4] = 4
    kind: Literal["quadratic", "projection"]
    features: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    origin: Origin | None = None
    attached: dict[str, str] = {}


def save_metric(metric: FairMetric, path: str | Path) -> None:
    """Write a metric to a file, whole or not at all."""
    from safetensors.numpy import save

    arrays, about = _to_arrays(metric)
    described = json.dumps(about, ensure_ascii=False, separators=(",", ":"))
    plain = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    write_whole(path, save(plain, {KEY: described}))


def load_metric(path: str | Path) -> QuadraticMetric | ProjectionMetric:
    """Read what `save_metric` wrote, believing nothing in it."""
    arrays, written = read_tensors(read_whole(path, most=MAX_BYTES), str(path))
    if KEY not in written:
        raise InvalidFile(f"{str(path)!r} holds no fair metric. Make one with `likewise metric`.")
    try:
        metric = _from_arrays(arrays, _About.model_validate_json(written[KEY]))
        if not (strange := arrays.keys() - _to_arrays(metric)[0].keys()):
            return metric
        problem = f"its numbers {min(strange)[:40]!r} belong nowhere"
    except KeyError as error:
        problem = f"it has no numbers {error.args[0]!r}"
    except pydantic.ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"])) or "its description"
        problem = f"{place}: {first['msg']}"
        if first["loc"] == ("format",):
            problem = "it is of another version; upgrade likewise, or learn the metric again"
    except (ValueError, RuntimeError) as error:
        problem = in_short(error)
    raise InvalidFile(f"{str(path)!r} is damaged or holds no fair metric: {problem}.")


def metric_fingerprint(metric: FairMetric) -> str:
    """Return a sha256 of all that a metric is, without what is attached to it."""
    if isinstance(metric, FunctionMetric):  # which is what it does
        points = np.random.default_rng(0).normal(size=(2, 16, metric.free.shape[1]))
        return digest([metric.squared_distance(*points), metric.name])
    if not metric.quadratic:  # one's own, which is its parameters
        return digest(metric)
    arrays, about = _to_arrays(metric)
    return digest([arrays, {**about, "attached": {}}])


def check_belongs(metric: FairMetric, features: Sequence[str]) -> None:
    """Refuse a metric that was made for other features than those of the audit."""
    if not metric.quadratic:
        return
    d = metric.free.shape[1]
    if d != len(features):
        here = f"but there are {len(features)} here"
        raise InvalidMetric(f"The fair metric was made for {d} features, {here}.")
    for place, (there, here) in enumerate(zip(metric.features, features, strict=False), 1):
        if there != here:
            raise InvalidMetric(
                f"The fair metric was made for other features, or for another order of them: "
                f"feature {place} is {there!r} there and {here!r} here."
            )


def _to_arrays(metric: FairMetric) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Return the numbers of a metric, and as JSON what they mean."""
    if isinstance(metric, QuadraticMetric):
        about = _About(kind="quadratic", features=metric.features)
        return {"sigma": metric.sigma}, about.model_dump(mode="json")
    if not isinstance(metric, ProjectionMetric):
        name = getattr(metric, "name", type(metric).__name__)
        raise InvalidMetric(
            f"The metric {name!r} cannot be saved: files hold matrices and directions only. "
            "Name it where it is needed instead (metric.name)."
        )
    arrays = {name: getattr(metric, name) for name in ("directions", *HASHES)}
    of_parts = {f"{where}.{i}.": p for where in PARTS for i, p in enumerate(getattr(metric, where))}
    for prefix, part in {"": metric, **of_parts}.items():
        arrays[f"{prefix}free"] = part.free
        if part.reach is not None:
            arrays[f"{prefix}reach.mean"] = part.reach.mean
            arrays[f"{prefix}reach.covariance"] = part.reach.covariance
            arrays[f"{prefix}reach.size"] = np.array([part.reach.radius, part.reach.coverage])
    about = _About(
        kind="projection",
        features=metric.features,
        labels=metric.labels,
        origin=metric.origin,
        attached=dict(metric.attached),
    )
    found = {name: array for name, array in arrays.items() if array is not None}
    return found, about.model_dump(mode="json")


def _from_arrays(arrays: Arrays, about: _About) -> QuadraticMetric | ProjectionMetric:
    """Return the metric that `_to_arrays` described; what does not fit together is an error."""
    for name, array in arrays.items():
        hashes = name in HASHES
        if array.dtype != (np.uint64 if hashes else np.float64):
            raise ValueError(f"its numbers {name[:40]!r} are of another type")
        if array.ndim != (1 if hashes or name.endswith(("mean", "size")) else 2):
            raise ValueError(f"its numbers {name[:40]!r} have no proper shape")
        if hashes and (array[1:] < array[:-1]).any():
            raise ValueError("its hashes are not in order")
    if about.kind == "quadratic":
        return QuadraticMetric(arrays["sigma"], about.features)

    def part(prefix: str = "", **more: Any) -> ProjectionMetric:
        reach = None
        if f"{prefix}reach.mean" in arrays:
            mean, covariance, (radius, coverage) = (
                arrays[f"{prefix}reach.{name}"] for name in ("mean", "covariance", "size")
            )
            if covariance.shape != (len(mean), len(mean)):
                raise ValueError("its plausible region has no proper shape")
            reach = Ellipsoid(mean, covariance, float(radius), float(coverage))
        return ProjectionMetric(arrays[f"{prefix}free"], about.features, reach=reach, **more)

    own: dict[str, Any] = {name: arrays.get(name) for name in ("directions", *HASHES)}
    own |= {name: getattr(about, name) for name in ("labels", "origin", "attached")}
    for where in PARTS:
        prefixes = itertools.takewhile(
            lambda prefix: f"{prefix}free" in arrays, (f"{where}.{i}." for i in itertools.count())
        )
        own[where] = tuple(map(part, prefixes))
    if own["directions"] is not None and len(own["directions"]) != len(about.labels):
        raise ValueError("its directions and their labels do not go together")
    if (0 if own["cuts"] is None else own["cuts"].size + 1) != len(own["refits"]):
        raise ValueError("its refits and its groups do not go together")
    return part(**own)

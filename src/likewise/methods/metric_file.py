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
from likewise.fingerprints import of_arrays
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

FORMAT = 3

LARGEST = 4_000_000_000
"""Bytes of a metric that are read."""

KEY = "likewise.metric"

PARTS = {"refit": "refits", "coarse": "coarse_refits", "placebo": "placebos"}
"""Metrics that a metric brings along: how their numbers are called, and where they stand."""

Arrays = Mapping[str, np.ndarray]


class _Region(pydantic.BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    radius: float
    coverage: float


class _About(pydantic.BaseModel):
    """What the numbers in the file mean. Unknown entries are refused."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    format: Literal[3]
    kind: Literal["quadratic", "projection"]
    features: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    origin: Origin | None = None
    reach: _Region | None = None
    refits: tuple[_Region | None, ...] = ()
    coarse_refits: tuple[_Region | None, ...] = ()
    placebos: tuple[_Region | None, ...] = ()
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
    from safetensors.numpy import save

    arrays, about = to_arrays(metric, metric.attached if attached is None else attached)
    described = json.dumps(about, ensure_ascii=False, separators=(",", ":"))
    plain = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    write_whole(path, save(plain, {KEY: described}))


def load_metric(path: str | Path) -> QuadraticMetric | ProjectionMetric:
    """Read what `save_metric` wrote, believing nothing in it."""
    arrays, written = read_tensors(read_whole(path, most=LARGEST), str(path))
    if KEY not in written:
        raise InvalidFile(f"{str(path)!r} holds no fair metric. Make one with `likewise metric`.")
    try:
        return from_arrays(arrays, json.loads(written[KEY]))
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
    if isinstance(metric, FunctionMetric):  # which is what it does
        points = np.random.default_rng(0).normal(size=(2, 16, metric.free.shape[1]))
        return of_arrays({"values": metric.squared_distance(*points)}, metric.name)
    if not metric.quadratic:  # one's own, which is its parameters
        return digest(metric)
    return of_arrays(*to_arrays(metric, {}))


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


def to_arrays(
    metric: FairMetric, attached: Mapping[str, str] | None = None
) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Return the numbers of a metric, and as JSON what they mean."""
    about: dict[str, Any] = {"format": FORMAT, "features": metric.features}
    about["attached"] = dict(metric.attached if attached is None else attached)
    arrays: dict[str, np.ndarray] = {}
    if isinstance(metric, QuadraticMetric):
        arrays["sigma"] = metric.sigma
        about["kind"] = "quadratic"
    elif isinstance(metric, ProjectionMetric):
        about |= {"kind": "projection", "labels": metric.labels, "origin": None}
        if metric.origin is not None:
            about["origin"] = dataclasses.asdict(metric.origin)
        about["reach"] = _write(arrays, "", metric)
        for prefix, where in PARTS.items():
            parts = enumerate(getattr(metric, where))
            about[where] = [_write(arrays, f"{prefix}.{number}.", part) for number, part in parts]
        for name in ("directions", "cuts", "sketch"):
            if getattr(metric, name) is not None:
                arrays[name] = getattr(metric, name)
    elif isinstance(metric, FunctionMetric):
        raise InvalidMetric(
            f"The metric {metric.name!r} is a function, which no file can hold. Name it where it "
            f"is needed instead (metric.name = {metric.name!r})."
        )
    else:
        raise InvalidMetric(
            f"A {type(metric).__name__} cannot be saved: it is not quadratic. Name it where it is "
            "needed instead (metric.name)."
        )
    return arrays, _About.model_validate(about).model_dump(mode="json")


def from_arrays(arrays: Arrays, about: Any) -> QuadraticMetric | ProjectionMetric:
    """Return the metric that `to_arrays` described; what does not fit together is an error."""
    version = about.get("format") if isinstance(about, dict) else None
    if isinstance(version, int) and version > FORMAT:
        raise ValueError("it is from a newer version; upgrade likewise")
    if version in (1, 2):
        raise ValueError("it is from likewise 0.1; learn it again with likewise metric")
    known = _About.model_validate_json(json.dumps(about))
    for name, array in arrays.items():
        if array.dtype != (np.uint64 if name in ("cuts", "sketch") else np.float64):
            raise ValueError(f"its numbers {name[:40]!r} are of another type")
    if known.kind == "quadratic":
        return QuadraticMetric(_matrix(arrays["sigma"]), known.features)
    directions, cuts, sketch = (arrays.get(name) for name in ("directions", "cuts", "sketch"))
    if directions is not None and len(_matrix(directions)) != len(known.labels):
        raise ValueError("its directions and their labels do not go together")
    if (0 if cuts is None else cuts.size + 1) != len(known.refits):
        raise ValueError("its refits and its groups do not go together")
    for hashes in (cuts, sketch):
        if hashes is not None and not (hashes.ndim == 1 and (hashes[1:] > hashes[:-1]).all()):
            raise ValueError("its hashes are not in order")
    return ProjectionMetric(
        _matrix(arrays["free"]),
        known.features,
        directions=directions,
        labels=known.labels,
        origin=known.origin,
        reach=_read(arrays, "", known.reach),
        cuts=cuts,
        sketch=sketch,
        attached=known.attached,
        **{
            where: tuple(
                ProjectionMetric(
                    _matrix(arrays[f"{prefix}.{number}.free"]),
                    known.features,
                    reach=_read(arrays, f"{prefix}.{number}.", region),
                )
                for number, region in enumerate(getattr(known, where))
            )
            for prefix, where in PARTS.items()
        },
    )


def _write(
    arrays: dict[str, np.ndarray], prefix: str, metric: ProjectionMetric
) -> dict[str, float] | None:
    arrays[f"{prefix}free"] = metric.free
    if metric.reach is None:
        return None
    arrays[f"{prefix}reach.mean"] = metric.reach.mean
    arrays[f"{prefix}reach.covariance"] = metric.reach.covariance
    return {"radius": metric.reach.radius, "coverage": metric.reach.coverage}


def _read(arrays: Arrays, prefix: str, about: _Region | None) -> Ellipsoid | None:
    if about is None:
        return None
    mean, covariance = arrays[f"{prefix}reach.mean"], arrays[f"{prefix}reach.covariance"]
    if mean.ndim != 1 or covariance.shape != (len(mean), len(mean)):
        raise ValueError("its plausible region has no proper shape")
    return Ellipsoid(mean, covariance, about.radius, about.coverage)


def _matrix(array: np.ndarray) -> np.ndarray:
    if array.ndim != 2:
        raise ValueError("its directions are not a matrix")
    return array

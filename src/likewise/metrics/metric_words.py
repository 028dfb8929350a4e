"""What a fair metric looks like, in words: which features each free direction is close to."""

import math
import textwrap
from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

from likewise.metrics.origin import Origin

SHOWN = 12
"""Directions printed before the rest is only counted."""


def describe(
    title: str,
    dimension: int,
    directions: Float[np.ndarray, "m d"],
    features: Sequence[str],
    labels: Sequence[str] = (),
) -> str:
    """Return a title and one line a direction with its angles to the nearest coordinate axes."""
    m, d = directions.shape
    names = features or [f"x{j}" for j in range(d)]
    labels = labels or [f"direction {i + 1}" for i in range(m)]
    lines = [
        textwrap.fill(
            f"{label}: {', '.join(nearest_axes(direction, names))}",
            width=80,
            initial_indent="  ",
            subsequent_indent="    ",
            break_on_hyphens=False,
        )
        for label, direction in zip(labels[:SHOWN], directions[:SHOWN], strict=True)
    ]
    more = [f"  … and {m - SHOWN} more"] if m > SHOWN else []
    count = "1 direction" if dimension == 1 else f"{dimension} directions"
    return "\n".join([f"{title}: {count} of {d} free (angles to the axes)", *lines, *more])


def tell_origin(origin: Origin) -> str:
    """Say what a metric was learned from, and how well the traits are predicted by it."""
    held = f", C = {origin.C:g}" if origin.C is not None else ""
    lines = [f"Learned from {origin.n} people ({origin.source}){held}"]
    if origin.judged is not None:
        lines.append(f"  penalty and predictions were judged by {origin.judged} of them")
    if origin.may_matter:
        lines.append(f"  nobody moves along what may matter: {', '.join(origin.may_matter)}")
    for trait in origin.traits:
        missing = f"; {trait.missing} missing" if trait.missing else ""
        lines.append(
            f"  {trait.name}: predicted with {trait.before}{missing};\n"
            f"    without the free directions {trait.after}"
        )
        if origin.C is None:
            lines.append(f"    penalty {trait.penalty:.2g} a person ({origin.penalty})")
        if trait.left_out is not None and trait.left_out.hardly:
            lines.append(
                f"    {trait.name} can hardly be predicted: {trait.left_out}.\n"
                f"    Its directions may be chance, and whatever is found along them too."
            )
    return "\n".join(lines)


def nearest_axes(
    direction: Float[np.ndarray, " d"], features: Sequence[str], top: int = 4
) -> list[str]:
    """Name the ``top`` coordinate axes nearest to a direction, with the angle to each."""
    length = np.linalg.norm(direction)
    if length == 0:
        return ["no direction: nothing predicts it"]
    cosines = np.abs(direction / length)
    order = np.argsort(-cosines, kind="stable")[:top].tolist()
    return [f"{features[j]} {angle(float(cosines[j])):.0f}°" for j in order]


def angle(cosine: float) -> float:
    """Return the angle in degrees, from 0 to 90, between lines with this cosine."""
    return math.degrees(math.acos(min(1.0, abs(cosine))))

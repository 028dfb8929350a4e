"""Placebos as a picture: a row of dots, and the estimate with the true traits among them."""

import math

from markupsafe import Markup

from likewise.record import PlaceboRecord
from likewise.report.axis import Axis
from likewise.report.charts import number_short
from likewise.report.numbers import number
from likewise.report.svg import dot, label, line, picture

PLACEBOS, TRUE, FOOT = 22, 52, 78


def placebo_strip(placebo: PlaceboRecord, delta: float) -> Markup:
    """Draw every placebo as a dot, the true estimate below them, and the tolerance."""
    known = [value for value in placebo.placebos if math.isfinite(value)]
    axis = Axis.of([1.0, delta, placebo.estimate, *known]).widened(0.05)
    at = axis.at
    parts = [line(0, FOOT, 100, FOOT, "axis")]
    parts += [label(number_short(t), at(t), FOOT + 18, "tick") for t in axis.ticks()]
    parts += [line(at(delta), 8, at(delta), FOOT, "delta")]
    parts += [dot(at(value), PLACEBOS, 4, "placebo") for value in known]
    parts.append(dot(at(placebo.estimate), TRUE, 7, "estimate"))
    low, high = min(known, default=math.nan), max(known, default=math.nan)
    said = (
        f"With the true traits {number(placebo.estimate)}; with the traits shuffled "
        f"{number(low)} to {number(high)} ({len(placebo.placebos)} placebos)."
    )
    return picture(*parts, height=FOOT + 26, label=said, name="placebo-strip")

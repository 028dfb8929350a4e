"""Numbers as people write them."""

import math


def number(value: float, digits: int = 4) -> str:
    """Return a number as people write it: four digits, no noise."""
    if math.isnan(value):
        return "–"
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    if value != 0 and (abs(value) >= 1e5 or abs(value) < 1e-3):
        return f"{value:.2e}"
    return f"{value:.{digits}g}" if abs(value) >= 1000 else f"{value:.{digits - 1}f}"


def p_value(value: float) -> str:
    """Return a p-value; below one in ten thousand only that is said."""
    return "–" if math.isnan(value) else "<0.0001" if value < 1e-4 else f"{value:.4f}"


def percent(share: float) -> str:
    """Return a share as a percentage without needless digits."""
    return f"{100 * share:.4g} %"

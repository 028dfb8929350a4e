"""The two numbers every statement is made with, and the ranges they must lie in."""

import math

from likewise.errors import InvalidSettings


def check_alpha(alpha: float, most: float = 1.0) -> None:
    """Refuse an error rate outside (0, 1), or above ``most``."""
    if not 0 < alpha < 1 or alpha > most:
        raise InvalidSettings(f"alpha must lie between 0 and {most:g} (got {alpha:g}).")


def check_delta(delta: float) -> None:
    """Refuse a tolerance below one: nobody's worst similar person fares better."""
    if not 1 <= delta < math.inf:
        raise InvalidSettings(f"delta must be a number of at least 1 (got {delta:g}).")

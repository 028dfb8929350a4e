"""Multiplicity: p-values corrected for the number of tests (Holm 1979)."""

from collections.abc import Hashable, Mapping
from typing import TypeVar

from likewise.errors import InvalidSample

Key = TypeVar("Key", bound=Hashable)


def holm_adjusted(p_values: Mapping[Key, float]) -> dict[Key, float]:
    r"""Holm's adjusted p-values, valid whatever the dependence between the tests.

    In increasing order, :math:`\tilde p_{(i)} = \max_{j \le i} \min(1, (m - j + 1) p_{(j)})`: a
    hypothesis is rejected at level :math:`\alpha` if its adjusted p-value is at most
    :math:`\alpha`, and then any true one is rejected with probability at most :math:`\alpha`. A
    test that could not be made counts, with a p-value of 1.

    Examples
    --------
    >>> holm_adjusted({"sex": 0.01, "race": 0.04, "age": 0.03})
    {'sex': 0.03, 'race': 0.06, 'age': 0.06}
    """
    for name, p in p_values.items():
        if not 0 <= p <= 1:
            raise InvalidSample(
                f"The p-value of {name!r} is {p:g}. A test that could not be made counts as p = 1."
            )
    ordered = sorted(p_values, key=lambda name: p_values[name])
    adjusted, largest = {}, 0.0
    for rank, name in enumerate(ordered):
        largest = max(largest, min(1.0, (len(ordered) - rank) * p_values[name]))
        adjusted[name] = largest
    return {name: adjusted[name] for name in p_values}

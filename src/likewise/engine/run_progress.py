"""How far a long run is, and what it has warned of."""

import contextlib
import warnings
from collections.abc import Callable, Iterator

from likewise.errors import LikewiseWarning

Progress = Callable[[str, int, int], None]
"""Told what is being done, how much of it is done, and how much there is."""


@contextlib.contextmanager
def noted_warnings() -> Iterator[Callable[[], tuple[str, ...]]]:
    """Yield what returns the warnings so far; they are given to the user at the end."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", LikewiseWarning)
        yield lambda: tuple(
            str(w.message) for w in caught if issubclass(w.category, LikewiseWarning)
        )
    for warning in caught:
        warnings.warn(warning.message, stacklevel=3)

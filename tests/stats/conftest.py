"""Outcomes made by hand, for tests of statistics."""

from typing import Any

import pytest

from helpers import outcomes_of


@pytest.fixture(name="outcomes_of")
def _outcomes_of() -> Any:
    return outcomes_of

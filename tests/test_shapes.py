"""The test run checks shapes and types of every call; these tests fail if it ever stops."""

import numpy as np
import pytest
from jaxtyping import TypeCheckError

from likewise.audit_data import AuditData, missing
from likewise.loss import margin


def test_an_array_with_one_axis_too_many_is_caught() -> None:
    with pytest.raises(TypeCheckError):
        missing(np.zeros((2, 2)))


def test_two_arguments_that_disagree_on_the_number_of_people_are_caught() -> None:
    with pytest.raises(TypeCheckError):
        margin(np.zeros((3, 2)), np.zeros(4, dtype=np.int64))


def test_an_array_of_whole_numbers_is_no_array_of_floats() -> None:
    with pytest.raises(TypeCheckError):
        AuditData(x=np.zeros((2, 2), dtype=np.int64), y=np.array([0, 1]))


def test_the_right_shapes_pass() -> None:
    assert margin(np.zeros((3, 2)), np.zeros(3, dtype=np.int64)).shape == (3,)

import pytest

from likewise.methods.metric import columns_of

FEATURES = ("age", "sex=Male", "sexes", "cat__sex_Male", "cat__sex_offences", "num__hours")


@pytest.mark.parametrize(
    ("name", "levels", "expected"),
    [
        ("age", (), [0]),
        ("sex", (), [1]),
        ("sex", ("Male", "Female"), [1, 3]),
        ("sexes", (), [2]),
        ("hours", (), [5]),
        ("race", ("White",), []),
    ],
)
def test_a_column_is_found_by_the_names_encoders_and_pipelines_give(name, levels, expected):
    assert columns_of(FEATURES, name, levels) == expected

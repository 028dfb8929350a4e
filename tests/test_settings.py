import pytest
from hypothesis import given
from hypothesis import strategies as st

from likewise.errors import InvalidFile, InvalidSettings
from likewise.settings import Settings, make_settings, read_settings, write_settings


def test_the_defaults_are_the_papers():
    settings = Settings()
    assert (settings.delta, settings.alpha, settings.flow.lam, settings.flow.time) == (
        1.25,
        0.05,
        50.0,
        5.0,
    )
    assert settings.decide.map == "auto"


@given(
    delta=st.floats(1, 5),
    alpha=st.floats(0.001, 0.5),
    label=st.text(min_size=1, max_size=20),
    lam=st.floats(1e-3, 1e6),
)
def test_a_settings_file_is_read_back_as_it_was(tmp_path_factory, delta, alpha, label, lam):
    settings = make_settings(
        {"delta": delta, "alpha": alpha, "columns": {"label": label}, "flow": {"lam": lam}}
    )
    path = tmp_path_factory.mktemp("settings") / "audit.toml"
    path.write_text(write_settings(settings), encoding="utf-8", newline="")
    assert read_settings(path) == settings


def test_the_hash_changes_with_any_choice_and_with_nothing_else():
    assert Settings().hash == Settings().hash
    assert Settings().hash == make_settings({"delta": 1.25}).hash
    assert Settings().hash != Settings().changed(flow__lam=49.0).hash
    assert Settings().hash != Settings().changed(seed=1).hash


def test_the_deciding_map_may_stand_alone():
    assert make_settings({"decide": "reach"}).decide.map == "reach"


@pytest.mark.parametrize(
    ("choices", "word"),
    [
        ({"alpha": 0}, "alpha"),
        ({"alpha": 1.0}, "alpha"),
        ({"delta": 0.99}, "delta"),
        ({"delta": float("nan")}, "delta"),
        ({"flow": {"lam": 0}}, "flow.lam"),
        ({"flow": {"lam": -1}}, "flow.lam"),
        ({"flow": {"time": 0}}, "flow.time"),
        ({"decide": {"map": "magic"}}, "decide.map"),
        ({"cap": 1.2}, "cap"),
        ({"colour": "red"}, "colour"),
    ],
)
def test_a_bad_choice_is_named_in_one_sentence(choices, word):
    with pytest.raises(InvalidSettings) as error:
        make_settings(choices)
    assert word in str(error.value)
    assert "\n" not in str(error.value)


def test_a_file_that_is_no_settings_file_is_refused(tmp_path):
    with pytest.raises(InvalidFile, match="There is no file"):
        read_settings(tmp_path / "absent.toml")
    (tmp_path / "bad.toml").write_text("delta = = 2")
    with pytest.raises(InvalidFile, match="not a TOML"):
        read_settings(tmp_path / "bad.toml")

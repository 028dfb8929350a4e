"""A model that is asked about every row once gives the model's own answers."""

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.neighbors import KNeighborsClassifier

import likewise
from likewise.models import as_model
from likewise.models import recalled as module
from likewise.models.black_box import from_callable
from likewise.models.recalled import Recalled


class Counted:
    """A function of rows that notes what it was asked, and sees every bit."""

    def __init__(self):
        self.rows = []

    def __call__(self, x):
        self.rows += [row.tobytes() for row in x]
        score = np.where(np.isnan(x), 7.0, x) @ np.arange(1, x.shape[1] + 1)
        return 1 / (1 + np.exp(-np.sin(score)))


@pytest.fixture
def counted():
    return Counted()


def test_answers_are_the_models_own_and_nothing_is_asked_twice(counted):
    rng = np.random.default_rng(0)
    rows = rng.integers(3, size=(500, 4)).astype(float)
    rows[::7, 2] = np.nan
    model = Recalled(from_callable(counted))
    answers = [model(part) for part in (rows[:200], rows[100:], rows)]
    assert len(counted.rows) == len(set(counted.rows))
    plain = from_callable(Counted())
    for part, found in zip((rows[:200], rows[100:], rows), answers, strict=True):
        assert np.array_equal(found, plain(part))


def test_rows_that_differ_in_digits_too_small_to_add_up_are_told_apart():
    # Beside a time in nanoseconds nothing else changes a sum of floats.
    rows = np.array([[1.7e18, 0.0], [1.7e18, 1.0], [1.7e18, -0.0]])
    model = Recalled(from_callable(lambda x: 0.25 + 0.5 * x[:, 1] - 0.1 * np.signbit(x[:, 1])))
    for _ in range(2):
        assert model(rows)[:, 0].tolist() == [0.25, 0.75, 0.15]


def test_rows_that_do_not_come_back_are_not_remembered(counted, monkeypatch):
    monkeypatch.setattr(module, "MANY", 100)
    model = Recalled(from_callable(counted))
    rows = np.random.default_rng(0).normal(size=(300, 3))
    model(rows[:99])
    assert model.pays
    model(rows)
    assert not model.pays
    assert model._memory is None
    assert np.array_equal(model(rows), from_callable(Counted())(rows))


def test_memory_has_an_end(counted, monkeypatch):
    monkeypatch.setattr(module, "ROOM", 60)
    model = Recalled(from_callable(counted))
    rows = np.arange(60.0).reshape(20, 3)
    for _ in range(2):
        assert np.array_equal(model(rows), from_callable(Counted())(rows))
    assert len(counted.rows) == 40


def _within_cells(cells, x, rng):
    """Move every number anywhere between its thresholds, onto some of them, and beside them."""
    moved = x.copy()
    for j, cuts in enumerate(cells.cuts):
        if len(cuts):
            near = cuts[rng.integers(len(cuts), size=len(x))]
            beside = np.nextafter(near, near + rng.choice([-1.0, 1.0], len(x)))
            moved[:, j] = np.choose(rng.integers(3, size=len(x)), [near, beside, moved[:, j]])
    return moved + np.where(rng.random(x.shape) < 0.5, 1e-9 * rng.normal(size=x.shape), 0.0)


def _trees(kind, x, y):
    if kind == "lightgbm":
        library = pytest.importorskip("lightgbm")
        return library.LGBMClassifier(n_estimators=5, n_jobs=1, verbose=-1).fit(x, y)
    if kind == "xgboost":
        return pytest.importorskip("xgboost").XGBClassifier(n_estimators=5, n_jobs=1).fit(x, y)
    return RandomForestClassifier(5, max_depth=4, random_state=0).fit(x, y)


TREES = pytest.mark.parametrize("kind", ["xgboost", "lightgbm", "forest"])


@TREES
def test_rows_between_the_same_thresholds_have_the_same_answer(kind):
    rng = np.random.default_rng(2)
    x = rng.normal(size=(400, 3)).round(1)
    model = as_model(_trees(kind, x, (x[:, 0] + x[:, 1] ** 2 > 0.5).astype(int)))
    rows = x[rng.integers(400, size=4000)]
    rows = _within_cells(model.cells, rows, rng)
    rows[::9, 1] = np.nan
    numbers = model.cells(rows)
    _, first, back = np.unique(numbers, axis=1, return_index=True, return_inverse=True)
    assert len(first) < 0.8 * len(rows)
    answers = model(rows)
    assert np.array_equal(answers[first][back.ravel()], answers)
    assert np.array_equal(Recalled(model)(rows), answers)


@TREES
def test_places_along_axes_are_in_the_cells_of_their_rows(kind):
    rng = np.random.default_rng(3)
    x = rng.normal(size=(400, 4)).round(1)
    x[:, 3] = rng.integers(2, size=400)
    model = as_model(_trees(kind, x, (x[:, 0] + x[:, 1] ** 2 + x[:, 3] > 0.9).astype(int)))
    for axes in (rng.normal(size=(2, 4)), [0.1, 0.02, 0, 0.3] * rng.normal(size=(3, 4))):
        u = rng.normal(size=(60, 5, len(axes)))
        steps = u / np.linalg.norm(u, axis=2, keepdims=True)
        who = rng.integers(400, size=60)
        rows = (x[who, None] + steps @ axes).reshape(300, 4)
        numbers = model.cells.along(x, axes, np.ones(400))(steps, who)
        assert np.array_equal(numbers, model.cells(rows))
        recalled = Recalled(model)
        for _ in range(2):
            found = recalled.along(x, axes, np.ones(400))(steps, who)
            assert np.array_equal(found, model(rows))
        assert recalled.asked < len(np.unique(numbers, axis=1).T) + 1


def test_a_forest_answers_tree_by_tree_to_the_last_digit():
    rng = np.random.default_rng(4)
    x = rng.normal(size=(300, 3))
    for forest, y in (
        (RandomForestClassifier(7, random_state=0), rng.integers(3, size=300)),
        (RandomForestRegressor(7, random_state=0), x[:, 0]),
    ):
        own = forest.fit(x, y)
        answer = own.predict_proba if hasattr(own, "predict_proba") else own.predict
        model = as_model(own, output="values" if answer == own.predict else None)
        assert np.array_equal(model(x), answer(x).reshape(300, -1))
        with (
            pytest.raises(likewise.LikewiseError, match="cannot be run"),
            np.errstate(all="ignore"),
        ):
            model(x * 1e300)


def test_models_that_see_more_than_thresholds_have_no_cells():
    x = np.random.default_rng(0).normal(size=(100, 2))
    y = (x[:, 0] > 0).astype(int)
    assert as_model(KNeighborsClassifier().fit(x, y)).cells is None
    xgboost = pytest.importorskip("xgboost")
    odd = xgboost.XGBClassifier(n_estimators=2, missing=-9.0, n_jobs=1).fit(x, y)
    assert as_model(odd).cells is None


def test_an_audit_asks_a_tree_about_few_of_the_places_it_looks_at(monkeypatch):
    rng = np.random.default_rng(1)
    x = rng.normal(size=(200, 3))
    y = (x[:, 0] + x[:, 1] > 0).astype(int)
    people = likewise.AuditData.from_arrays(x, y, {"g": x[:, 0] > 1})
    tree = RandomForestClassifier(3, max_depth=3, random_state=0).fit(x, 1 - y)
    asked = []
    answer = RandomForestClassifier.predict_proba
    monkeypatch.setattr(
        RandomForestClassifier,
        "predict_proba",
        lambda self, x: asked.append(len(x)) or answer(self, x),
    )
    metric = likewise.ignoring([[1.0, 0.3, 0.0]]).with_reach(x)
    settings = likewise.Settings(checks="core").changed(map="reach")
    result = likewise.audit(tree, people, metric=metric, settings=settings)
    # One free direction has 60 places a person.
    assert result.outcome
    assert 200 < sum(asked) < 200 * 60 / 2
